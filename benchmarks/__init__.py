"""Benchmarks: each module prints a table of ratios to named peers, and keeps it as JSON."""
