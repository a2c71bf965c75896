"""Kernels as scripts: loops written out, sums in one expression, places that run along, and variables."""
