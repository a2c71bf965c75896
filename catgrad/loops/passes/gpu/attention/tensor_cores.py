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
from catgrad.loops.ir.nest import Item, Kernel, Substituted
from catgrad.loops.ir.scalar import Buffer, Compute, Masked, Scalar, number
from catgrad.loops.ir.steps import Attend, AttentionPart
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.attention.exponentials import Exp2, to_base_2
from catgrad.loops.passes.gpu.attention.output import Output
from catgrad.loops.passes.gpu.attention.sizes import Sizes, factor_dtype, sizes
from catgrad.loops.passes.gpu.attention.tensor_tiles import FLOAT, TensorTiles
from catgrad.loops.passes.gpu.attention.warpgroups import warpgroup_output
from catgrad.loops.passes.gpu.products.thread_tiles import Side, unrolled
from catgrad.loops.passes.gpu.products.warpgroups import either
from catgrad.ops.arithmetic import Multiply, Subtract
from catgrad.terms.op import Op
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
    items, is_output = tiles.items(), step.part is AttentionPart.OUTPUT
    if machine.gpu.warpgroups and is_output and (own := warpgroup_output(step, dtype, exp2, tiles.rows)):
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


class _Reverse(TensorTiles):
    """Parts of the reverse: the operands, weights and cotangents of scores."""

    def __init__(self, step: Attend, dtype: Dtype, exp2: Exp2, sizes: Sizes) -> None:
        super().__init__(step, dtype, exp2, sizes)
        q, k, v, dy, *_ = step.operands
        self.queries = self.operand("queries", q, self.query, self.feature)
        self.keys = self.operand("keys", k, self.key, self.feature)
        self.values = self.operand("values", v, self.key, self.column)
        self.cotangents = self.operand("cotangents", dy, self.query, self.column)
        self.products = self.registers("products", self.own_scores)

    def results(self, *named: tuple[str, Side]) -> list[tuple[Buffer, Side]]:
        """Make the registers of results."""
        return [(self.registers(name, (*self.rows.own, *side.own)), side) for name, side in named]

    def sums(self, begin: list[Item], through: list[Item], results: list[tuple[Buffer, Side]]) -> list[Item]:
        """Begin with zeros, and store the sums at the end; scores are scaled, and so is what they weigh."""
        begin, end = [*begin], list[Item]()
        for place, (result, side) in enumerate(results):
            own = (*self.rows.own, *side.own)
            begin += self.fill(result, own)
            scaled = _float(Multiply(), self.own(result, own), number(self.step.scale, FLOAT))
            if side is self.feature:
                end.append(self.of_threads(unrolled(own, [self.set(result, own, scaled)])))
            end += self.store(place, result, side)
        return [self.of_threads(begin), *through, *end]

    def weights(self, base: Scalar) -> list[Item]:
        """Compute the weights again, in place of the scores."""
        score = self.own(self.scores, self.own_scores)
        weight = _float(self.exp2, _float(Subtract(), self.scaled(score), base))
        set_weight = self.set(self.scores, self.own_scores, weight)
        return [*self.mask(), self.of_threads(unrolled(self.own_scores, [set_weight]))]

    def of_scores(self, difference: Scalar) -> list[Item]:
        """Compute the cotangents of the scores, but for their scale, in place of the products."""
        of_score = _float(Multiply(), self.own(self.scores, self.own_scores), difference)
        set_cotangent = self.set(self.products, self.own_scores, of_score)
        return [self.of_threads(unrolled(self.own_scores, [set_cotangent]))]


class _OfQueries(_Reverse):
    """The cotangent of the queries."""

    def items(self) -> list[Item]:
        """The loops over tiles."""
        own, names = self.rows.own, ("bases", "negatives")
        self.of_rows = [self.registers(name, own) for name in names]
        [(self.of_queries, _)] = results = self.results(("of_queries", self.feature))
        logsumexp, inner = map(self._number, self.step.operands[4:])
        # Sums that begin with the negative number of their row need no subtraction. From 0, as nvcc moves a
        # negation into the loop over tiles.
        negative = _float(Subtract(), number(0, FLOAT), inner)
        numbers = zip(self.of_rows, (to_base_2(logsumexp), negative), strict=True)
        begin: list[Item] = [self.set(register, own, number) for register, number in numbers]
        through = self.through([self.queries, self.cotangents], [self.keys, self.values], self.tile)
        return self.sums(unrolled(own, begin), through, results)

    def _number(self, scalar: Scalar) -> Scalar:
        """Load the number of a query, if there is such a query."""
        load = Substituted(self.rows.values(self.rows.place)).scalar(scalar)
        within = self.rows.within(self.rows.place)
        return Masked(within, load, number(0, FLOAT)) if within else load

    def tile(self, stage: Index) -> list[Item]:
        """Process the tile of columns that is at a stage."""
        base, negative = (self.own(each, self.rows.own) for each in self.of_rows)
        return [
            *self.score(self.scores, self.queries, self.keys, stage),
            *self.weights(base),
            *self.score(self.products, self.cotangents, self.values, stage, negative),
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
            *self.of_scores(_float(Subtract(), self.own(self.products, self.own_scores), inner)),
            self.add_weighted(self.of_keys, self.feature, self.products, self.queries, stage),
        ]


def _float(op: Op, *operands: Scalar) -> Compute:
    return Compute(op, FLOAT, operands)
