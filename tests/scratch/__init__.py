"""Scratch's virtual machines, and small projects to run in them."""
