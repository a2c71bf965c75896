"""Pairs of numbers found in lists at once: open addressing with linear probing (Knuth 6.4, algorithm L)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SPREAD = 7919
"""A prime that sends neighbouring keys to places far apart, or pairs of one number would crowd together."""

FREE = -1
"""The key of a place without pair."""

LOAD = 0.5
"""The share of places that are taken."""


@dataclass(frozen=True)
class PairTable:
    """Lists of keys, left · width + right, and of their values, which are `none` where there is no pair.

    The search for a key begins at its place, key · spread mod size, and ends at the key or a free place; the
    last place is free.
    """

    keys: tuple[int, ...]
    values: tuple[int, ...]
    width: int
    size: int
    none: int
    spread = SPREAD


def pair_table(pairs: Mapping[tuple[int, int], int], width: int, none: int) -> PairTable:
    """The table of these pairs, whose right numbers are below `width`."""
    size = round(len(pairs) / LOAD) + 1
    keys, values = [FREE] * (size + 1), [none] * (size + 1)
    for (left, right), value in pairs.items():
        key = left * width + right
        place = key * SPREAD % size
        while keys[place] != FREE:
            place += 1
        if place + 1 == len(keys):
            keys.append(FREE)
            values.append(none)
        keys[place], values[place] = key, value
    return PairTable(tuple(keys), tuple(values), width, size, none)


def trie(words: Iterable[Sequence[int]]) -> tuple[dict[tuple[int, int], int], list[int]]:
    """The next node by a node and a symbol, where the root is 0; and of each other node the word, from 1."""
    nodes: dict[tuple[int, int], int] = {}
    ends: list[int] = []
    for number, word in enumerate(words, start=1):
        node = 0
        for symbol in word:
            node = nodes.setdefault((node, symbol), len(nodes) + 1)
            ends += [0] * (node - len(ends))
        if node:
            ends[node - 1] = number
    return nodes, ends
