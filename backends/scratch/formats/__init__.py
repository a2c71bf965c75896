"""Formats of Scratch files: projects, packed numbers, names."""
