"""Attention by warp groups (wgmma), which multiply tiles that tensor maps (TMA) bring.

A block has 128 queries, 64 for each of two warp groups, and goes through tiles of 128 keys from the last one
down, which alone may be masked: under a causal mask it lies on the diagonal.

    scores = queries · keysᵀ; weights = exponentials(scores)               of the last tile
    for each tile of keys before:
        scores = queries · keysᵀ                                           begins
        output += weights · values                                         begins, of the tile after it
        wait for the scores; exponentials(scores)                          while values are multiplied
        wait for the output; rescale it; weights = scores                  rounded
    output += weights · values                                             of the first tile

Weights never leave registers: a thread has of a product what it needs of a left factor.

Source: Shah et al. 2024, FlashAttention-3 (arXiv:2407.08608), algorithm 2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catgrad.dims import Size
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.boxes import box
from catgrad.loops.ir.index import ZERO, Index, Variable, index, modulo, quotient
from catgrad.loops.ir.nest import Accumulate, Await, Item, Loop, Reduce, Store, Substituted, rewritten
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Scalar, converted, number
from catgrad.loops.ir.steps import Attend
from catgrad.loops.passes.gpu.attention.exponentials import Exp2
from catgrad.loops.passes.gpu.attention.output import Output
from catgrad.loops.passes.gpu.attention.sizes import Sizes
from catgrad.loops.passes.gpu.attention.tensor_tiles import FLOAT
from catgrad.loops.passes.gpu.products.roles import SHORT, narrowed
from catgrad.loops.passes.gpu.products.thread_tiles import Side, unrolled
from catgrad.ops.arithmetic import Add, Multiply
from catgrad.types import Dtype, NdArrayType

TILE = 128
"""Queries of a block, and keys of a tile."""

WIDTHS = (64, 128)
"""Features of heads that warp groups multiply: whole boxes, of which registers hold scores and the output."""


def warpgroup_output(step: Attend, dtype: Dtype, exp2: Exp2, rows: Side) -> Loop | None:
    """Schedule the output of the rows of a block for warp groups; None if they do not compute it."""
    width, keys = step.feature.extent, step.key.extent
    if dtype not in SHORT or rows.width != TILE or width not in WIDTHS or step.column.extent != width:
        return None
    known = keys == step.query.extent if step.causal else isinstance(keys, int)
    if step.window is not None or not known:
        return None
    assert isinstance(width, int)
    output = _Output(step, dtype, exp2, Sizes(dtype, TILE, TILE, 1, width, width))
    if not output.is_mapped:
        return None
    items = rewritten(output.items(), Substituted({output.rows.first: index(rows.first)}))
    return Loop(Variable(1, "tile"), items, axis=Axis.BLOCK, threads=output.team)


class _Output(Output):
    """The output of the rows of a block of 256 threads."""

    def __init__(self, step: Attend, dtype: Dtype, exp2: Exp2, sizes: Sizes) -> None:
        super().__init__(step, dtype, exp2, sizes)
        self.weights = Buffer("weights", NdArrayType(self.scores.type.shape, dtype), self.scores.space)
        self.factors = self.registers("factors", self.rows.own)
        variables = (step.query, step.feature), (step.key, step.feature), (step.key, step.column)
        self.operands = [*zip(step.operands, variables, strict=True)]
        self.at_query, self.at_key = Variable(TILE, "query"), Variable(TILE, "key")

    def own_of(self, columns: Side) -> tuple[Variable, ...]:
        """Order a thread's own elements as wgmma does: of each eight columns, those of both rows."""
        first, *others = columns.own
        return first, *self.rows.own, *others

    @property
    def is_mapped(self) -> bool:
        """Tell whether tensor maps describe the operands, with features side by side."""
        feature, first = Variable(self.sizes.feature, "feature"), index(self.rows.first)
        boxes = [box(self._part(n, first, self.at_query, feature), self.at_query, feature) for n in range(3)]
        return all(found and found.by_terms for found in boxes)

    def items(self) -> list[Item]:
        """Go through the tiles of keys, from the last one down."""
        causal, before = self.step.causal, Variable(self._before, "slice", TILE)
        last = index(self.rows.first) if causal else ZERO + self._before
        first = last - index(before) - TILE
        rescale = super().rescaled(self.own(self.factors, self.rows.own))
        body = [
            self._score(first),
            self._add_weighted(last - index(before)),
            Await(1),
            *self.exponentials(),
            Await(0),
            self.of_threads(unrolled(self.rows.own, rescale)),
            self._round(),
        ]
        through = Loop(before, body, conditions=(Bounds(first, 0, True, False),) if causal else ())
        return [
            self.begin(),
            self.of_threads(self.fill(self.weights, self.own_scores)),
            self._score(last),
            Await(0),
            *self.mask({self.columns.first: last}),
            *self.exponentials(),
            self._round(),
            *([] if before.extent == 0 else [through]),
            self._add_weighted(ZERO),
            Await(0),
            *self.end(),
        ]

    @property
    def _before(self) -> Size:
        """The number of keys before the last tile, at most."""
        keys = self.step.key.extent
        return (keys - 1) // TILE * TILE if isinstance(keys, int) else keys

    def rescaled(self, factor: Scalar) -> list[Item]:
        """Keep the factor of a row until its output is known."""
        return [self.set(self.factors, self.rows.own, factor)]

    def _part(self, number_: int, first: Index, place: Variable, feature: Variable) -> Masked:
        """Return an operand by the place in a tile and the feature, 0 beyond the ends."""
        scalar, (row, column) = self.operands[number_]
        factor, at = narrowed(scalar, self.factor_dtype), first + index(place)
        assert factor
        ends = Bounds(at, row.extent, False, True), Bounds(index(feature), column.extent, False, True)
        inside = Substituted({row: at, column: index(feature)}).scalar(factor)
        return Masked(ends, inside, number(0, factor.dtype))

    def _score(self, first: Index) -> Loop:
        """Compute the inner products of queries and a tile of keys."""
        feature = Variable(self.sizes.feature, "feature")
        queries = self._part(0, index(self.rows.first), self.at_query, feature)
        product = _product(queries, self._part(1, first, self.at_key, feature))
        at = self._own(self.own_scores, {self.at_query: self.rows, self.at_key: self.columns})
        return _by_warpgroups(
            (self.at_query, self.at_key), Reduce(self.scores, at, Add(), product, (feature,))
        )

    def _add_weighted(self, first: Index) -> Loop:
        """Add a tile of values, multiplied by weights, to the output."""
        column = Variable(self.sizes.column, "column")
        at = self._own(self.own_scores, {self.at_query: self.rows, self.at_key: self.columns})
        product = _product(Load(self.weights, at), self._part(2, first, self.at_key, column))
        output = self._own(self.outputs, {self.at_query: self.rows, column: self.column})
        variables = self.at_query, column, self.at_key
        return _by_warpgroups(variables, Accumulate(self.output, output, Add(), product))

    def _round(self) -> Loop:
        """Round the exponentials of a tile, as weights."""
        at = self._own(self.own_scores, {self.at_query: self.rows, self.at_key: self.columns})
        rounded = converted(Load(self.scores, at), self.factor_dtype)
        return _by_warpgroups((self.at_query, self.at_key), Store(self.weights, at, rounded))

    def _own(self, own: Sequence[Variable], sides: Mapping[Variable, Side]) -> tuple[Index, ...]:
        """Compute the indices in registers of the element at places of a tile."""
        digits = {
            v: modulo(quotient(index(place), weight), v.extent)
            for place, side in sides.items()
            for v, weight in side.digits
        }
        return tuple(digits[v] for v in (*self.threads, *own))


def _product(*factors: Scalar) -> Compute:
    return Compute(Multiply(), FLOAT, tuple(converted(each, FLOAT) for each in factors))


def _by_warpgroups(variables: Sequence[Variable], s: Store | Reduce | Accumulate) -> Loop:
    loop: Item = s
    for variable in reversed(variables):
        loop = Loop(variable, [loop], axis=Axis.WARPGROUP)
    assert isinstance(loop, Loop)
    return loop
