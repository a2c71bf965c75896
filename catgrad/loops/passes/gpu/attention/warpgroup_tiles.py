"""Tiles of attention that tensor maps (TMA) bring for warp groups (wgmma), and products of them.

A thread has of a product, in registers, what it needs of the left factor of the next one, rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.boxes import box
from catgrad.loops.ir.index import Index, Variable, index, modulo, quotient
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Reduce, Store, Substituted
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Scalar, converted, number
from catgrad.loops.ir.steps import Attend
from catgrad.loops.passes.gpu.attention.exponentials import FLOAT, Exp2, of_floats
from catgrad.loops.passes.gpu.attention.sizes import Sizes
from catgrad.loops.passes.gpu.attention.tensor_tiles import TensorTiles
from catgrad.loops.passes.gpu.products.roles import narrowed
from catgrad.loops.passes.gpu.products.thread_tiles import Side
from catgrad.ops.arithmetic import Add, Multiply
from catgrad.types import Dtype, NdArrayType

QUERIES, KEYS, VALUES, COTANGENTS = range(4)
"""Operands, by their places in a step."""


class WarpgroupTiles(TensorTiles):
    """The warp groups of a block, each with 64 rows."""

    def __init__(self, step: Attend, dtype: Dtype, exp2: Exp2, sizes: Sizes) -> None:
        super().__init__(step, dtype, exp2, sizes)
        query, key = Variable(self.query.width, "query"), Variable(self.key.width, "key")
        self.at_row, self.at_column = (query, key) if self.query is self.rows else (key, query)
        by_query, by_key = (step.query, query), (step.key, key)
        sides = [
            (*by_query, step.feature),
            (*by_key, step.feature),
            (*by_key, step.column),
            (*by_query, step.column),
        ]
        self.operands = [*zip(step.operands, sides, strict=False)]

    def own_of(self, columns: Side) -> tuple[Variable, ...]:
        """Order a thread's own elements as wgmma does: of each eight columns, those of both rows."""
        first, *others = columns.own
        return first, *self.rows.own, *others

    @property
    def is_mapped(self) -> bool:
        """Tell whether tensor maps describe the operands, with features side by side."""
        first, feature = index(self.rows.first), Variable(self.sizes.feature, "feature")
        places = [place for _, (_, place, _) in self.operands]
        boxes = [box(self._part(n, first, feature), place, feature) for n, place in enumerate(places)]
        return all(found and found.by_terms for found in boxes)

    def _part(self, operand: int, first: Index, feature: Variable) -> Masked:
        """Return an operand by the place in a tile and the feature, 0 beyond the ends."""
        scalar, (row, place, column) = self.operands[operand]
        factor, at = narrowed(scalar, self.factor_dtype), first + index(place)
        assert factor
        ends = Bounds(at, row.extent, False, True), Bounds(index(feature), column.extent, False, True)
        inside = Substituted({row: at, column: index(feature)}).scalar(factor)
        return Masked(ends, inside, number(0, factor.dtype))

    def rounded(self, name: str) -> Buffer:
        """Make registers of numbers for each score in the dtype of factors."""
        return Buffer(name, NdArrayType(self.scores.type.shape, self.factor_dtype), self.scores.space)

    def multiply(self, scores: Buffer, rows: int, columns: int, first: Index) -> Loop:
        """Begin the inner products of rows and a tile of columns, both operands."""
        features = self.feature if rows in (QUERIES, KEYS) else self.column
        feature = Variable(features.width, features.name)
        left, right = self._part(rows, index(self.rows.first), feature), self._part(columns, first, feature)
        product = _product(left, right)
        return _by_warpgroups(
            (self.at_row, self.at_column), Reduce(scores, self._at_pair(), Add(), product, (feature,))
        )

    def add_tile(self, sums: Buffer, features: Side, weights: Buffer, columns: int, first: Index) -> Loop:
        """Begin to add a tile of columns, multiplied by weights, to sums."""
        feature = Variable(features.width, features.name)
        product = _product(Load(weights, self._at_pair()), self._part(columns, first, feature))
        at = self._at(self.own_of(features), {self.at_row: self.rows, feature: features})
        return _by_warpgroups((self.at_row, feature, self.at_column), Accumulate(sums, at, Add(), product))

    def round(self, weights: Buffer, scores: Buffer) -> Loop:
        """Round numbers for each score to the dtype of factors."""
        at = self._at_pair()
        store = Store(weights, at, converted(Load(scores, at), self.factor_dtype))
        return _by_warpgroups((self.at_row, self.at_column), store)

    def _at_pair(self) -> tuple[Index, ...]:
        return self._at(self.own_scores, {self.at_row: self.rows, self.at_column: self.columns})

    def _at(self, own: Sequence[Variable], sides: Mapping[Variable, Side]) -> tuple[Index, ...]:
        """Compute the indices in registers of the element at places of a tile."""
        digits = {
            v: modulo(quotient(index(place), weight), v.extent)
            for place, side in sides.items()
            for v, weight in side.digits
        }
        return tuple(digits[v] for v in (*self.threads, *own))


def _product(*factors: Scalar) -> Compute:
    return of_floats(Multiply(), *(converted(each, FLOAT) for each in factors))


def _by_warpgroups(variables: Sequence[Variable], s: Store | Reduce | Accumulate) -> Loop:
    loop: Item = s
    for variable in reversed(variables):
        loop = Loop(variable, [loop], axis=Axis.WARPGROUP)
    assert isinstance(loop, Loop)
    return loop
