"""The cost model of tiles: near what an H200 took, and what it chooses for products of some models."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catgrad.loops.machine import GpuCosts
from catgrad.loops.passes.gpu.products.tilings import Tiling

CYCLES = 1750
"""Cycles of an H200 in a microsecond under load."""

BOTH, RIGHT = (True, True), (False, True)
"""Factors that warp groups turn."""


def sizes(rows, columns, terms, item_bytes=2, products=1, turned=(False, False), parts=1):
    return Tiling(parts, rows, columns, terms, item_bytes, products, GpuCosts(), True, turned)


MEASURED = [
    (sizes(32768, 2304, 768), (4, 8), 180.3),
    (sizes(32768, 3072, 768), (4, 8), 243.9),
    (sizes(32768, 768, 768), (4, 8), 65.6),
    (sizes(32768, 768, 2304), (4, 8), 163.6),
    (sizes(32768, 768, 3072), (4, 8), 215.1),
    (sizes(8192, 2304, 768), (4, 8), 57.0),
    (sizes(8192, 768, 768), (4, 4), 24.1),
    (sizes(8192, 768, 2304), (4, 4), 65.8),
    (sizes(8192, 768, 3072), (4, 4), 82.0),
    (sizes(768, 2304, 8192), (4, 4), 91.5),
    (sizes(8192, 768, 768, 4), (4, 4), 31.3),
    (sizes(8192, 768, 2304, 4), (4, 4), 85.0),
    (sizes(8192, 768, 3072, 4), (4, 4), 105.9),
    (sizes(32768, 768, 2304, 4), (4, 8), 299.6),
    (sizes(32768, 2304, 768, 4, turned=RIGHT), (4, 8), 436.7),
    (sizes(3072, 768, 1664, 4, turned=BOTH, parts=5), (4, 8), 190.5),
    (sizes(32768, 768, 2304, 4, products=6), (4, 4), 1246.2),
    (sizes(32768, 2304, 768), (4, 4), 208.5),
    (sizes(32768, 768, 2304), (4, 8), 181.9),
    (sizes(32768, 768, 768), (4, 4), 75.4),
    (sizes(32768, 768, 768), (4, 4), 82.2),
]
"""Microseconds of products of warp groups with plain results on an H200, 28 November 2026."""


@pytest.mark.parametrize(("tiling", "patch", "measured"), MEASURED)
def test_the_estimate_is_near_what_was_measured(tiling, patch, measured):
    assert 0.8 <= tiling.cycles(patch) / CYCLES / measured <= 1.2


def test_time_is_in_waves():
    """A tile more than a card has places for takes as long as twice as many tiles."""
    for patch, places in (((4, 8), 132), ((4, 6), 132), ((4, 4), 264)):
        width = 32 * patch[1]
        times = [sizes(128 * n, width, 512).cycles(patch) for n in (1, places, places + 1, 2 * places)]
        assert times[0] == times[1] == times[2] / 2 == times[3] / 2


CHOSEN = {
    "queries, keys and values": (sizes(8192, 2304, 768), (4, 6)),
    "a projection": (sizes(8192, 768, 768), (4, 6)),
    "a reverse of two waves": (sizes(8192, 768, 3072), (4, 6)),
    "the reverse of the head": (sizes(8192, 768, 50257), (4, 6)),
    "the weight of the head": (sizes(768, 50257, 8192), (4, 8)),
    "TF32": (sizes(8192, 768, 3072, 4), (4, 6)),
    "bf16x6": (sizes(8192, 768, 3072, 4, products=6), (4, 4)),
    "a layer of a small GPT": (sizes(4096, 512, 128), (4, 2)),
    "few rows": (sizes(4096, 128, 512), (2, 2)),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_tiles_fill_waves(name):
    """Products of few terms and tiles have the small tiles of threads, large ones those of warp groups."""
    tiling, patch = CHOSEN[name]
    assert tiling.best_patch() == patch
    assert tiling.by_warpgroups(patch) == (patch[0] == 4)


def test_without_warp_groups_tiles_are_those_of_threads():
    tiling = replace(sizes(8192, 768, 3072), warpgroups=False)
    assert not any(map(tiling.by_warpgroups, tiling.patches))
    assert {tiling.blocks_together(patch) for patch in tiling.patches} == {1}
