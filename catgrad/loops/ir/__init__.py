"""Intermediate representation of kernels: indices, scalars, loop nests and steps."""
