"""Grids: which threads run which iterations, where they wait, and what one launch has."""
