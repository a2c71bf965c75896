"""Sprites that predict and learn."""
