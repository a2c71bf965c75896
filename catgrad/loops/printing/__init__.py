"""Printing: kernels as lines of a language, whose words are macros of its dialect."""
