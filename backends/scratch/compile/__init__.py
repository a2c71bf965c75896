"""Compilation of a program to a sprite: its blocks, lists, options and files."""
