"""Assembler: program texts to Scratch files."""

from .files import count_blocks, json_size, sb3, sprite3

__all__ = ["count_blocks", "json_size", "sb3", "sprite3"]
