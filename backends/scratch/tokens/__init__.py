"""Tokenizers and text generators as sprites."""
