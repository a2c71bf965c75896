"""FlashAttention on tensor cores: an online softmax in the registers that products leave and take.

    for each tile of rows, a block:              queries, or keys for the cotangents of keys and values
        for each tile of columns, in a ring:     keys, or queries
            scores = rows · columnsᵀ
            weights = exp(scores - …)            the greatest so far, or the logarithm of a query's sum
            result = result · … + weights · columns

The forward pass rescales its sums to each greater maximum. The reverse computes weights again, and their
cotangents, once for the queries and once for keys and values, so that every sum has a fixed order.

Source: Dao 2023, FlashAttention-2 (arXiv:2307.08691), algorithms 1 and 2; Milakov and Gimelshein 2018, Online
normalizer calculation for softmax (arXiv:1805.02867)
"""

from __future__ import annotations

from catgrad.loops.ir.index import Index
from catgrad.loops.ir.nest import Item, Kernel
from catgrad.loops.ir.steps import Attend, AttentionPart
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.attention.exponentials import Exp2, of_floats, to_base_2
from catgrad.loops.passes.gpu.attention.output import Output
from catgrad.loops.passes.gpu.attention.reverse import Reverse
from catgrad.loops.passes.gpu.attention.sizes import Sizes, factor_dtype, sizes
from catgrad.loops.passes.gpu.attention.warpgroups import warpgroup_attention
from catgrad.loops.passes.gpu.products.warpgroups import either
from catgrad.ops.arithmetic import Subtract
from catgrad.types import Dtype


def tensor_attention(step: Attend, machine: Machine) -> Kernel | None:
    """Schedule a part of attention for tensor cores; None if they do not multiply its operands."""
    dtype = factor_dtype(step, machine)
    if dtype is None:
        return None
    parts: dict[AttentionPart, type[_Output | _OfQueries | _OfKeys]] = {
        AttentionPart.OUTPUT: _Output,
        AttentionPart.QUERIES: _OfQueries,
        AttentionPart.KEYS: _OfKeys,
    }
    # Weights that are rounded to 16 bits or TF32 need no exact exponential; those of float32 in parts do.
    exp2 = Exp2(dtype is not Dtype.float32 or machine.gpu.tensor_floats == 1)
    tiles = parts[step.part](step, dtype, exp2, sizes(step, dtype))
    items = tiles.items()
    if machine.gpu.warpgroups and (own := warpgroup_attention(step, dtype, exp2, tiles.rows)):
        items = [either(own, items)]
    return Kernel([tiles.of_blocks(items)])


class _Output(Output):
    """The output."""

    def items(self) -> list[Item]:
        """The loops over tiles."""
        q, k, v = self.step.operands
        self.queries = self.operand("queries", q, self.rows, self.feature)
        self.keys = self.operand("keys", k, self.columns, self.feature)
        self.values = self.operand("values", v, self.columns, self.column)
        through = self.through([self.queries], [self.keys, self.values], self.tile)
        return [self.begin(), *through, *self.end()]

    def tile(self, stage: Index) -> list[Item]:
        """Process the tile of columns that is at a stage."""
        return [
            *self.score(self.scores, self.queries, self.keys, stage),
            *self.mask(),
            *self.exponentials(),
            self.add_weighted(self.output, self.column, self.scores, self.values, stage),
        ]


class _Reverse(Reverse):
    """Parts of the reverse, and tiles of their operands."""

    def __init__(self, step: Attend, dtype: Dtype, exp2: Exp2, sizes: Sizes) -> None:
        super().__init__(step, dtype, exp2, sizes)
        q, k, v, dy, *_ = step.operands
        self.queries = self.operand("queries", q, self.query, self.feature)
        self.keys = self.operand("keys", k, self.key, self.feature)
        self.values = self.operand("values", v, self.key, self.column)
        self.cotangents = self.operand("cotangents", dy, self.query, self.column)


class _OfQueries(_Reverse):
    """The cotangent of the queries."""

    def items(self) -> list[Item]:
        """The loops over tiles."""
        [(self.of_queries, _)] = results = self.results(("of_queries", self.feature))
        begin, self.base, self.negative = self.of_rows()
        through = self.through([self.queries, self.cotangents], [self.keys, self.values], self.tile)
        return self.sums(begin, through, results)

    def tile(self, stage: Index) -> list[Item]:
        """Process the tile of columns that is at a stage."""
        return [
            *self.score(self.scores, self.queries, self.keys, stage),
            *self.weights(self.base),
            *self.score(self.products, self.cotangents, self.values, stage, self.negative),
            *self.of_scores(self.own(self.products, self.own_scores)),
            self.add_weighted(self.of_queries, self.feature, self.products, self.keys, stage),
        ]


class _OfKeys(_Reverse):
    """The cotangents of the keys and of the values."""

    def items(self) -> list[Item]:
        """The loops over tiles."""
        names = zip(("logsumexps", "inner_products"), self.step.operands[4:], strict=True)
        self.of_columns = [self.numbers(name, scalar) for name, scalar in names]
        results = self.results(("of_keys", self.feature), ("of_values", self.column))
        (self.of_keys, _), (self.of_values, _) = results
        columns = [self.queries, self.cotangents, *self.of_columns]
        return self.sums([], self.through([self.keys, self.values], columns, self.tile), results)

    def tile(self, stage: Index) -> list[Item]:
        """Process the tile of columns that is at a stage, weights first, as registers are few."""
        logsumexp, inner = (self.number_at(each, stage) for each in self.of_columns)
        return [
            *self.score(self.scores, self.keys, self.queries, stage),
            *self.weights(to_base_2(logsumexp)),
            self.add_weighted(self.of_values, self.column, self.scores, self.cotangents, stage),
            *self.score(self.products, self.values, self.cotangents, stage),
            *self.of_scores(of_floats(Subtract(), self.own(self.products, self.own_scores), inner)),
            self.add_weighted(self.of_keys, self.feature, self.products, self.queries, stage),
        ]
