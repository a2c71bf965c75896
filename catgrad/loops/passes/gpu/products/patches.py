"""Patches: the rows and columns of a tile that each thread has in its registers, and slices of such tiles."""

from __future__ import annotations

from catgrad.loops.machine import SHARED_BYTES, WARP
from catgrad.loops.passes.gpu.products.thread_tiles import RUN, SIDE

WARP_COLUMNS = 8
"""Threads of a warp along the columns of a tile."""

WARP_ROWS = WARP // WARP_COLUMNS
"""Threads of a warp along the rows of a tile."""

PADDING = 4
"""Elements between the rows of a tile, so that they begin in different banks."""

LARGE_PATCH = 32
"""Sums of a thread that are enough between barriers in half as many terms."""

Digits = list[tuple[int, int]]
"""Numbers of values of digits, and their weights in a place of a tile."""


def patch_digits(lanes: int, patch: int) -> tuple[Digits, Digits]:
    """Divide a side among warps, whose lanes have runs side by side; larger patches have several such groups.

    So the 16 bytes that lanes load at once from shared memory are in different banks. Returns the digits of
    threads, and those of each one's own places.
    """
    run = min(patch, RUN)
    groups = [(patch // run, run * lanes)] if patch > run else []
    return [(SIDE // lanes, patch * lanes), (lanes, run)], [*groups, (run, 1)]


def stages_in_shared_memory(width: int, terms: int, element_bytes: int) -> int:
    """Count the slices of both tiles, of this width together, that a kernel can declare."""
    return SHARED_BYTES // (terms * (width + 2 * PADDING) * element_bytes)
