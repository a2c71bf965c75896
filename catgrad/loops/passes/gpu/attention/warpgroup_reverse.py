"""The reverse of attention by warp groups (wgmma): two kernels, so that each sum has a fixed order.

A block has 64 queries, or keys, for each of its warp groups, and goes through tiles of the others:

    scores, products = queries · keysᵀ, cotangents · valuesᵀ               begin
    wait for the scores; weights = exponentials(scores)                    while the products are computed
    wait for the products; of_scores = weights · (products - …)
    of_queries += of_scores · keys

With keys as rows, both are transposed from the outset, so that they are left factors as they are:

    of_values += weightsᵀ · cotangents                                     while of_scores are computed
    of_keys += of_scoresᵀ · queries

Source: Shah et al. 2024, FlashAttention-3 (arXiv:2407.08608), whose one kernel adds to queries in any order
"""

from __future__ import annotations

from catgrad.loops.ir.index import index
from catgrad.loops.ir.nest import Await, Item, Loop, Substituted, rewritten
from catgrad.loops.ir.scalar import Scalar
from catgrad.loops.ir.steps import Attend
from catgrad.loops.passes.gpu.attention.exponentials import Exp2, of_floats, to_base_2
from catgrad.loops.passes.gpu.attention.reverse import Reverse
from catgrad.loops.passes.gpu.attention.sizes import Sizes
from catgrad.loops.passes.gpu.attention.warpgroup_tiles import (
    COTANGENTS,
    KEYS,
    QUERIES,
    VALUES,
    WarpgroupTiles,
)
from catgrad.loops.passes.gpu.products.thread_tiles import stepped, unrolled
from catgrad.ops.arithmetic import Add, Subtract
from catgrad.types import Dtype


class _WarpgroupReverse(WarpgroupTiles, Reverse):
    """Registers of cotangents of scores, and the loop over tiles of columns."""

    def __init__(self, step: Attend, dtype: Dtype, exp2: Exp2, sizes: Sizes) -> None:
        super().__init__(step, dtype, exp2, sizes)
        self.factors = self.rounded("of_scores")
        self.slice = stepped(self.slices.length, "slice", self.columns.width)
        self.at = self.slices.first + index(self.slice)

    def through_columns(self, body: list[Item]) -> list[Item]:
        """Go through the tiles of columns that the rows of a block need."""
        placed = Substituted({self.columns.first: self.at})
        return [Loop(self.slice, rewritten(body, placed), conditions=self.slices.needed(self.at))]

    def differences(self, op: Add | Subtract, other: Scalar) -> list[Item]:
        """Compute the cotangents of the scores, and round them."""
        product = self.own(self.products, self.own_scores)
        return [*self.of_scores(of_floats(op, product, other)), self.round(self.factors, self.products)]


class OfQueries(_WarpgroupReverse):
    """The cotangent of the queries."""

    def items(self) -> list[Item]:
        """The loop over tiles."""
        [(of_queries, _)] = results = self.results(("of_queries", self.feature))
        begin, base, negative = self.of_rows()
        body = [
            self.multiply(self.scores, QUERIES, KEYS, self.at),
            self.multiply(self.products, COTANGENTS, VALUES, self.at),
            Await(1),
            *self.weights(base),
            Await(0),
            *self.differences(Add(), negative),
            self.add_tile(of_queries, self.feature, self.factors, KEYS, self.at),
            Await(0, 2),
        ]
        return self.sums(
            [*begin, *self.fill(self.factors, self.own_scores)], self.through_columns(body), results
        )


class OfKeys(_WarpgroupReverse):
    """The cotangents of the keys and of the values."""

    def items(self) -> list[Item]:
        """The loop over tiles."""
        results = self.results(("of_keys", self.feature), ("of_values", self.column))
        (of_keys, _), (of_values, _) = results
        weights = self.rounded("weights")
        own = self.columns.own
        registers = [self.registers(name, own) for name in ("logsumexps", "inner_products")]
        base, inner = (self.own(each, own) for each in registers)
        numbers = zip(registers, self.numbers_of_queries, strict=True)
        body = [
            self.multiply(self.scores, KEYS, QUERIES, self.at),
            self.multiply(self.products, VALUES, COTANGENTS, self.at),
            self.of_threads(unrolled(own, [self.set(each, own, number) for each, number in numbers])),
            Await(1),
            *self.weights(to_base_2(base)),
            self.round(weights, self.scores),
            self.add_tile(of_values, self.column, weights, COTANGENTS, self.at),
            Await(1),
            *self.differences(Subtract(), inner),
            self.add_tile(of_keys, self.feature, self.factors, QUERIES, self.at),
            Await(0, 2),
        ]
        begin = [item for each in (weights, self.factors) for item in self.fill(each, self.own_scores)]
        return self.sums(begin, self.through_columns(body), results)
