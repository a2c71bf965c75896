"""Passes: transformations of kernels that keep their meaning."""
