"""Scratch's virtual machines, where tests find them, and small projects to run in them."""
