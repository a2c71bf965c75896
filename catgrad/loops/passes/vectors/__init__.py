"""Passes for the lanes of vectors: which loops run in them, and the layout of what they load."""
