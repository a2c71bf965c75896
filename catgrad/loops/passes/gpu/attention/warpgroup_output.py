"""The output of attention by warp groups (wgmma), which exponentiate scores while values are multiplied.

A block has 128 queries, 64 for each of two warp groups, and goes through tiles of 128 keys from the last one
down, which alone may be masked: under a causal mask it lies on the diagonal.

    scores = queries · keysᵀ; weights = exponentials(scores)               of the last tile
    for each tile of keys before:
        scores = queries · keysᵀ                                           begins
        output += weights · values                                         begins, of the tile after it
        wait for the scores; exponentials(scores)                          while values are multiplied
        wait for the output; rescale it; weights = scores                  rounded
    output += weights · values                                             of the first tile

Source: Shah et al. 2024, FlashAttention-3 (arXiv:2407.08608), algorithm 2
"""

from __future__ import annotations

from catgrad.dims import Size
from catgrad.loops.ir.index import ZERO, Index, Variable, index
from catgrad.loops.ir.nest import Await, Item, Loop
from catgrad.loops.ir.scalar import Bounds, Scalar
from catgrad.loops.ir.steps import Attend
from catgrad.loops.passes.gpu.attention.exponentials import Exp2
from catgrad.loops.passes.gpu.attention.output import Output
from catgrad.loops.passes.gpu.attention.sizes import Sizes
from catgrad.loops.passes.gpu.attention.warpgroup_tiles import KEYS, QUERIES, VALUES, WarpgroupTiles
from catgrad.loops.passes.gpu.products.thread_tiles import unrolled
from catgrad.types import Dtype


class WarpgroupOutput(WarpgroupTiles, Output):
    """The output of the rows of a block of 256 threads."""

    def __init__(self, step: Attend, dtype: Dtype, exp2: Exp2, sizes: Sizes) -> None:
        super().__init__(step, dtype, exp2, sizes)
        self.weights = self.rounded("weights")
        self.factors = self.registers("factors", self.rows.own)

    def items(self) -> list[Item]:
        """Go through the tiles of keys, from the last one down."""
        tile, causal = self.columns.width, self.step.causal
        before = Variable(self._before, "slice", tile)
        last = index(self.rows.first) if causal else ZERO + self._before
        first = last - index(before) - tile
        rescale = super().rescaled(self.own(self.factors, self.rows.own))
        body = [
            self._score(first),
            self._add_weighted(last - index(before)),
            Await(1, 1),
            *self.exponentials(),
            Await(0, 1),
            self.of_threads(unrolled(self.rows.own, rescale)),
            self._round(),
        ]
        through = Loop(before, body, conditions=(Bounds(first, 0, True, False),) if causal else ())
        return [
            self.begin(),
            self.of_threads(self.fill(self.weights, self.own_scores)),
            self._score(last),
            Await(0, 1),
            *self.mask({self.columns.first: last}),
            *self.exponentials(),
            self._round(),
            *([] if before.extent == 0 else [through]),
            self._add_weighted(ZERO),
            Await(0, 1),
            *self.end(),
        ]

    @property
    def _before(self) -> Size:
        """The number of keys before the last tile, at most."""
        keys, tile = self.step.key.extent, self.columns.width
        return (keys - 1) // tile * tile if isinstance(keys, int) else keys

    def rescaled(self, factor: Scalar) -> list[Item]:
        """Keep the factor of a row until its output is known."""
        return [self.set(self.factors, self.rows.own, factor)]

    def _score(self, first: Index) -> Loop:
        return self.multiply(self.scores, QUERIES, KEYS, first)

    def _add_weighted(self, first: Index) -> Loop:
        return self.add_tile(self.output, self.column, self.weights, VALUES, first)

    def _round(self) -> Loop:
        return self.round(self.weights, self.scores)
