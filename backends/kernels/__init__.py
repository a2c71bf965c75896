"""Kernel languages: what their targets have in common. No target itself."""
