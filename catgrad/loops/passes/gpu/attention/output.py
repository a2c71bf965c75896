"""The output of attention on tensor cores: an online softmax, which rescales sums to each greater maximum."""

from __future__ import annotations

from math import inf

from catgrad.loops.ir.index import index
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Store, Substituted
from catgrad.loops.ir.scalar import Bounds, Compute, Load, Scalar, number
from catgrad.loops.ir.steps import Attend
from catgrad.loops.passes.gpu.attention.exponentials import FLOAT, Exp2, MaximumNumber, of_floats
from catgrad.loops.passes.gpu.attention.sizes import Sizes
from catgrad.loops.passes.gpu.attention.tensor_tiles import TensorTiles
from catgrad.loops.passes.gpu.products.thread_tiles import unrolled
from catgrad.ops.arithmetic import Add, Divide, Maximum, Multiply, Subtract
from catgrad.ops.compare import Equal, Select
from catgrad.ops.transcendental import Log
from catgrad.types import Dtype


class Output(TensorTiles):
    """Registers of the output and of the softmax of its rows, and what happens to them between products."""

    def __init__(self, step: Attend, dtype: Dtype, exp2: Exp2, sizes: Sizes) -> None:
        super().__init__(step, dtype, exp2, sizes)
        own = self.rows.own
        self.outputs = self.own_of(self.column)
        self.greatest, self.sums = self.registers("greatest", own), self.registers("sums", own)
        self.output = self.registers("output", self.outputs)

    def begin(self) -> Loop:
        """Begin with no scores."""
        own = self.rows.own
        fills = self.fill(self.greatest, own, -inf), self.fill(self.sums, own)
        return self.of_threads([*fills[0], *fills[1], *self.fill(self.output, self.outputs)])

    def exponentials(self) -> list[Item]:
        """Replace the scores of a tile by exponentials, and add them up."""
        own, score = self.rows.own, self.own(self.scores, self.own_scores)
        best = self.own(self.registers("best", own), own)
        find = self.set(best.buffer, own, of_floats(MaximumNumber(), best, score))
        begin = self.set(best.buffer, own, number(-inf, FLOAT))
        return [
            self.of_threads(unrolled(own, [begin, *unrolled(self.columns.own, [find])])),
            self.of_threads(unrolled(own, self._exponentials(best))),
        ]

    def rescaled(self, factor: Scalar) -> list[Item]:
        """Rescale the output of a row."""
        output = self.own(self.output, self.outputs)
        rescale = self.set(self.output, self.outputs, of_floats(Multiply(), output, factor))
        return unrolled(self.column.own, [rescale])

    def _exponentials(self, best: Load) -> list[Item]:
        """Rescale a row's sums so far to its greatest score, and add the exponentials of the tile's."""
        own, score = self.rows.own, self.own(self.scores, self.own_scores)
        greatest, total = self.own(self.greatest, own), self.own(self.sums, own)
        newest, combine = self.of_lanes("newest", Maximum(), best.buffer)
        # A row of scores -inf has no exponentials yet, rather than those of NaN.
        is_none = Compute(Equal(), Dtype.bool, (newest, number(-inf, FLOAT)))
        base = of_floats(Select(), is_none, number(0, FLOAT), self.scaled(newest))
        factor = of_floats(self.exp2, of_floats(Subtract(), self.scaled(greatest), base))
        exponentials: list[Item] = [
            self.set(
                self.scores,
                self.own_scores,
                of_floats(self.exp2, of_floats(Subtract(), self.scaled(score), base)),
            ),
            Accumulate(self.sums, total.indices, Add(), score),
        ]
        return [
            combine,
            Accumulate(newest.buffer, newest.indices, Maximum(), greatest),
            self.set(self.sums, own, of_floats(Multiply(), total, factor)),
            *self.rescaled(factor),
            self.set(self.greatest, own, newest),
            *unrolled(self.columns.own, exponentials),
        ]

    def end(self) -> list[Item]:
        """Divide by the sum of each row, and store its logarithm if it is wanted."""
        own = self.rows.own
        total, combine = self.of_lanes("total", Add(), self.sums)
        # One division for each row rather than for each element.
        share = of_floats(Divide(), number(1, FLOAT), total)
        output = of_floats(Multiply(), self.own(self.output, self.outputs), share)
        divided = self.by_rows(self.output, self.column)
        divide = unrolled(self.column.own, [self.set(divided, (*own, *self.column.own), output)])
        return [
            self.of_threads(unrolled(own, [combine, *divide])),
            *self.store(0, divided, self.column),
            *(self.of_threads(self._logarithms(result, total)) for result in self.step.results[1:]),
        ]

    def _logarithms(self, result: Load, total: Scalar) -> list[Item]:
        """Store the logarithm of each row's sum of exponentials, by the first of its threads."""
        greatest = of_floats(
            Multiply(), self.own(self.greatest, self.rows.own), number(self.step.scale, FLOAT)
        )
        logsumexp = of_floats(Add(), greatest, of_floats(Log(), total))
        at = Substituted(self.rows.values(self.rows.place)).indices(result.indices)
        conditions = (Bounds(index(self.lane), 1, False, True), *self.rows.within(self.rows.place))
        return unrolled(self.rows.own, [Store(result.buffer, at, logsumexp)], conditions)
