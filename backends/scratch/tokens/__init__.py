"""Tokenizers and writers of text as sprites."""
