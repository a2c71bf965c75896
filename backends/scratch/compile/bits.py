"""Bitwise exclusive or of words, where there are only numbers: two lookup tables, indexed by bytes.

Written to base 4, words add without a carry if there are three of them at most, and a digit of the sum is
odd where the exclusive or is 1. What would be item 0 of either list is 0, and Scratch takes that for it.
"""

from __future__ import annotations

from catgrad.backend import Backend

BYTES = range(1, 256)


def lists(backend: Backend) -> dict[str, list[int]]:
    """The two lists by name."""
    macros = backend.dialect.macros
    return {macros["spread_bits"](): spread_bits(), macros["odd_bits"](): odd_bits()}


def spread_bits() -> list[int]:
    """Tabulate the bits of each byte as digits in base 4."""
    return [int(f"{byte:b}", 4) for byte in BYTES]


def odd_bits() -> list[int]:
    """Tabulate the parities of each byte's digits in base 4."""
    return [sum((byte >> 2 * place & 1) << place for place in range(4)) for byte in BYTES]
