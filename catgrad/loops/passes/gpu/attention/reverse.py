"""The reverse of attention on tensor cores: weights once more, and the cotangents of the scores by them."""

from __future__ import annotations

from catgrad.loops.ir.nest import Item, Substituted
from catgrad.loops.ir.scalar import Buffer, Masked, Scalar, number
from catgrad.loops.ir.steps import Attend
from catgrad.loops.passes.gpu.attention.exponentials import FLOAT, Exp2, of_floats, to_base_2
from catgrad.loops.passes.gpu.attention.sizes import Sizes
from catgrad.loops.passes.gpu.attention.tensor_tiles import TensorTiles
from catgrad.loops.passes.gpu.products.thread_tiles import Side, unrolled
from catgrad.ops.arithmetic import Multiply, Subtract
from catgrad.types import Dtype


class Reverse(TensorTiles):
    """Registers of results, of scores and of their cotangents, and what happens to them between products."""

    def __init__(self, step: Attend, dtype: Dtype, exp2: Exp2, sizes: Sizes) -> None:
        super().__init__(step, dtype, exp2, sizes)
        self.products = self.registers("products", self.own_scores)

    def results(self, *named: tuple[str, Side]) -> list[tuple[Buffer, Side]]:
        """Make the registers of results."""
        return [(self.registers(name, self.own_of(side)), side) for name, side in named]

    def sums(self, begin: list[Item], through: list[Item], results: list[tuple[Buffer, Side]]) -> list[Item]:
        """Begin with zeros, and store the sums at the end; scores are scaled, and so is what they weigh."""
        begin, end = [*begin], list[Item]()
        for place, (result, side) in enumerate(results):
            own = self.own_of(side)
            begin += self.fill(result, own)
            stored = self.by_rows(result, side)
            total: Scalar = self.own(result, own)
            if side is self.feature:
                total = of_floats(Multiply(), total, number(self.step.scale, FLOAT))
            if side is self.feature or stored is not result:
                by_rows = (*self.rows.own, *side.own)
                end.append(self.of_threads(unrolled(by_rows, [self.set(stored, by_rows, total)])))
            end += self.store(place, stored, side)
        return [self.of_threads(begin), *through, *end]

    def weights(self, base: Scalar) -> list[Item]:
        """Compute the weights again, in place of the scores."""
        score = self.own(self.scores, self.own_scores)
        weight = of_floats(self.exp2, of_floats(Subtract(), self.scaled(score), base))
        set_weight = self.set(self.scores, self.own_scores, weight)
        return [*self.mask(), self.of_threads(unrolled(self.own_scores, [set_weight]))]

    def of_scores(self, difference: Scalar) -> list[Item]:
        """Compute the cotangents of the scores, but for their scale, in place of the products."""
        of_score = of_floats(Multiply(), self.own(self.scores, self.own_scores), difference)
        set_cotangent = self.set(self.products, self.own_scores, of_score)
        return [self.of_threads(unrolled(self.own_scores, [set_cotangent]))]

    def of_rows(self) -> tuple[list[Item], Scalar, Scalar]:
        """Keep the numbers of queries that are rows: logarithms to base 2, and negative inner products.

        Sums that begin with the negative number of their row need no subtraction. From 0, as nvcc moves a
        negation into the loop over tiles.
        """
        own = self.rows.own
        registers = [self.registers(name, own) for name in ("bases", "negatives")]
        logsumexp, inner = self.numbers_of_queries
        negative = of_floats(Subtract(), number(0, FLOAT), inner)
        numbers = zip(registers, (to_base_2(logsumexp), negative), strict=True)
        begin: list[Item] = [self.set(register, own, number) for register, number in numbers]
        base, below = (self.own(each, own) for each in registers)
        return unrolled(own, begin), base, below

    @property
    def numbers_of_queries(self) -> list[Scalar]:
        """Load the logarithm and the inner product of a query, if there is such a query."""
        at, within = Substituted(self.query.values(self.query.place)), self.query.within(self.query.place)
        loads = [at.scalar(scalar) for scalar in self.step.operands[4:]]
        return [Masked(within, load, number(0, FLOAT)) for load in loads] if within else loads
