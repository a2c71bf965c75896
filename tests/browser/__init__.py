"""Scratch's editor in a browser, as a person sees it."""
