"""Printing: programs as text, for languages that have arrays."""
