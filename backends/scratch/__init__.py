"""Scratch 3: sprites that predict and learn."""
