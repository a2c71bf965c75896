"""Passes that choose the order of loops and steps: fusion, interchange, strip mining, unrolling, threads."""
