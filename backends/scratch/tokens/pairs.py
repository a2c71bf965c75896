"""Hash tables of pairs in lists: open addressing with linear probing (Knuth 6.4, algorithm L)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SPREAD = 7919
"""A prime that spreads neighbouring keys, to avoid clusters of pairs with a common number."""

FREE = -1
"""The key of an empty slot."""

LOAD = 0.5
"""The load factor."""


@dataclass(frozen=True)
class PairTable:
    """A hash table: keys left · width + right, and values, which are `none` in empty slots.

    Probing begins at slot key · spread mod size, and ends at the key or an empty slot; the last slot is
    empty.
    """

    keys: tuple[int, ...]
    values: tuple[int, ...]
    width: int
    size: int
    none: int
    spread = SPREAD


def pair_table(pairs: Mapping[tuple[int, int], int], width: int, none: int) -> PairTable:
    """Build the table of these pairs, whose right numbers are below `width`."""
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
    """Build a trie: the next node by node and symbol, with root 0, and the word of each node from 1."""
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
