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

from math import inf

from catgrad.loops.ir.index import Index, index
from catgrad.loops.ir.nest import Accumulate, Item, Kernel, Loop, Store, Substituted
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Scalar, number
from catgrad.loops.ir.steps import Attend, AttentionPart
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.attention.exponentials import Exp2, to_base_2
from catgrad.loops.passes.gpu.attention.sizes import factor_dtype
from catgrad.loops.passes.gpu.attention.tensor_tiles import FLOAT, TensorTiles
from catgrad.loops.passes.gpu.products.thread_tiles import Side, unrolled
from catgrad.ops.arithmetic import Add, Divide, Maximum, Multiply, Negate, Subtract
from catgrad.ops.compare import Equal, Select
from catgrad.ops.transcendental import Log
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
    return Kernel([parts[step.part](step, dtype, exp2).loop()])


class _Output(TensorTiles):
    """The output, by an online softmax."""

    def __init__(self, step: Attend, dtype: Dtype, exp2: Exp2) -> None:
        super().__init__(step, dtype, exp2)
        q, k, v = step.operands
        self.queries = self.operand("queries", q, self.rows, self.feature)
        self.keys = self.operand("keys", k, self.columns, self.feature)
        self.values = self.operand("values", v, self.columns, self.column)
        own = self.rows.own
        self.outputs = (*own, *self.column.own)
        self.greatest, self.sums = self.registers("greatest", own), self.registers("sums", own)
        self.output = self.registers("output", self.outputs)

    def loop(self) -> Loop:
        """The loops over tiles."""
        own = self.rows.own
        begin = [
            *self.fill(self.greatest, own, -inf),
            *self.fill(self.sums, own),
            *self.fill(self.output, self.outputs),
        ]
        through = self.through([self.queries], [self.keys, self.values])
        body = [self.of_threads(begin), *through, *self._end()]
        return self.of_blocks(body)

    def tile(self, stage: Index) -> list[Item]:
        """Process the tile of columns that is at a stage."""
        own, score = self.rows.own, self.own(self.scores, self.own_scores)
        best = self.own(self.registers("best", own), own)
        find = Accumulate(best.buffer, best.indices, Maximum(), score)
        begin = self.set(best.buffer, own, number(-inf, FLOAT))
        return [
            *self.score(self.scores, self.queries, self.keys, stage),
            *self.mask(),
            self.of_threads(unrolled(own, [begin, *unrolled(self.columns.own, [find])])),
            self.of_threads(unrolled(own, self._exponentials(best))),
            self.add_weighted(self.output, self.column, self.scores, self.values, stage),
        ]

    def _exponentials(self, best: Load) -> list[Item]:
        """Rescale a row's sums so far to its greatest score, and add the exponentials of the tile's."""
        own, output, score = (
            self.rows.own,
            self.own(self.output, self.outputs),
            self.own(self.scores, self.own_scores),
        )
        greatest, total = self.own(self.greatest, own), self.own(self.sums, own)
        newest, combine = self.of_lanes("newest", Maximum(), best.buffer)
        # A row of scores -inf has no exponentials yet, rather than those of NaN.
        is_none = Compute(Equal(), Dtype.bool, (newest, number(-inf, FLOAT)))
        base = _float(Select(), is_none, number(0, FLOAT), self.scaled(newest))
        factor = _float(self.exp2, _float(Subtract(), self.scaled(greatest), base))
        rescale = self.set(self.output, self.outputs, _float(Multiply(), output, factor))
        exponentials: list[Item] = [
            self.set(
                self.scores, self.own_scores, _float(self.exp2, _float(Subtract(), self.scaled(score), base))
            ),
            Accumulate(self.sums, total.indices, Add(), score),
        ]
        return [
            combine,
            Accumulate(newest.buffer, newest.indices, Maximum(), greatest),
            self.set(self.sums, own, _float(Multiply(), total, factor)),
            *unrolled(self.column.own, [rescale]),
            self.set(self.greatest, own, newest),
            *unrolled(self.columns.own, exponentials),
        ]

    def _end(self) -> list[Item]:
        """Divide by the sum of each row, and store its logarithm if it is wanted."""
        own = self.rows.own
        total, combine = self.of_lanes("total", Add(), self.sums)
        # One division for each row rather than for each element.
        share = _float(Divide(), number(1, FLOAT), total)
        output = _float(Multiply(), self.own(self.output, self.outputs), share)
        divide = unrolled(self.column.own, [self.set(self.output, self.outputs, output)])
        divided = self.of_threads(unrolled(own, [combine, *divide]))
        stores = [divided, *self.store(0, self.output, self.column)]
        for result in self.step.results[1:]:
            greatest = _float(Multiply(), self.own(self.greatest, own), number(self.step.scale, FLOAT))
            logsumexp = _float(Add(), greatest, _float(Log(), total))
            at = Substituted(self.rows.values(self.rows.place)).indices(result.indices)
            first = Bounds(index(self.lane), 1, False, True)
            conditions = (first, *self.rows.within(self.rows.place))
            stores.append(self.of_threads(unrolled(own, [Store(result.buffer, at, logsumexp)], conditions)))
        return stores


class _Reverse(TensorTiles):
    """Parts of the reverse: the operands, weights and cotangents of scores."""

    def __init__(self, step: Attend, dtype: Dtype, exp2: Exp2) -> None:
        super().__init__(step, dtype, exp2)
        q, k, v, dy, *_ = step.operands
        self.queries = self.operand("queries", q, self.query, self.feature)
        self.keys = self.operand("keys", k, self.key, self.feature)
        self.values = self.operand("values", v, self.key, self.column)
        self.cotangents = self.operand("cotangents", dy, self.query, self.column)
        self.products = self.registers("products", self.own_scores)

    def results(self, *named: tuple[str, Side]) -> list[tuple[Buffer, Side]]:
        """Make the registers of results."""
        return [(self.registers(name, (*self.rows.own, *side.own)), side) for name, side in named]

    def sums(self, begin: list[Item], through: list[Item], results: list[tuple[Buffer, Side]]) -> Loop:
        """Begin with zeros, and store the sums at the end; scores are scaled, and so is what they weigh."""
        begin, end = [*begin], list[Item]()
        for place, (result, side) in enumerate(results):
            own = (*self.rows.own, *side.own)
            begin += self.fill(result, own)
            scaled = _float(Multiply(), self.own(result, own), number(self.step.scale, FLOAT))
            if side is self.feature:
                end.append(self.of_threads(unrolled(own, [self.set(result, own, scaled)])))
            end += self.store(place, result, side)
        body = [self.of_threads(begin), *through, *end]
        return self.of_blocks(body)

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

    def loop(self) -> Loop:
        """The loops over tiles."""
        own, names = self.rows.own, ("bases", "inner_products")
        self.of_rows = [self.registers(name, own) for name in names]
        [(self.of_queries, _)] = results = self.results(("of_queries", self.feature))
        logsumexp, inner = map(self._number, self.step.operands[4:])
        # Sums that begin with the negative number of their row need no subtraction.
        negative = _float(Negate(), inner)
        numbers = zip(self.of_rows, (to_base_2(logsumexp), negative), strict=True)
        begin: list[Item] = [self.set(register, own, number) for register, number in numbers]
        through = self.through([self.queries, self.cotangents], [self.keys, self.values])
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

    def loop(self) -> Loop:
        """The loops over tiles."""
        names = zip(("logsumexps", "inner_products"), self.step.operands[4:], strict=True)
        self.of_columns = [self.numbers(name, scalar) for name, scalar in names]
        results = self.results(("of_keys", self.feature), ("of_values", self.column))
        (self.of_keys, _), (self.of_values, _) = results
        columns = [self.queries, self.cotangents, *self.of_columns]
        return self.sums([], self.through([self.keys, self.values], columns), results)

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
