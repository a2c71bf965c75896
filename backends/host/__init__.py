"""Emitted code called from Python: checks of arguments, and tables of arrays, for every language."""
