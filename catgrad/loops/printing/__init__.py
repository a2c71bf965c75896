"""Printing: kernels as lines of a language, whose syntax is macros of its dialect."""
