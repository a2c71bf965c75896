"""Tiles of attention on tensor cores: sides of scores and results, tiles of operands, and products of them.

A thread has parts of two rows, as fragments of mma.sync have, and three neighbouring lanes have the others.
Scores are the sums of one product and factors of the next, in the same registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import ZERO, Index, Variable, index, modulo, quotient
from catgrad.loops.ir.nest import (
    Accumulate,
    Item,
    Loop,
    ReduceLanes,
    Store,
    Substituted,
    Substitution,
    rewritten,
)
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Scalar, converted, number
from catgrad.loops.ir.steps import Attend, AttentionPart
from catgrad.loops.passes.gpu.attention.exponentials import FLOAT, Exp2, of_floats, to_base_2
from catgrad.loops.passes.gpu.attention.masks import one_sided, where_violated
from catgrad.loops.passes.gpu.attention.sizes import FRAGMENT_ROWS, STAGES, Sizes, sides, slices
from catgrad.loops.passes.gpu.products.operands import Operand, Terms, Threads
from catgrad.loops.passes.gpu.products.ring import Ring
from catgrad.loops.passes.gpu.products.roles import count, narrowed
from catgrad.loops.passes.gpu.products.runs import Runs
from catgrad.loops.passes.gpu.products.thread_tiles import Side, ThreadTiles, stepped, unrolled
from catgrad.ops.arithmetic import Add, Multiply
from catgrad.terms.op import Op
from catgrad.types import Dtype

LANES = 4
"""Threads that have a row."""


class TensorTiles(ThreadTiles):
    """The warps of a block side by side along rows."""

    def __init__(self, step: Attend, dtype: Dtype, exp2: Exp2, sizes: Sizes) -> None:
        self.step, self.factor_dtype, self.sizes, self.exp2 = step, dtype, sizes, exp2
        rows, columns = sides(step)
        self.lane = Variable(LANES, "column_thread")
        fragments, half = self.sizes.fragments, FRAGMENT_ROWS // 2
        warp = Variable(self.sizes.rows // (FRAGMENT_ROWS * fragments), "row_warp")
        row = Variable(half, "row_thread")
        super().__init__([warp, row, self.lane], FLOAT)
        self.copiers = Threads(self.team)
        first = stepped(rows.extent, f"{rows.name}_tile", self.sizes.rows)
        own = [(Variable(fragments, rows.name), FRAGMENT_ROWS), (Variable(2, rows.name), half)]
        threads = [(warp, FRAGMENT_ROWS * fragments), (row, 1)]
        self.rows = Side(rows.name, [rows], first, threads, own)
        self.columns = self._across(columns, self.sizes.columns, Variable(columns.extent, "first"))
        is_turned = step.part is AttentionPart.KEYS
        self.query, self.key = (self.columns, self.rows) if is_turned else (self.rows, self.columns)
        self.feature = self._across(step.feature, self.sizes.feature, Variable(1))
        self.column = self._across(step.column, self.sizes.column, Variable(1))
        self.slices = slices(step, index(first), self.sizes)
        self.ring = Ring(self.slices, self.sizes.columns, STAGES)
        self.own_scores = self.own_of(self.columns)
        self.scores = self.registers("scores", self.own_scores)

    def _across(self, variable: Variable, width: int, first: Variable) -> Side:
        """Give each lane two neighbours of every eight columns."""
        own = [(Variable(width // 8, variable.name), 8), (Variable(2, variable.name), 1)]
        return Side(variable.name, [variable], first, [(self.lane, 2)], own)

    def own_of(self, columns: Side) -> tuple[Variable, ...]:
        """Return the axes of a thread's own elements of rows by columns."""
        return *self.rows.own, *columns.own

    def by_rows(self, sums: Buffer, columns: Side) -> Buffer:
        """Return the registers that are stored: sums, or others if those are not in the order of rows."""
        own = (*self.rows.own, *columns.own)
        return sums if self.own_of(columns) == own else self.registers("stored", own)

    def of_blocks(self, body: list[Item]) -> Loop:
        """Give each tile of rows a block: under a causal mask, those with most tiles of columns first."""
        batch, first = self.step.batch, self.rows.first
        if not self.step.causal or self.step.window is not None or not isinstance(first.extent, int):
            return self.of_block((*batch, first), body)
        if self.step.part is not AttentionPart.KEYS:
            last = ZERO + (first.extent - 1) // self.sizes.rows * self.sizes.rows
            first = stepped(first.extent, f"{first.name}_from_last", self.sizes.rows)
            body = rewritten(body, Substituted({self.rows.first: last - index(first)}))
        return self.of_block((first, *batch), body)

    def operand(self, name: str, scalar: Scalar, side: Side, features: Side) -> Operand:
        """Make the tiles of an operand: that of the rows, or those of columns in the ring."""
        is_row = side is self.rows
        terms = Terms(side.variables, side.extent, side.width, self.slices.before and not is_row)
        factor, stages = narrowed(scalar, self.factor_dtype) or scalar, 1 if is_row else self.ring.stages
        padding = self.sizes.padding
        return Operand(factor, features, terms, False, padding, stages, name=name, threads=self.copiers)

    def through(
        self, rows: Sequence[Operand], columns: Sequence[Operand], tile: Callable[[Index], list[Item]]
    ) -> list[Item]:
        """Go through the tiles of columns that the rows of a block need, each at a stage of the ring."""

        def process(first: Index, stage: Index) -> list[Item]:
            return rewritten(tile(stage), Substituted({self.columns.first: first}))

        return self.ring.through(columns, process, [(operand, index(self.rows.first)) for operand in rows])

    def score(
        self, scores: Buffer, rows: Operand, columns: Operand, stage: Index, begin: Scalar | None = None
    ) -> list[Item]:
        """Compute the inner products of rows and columns, and add them to what they begin with."""
        k = Variable(rows.inner, "k")
        left = Load(rows.tile, rows.at(index(k), self.rows.place))
        right = Load(columns.tile, columns.at(index(k), self.columns.place, stage))
        first = self.set(scores, self.own_scores, begin or number(0, FLOAT))
        begins = self.of_threads(unrolled(self.own_scores, [first]))
        return [begins, self._add_products(scores, self.own_scores, k, left, right)]

    def add_weighted(
        self, total: Buffer, features: Side, weights: Buffer, columns: Operand, stage: Index
    ) -> Item:
        """Add the columns of a tile, multiplied by weights in registers, which are rounded, to a result."""
        k = Variable(self.columns.width, "k")
        place, rows = index(k), tuple(map(index, self.rows.own))
        lane, own = quotient(modulo(place, 8), 2), (quotient(place, 8), modulo(place, 2))
        at = (*map(index, self.rows.threads), lane, *rows, *own)
        left = converted(Load(weights, at), self.factor_dtype)
        right = Load(columns.tile, columns.at(features.place, place, stage))
        return self._add_products(total, (*self.rows.own, *features.own), k, left, right)

    def _add_products(
        self, sums: Buffer, own: Sequence[Variable], k: Variable, left: Scalar, right: Scalar
    ) -> Item:
        term = of_floats(Multiply(), converted(left, FLOAT), converted(right, FLOAT))
        add = unrolled(own, [Accumulate(sums, self.own(sums, own).indices, Add(), term)])
        return self.of_threads([Loop(k, add, axis=Axis.TENSOR)])

    def scaled(self, score: Scalar) -> Compute:
        """Scale a score, as an exponent of 2."""
        return to_base_2(score, self.step.scale)

    def mask(self, at: Substitution | None = None) -> list[Item]:
        """Replace scores by -inf where a query does not attend to a key, in tiles that have such pairs.

        The tile may be one whose place is known.
        """
        window, columns = self.step.window, self.columns
        behind = Bounds(self.query.index - self.key.index, window or 0, True, window is not None)
        before = (Bounds(columns.index, 0, True, False),) if self.slices.before else ()
        conditions = (*before, *columns.within(columns.place), *((behind,) if self.step.causal else ()))
        score, items = self.own(self.scores, self.own_scores), list[Item]()
        pairs = (*self.threads, *self.own_scores)
        for each in map(Substituted(at or {}).bounds, one_sided(conditions)):
            masked = self.set(self.scores, self.own_scores, Masked((each,), score, number(-inf, FLOAT)))
            items += where_violated(each, pairs, [self.of_threads(unrolled(self.own_scores, [masked]))])
        return items

    def of_lanes(self, name: str, op: Op, part: Buffer) -> tuple[Load, Item]:
        """Combine a number for a row over the threads that have parts of it."""
        own, lane = self.rows.own, Variable(LANES, "lane")
        whole = self.own(self.registers(name, own), own)
        at = tuple(map(index, (*self.rows.threads, lane, *own)))
        identity = 0 if isinstance(op, Add) else -inf
        return whole, ReduceLanes(whole.buffer, whole.indices, op, Load(part, at), (lane,), identity)

    def store(self, place: int, sums: Buffer, features: Side) -> list[Item]:
        """Store the elements of a result that there are, in runs of columns if an array has them so."""
        if count(features.own[:1]) % 2 == 0:
            runs = Runs(features)
            joined, exchange = runs.join(self, sums, self.rows.own, self.step.results[place].dtype)
            stored = self._stored(place, joined, runs)
            if runs.are_side_by_side(stored, runs.place):
                return [exchange, self.of_threads(stored)]
        return [self.of_threads(self._stored(place, sums, features))]

    def _stored(self, place: int, sums: Buffer, features: Side) -> list[Item]:
        result = self.step.results[place]
        values = self.rows.values(self.rows.place) | features.values(features.place)
        at = Substituted(values).indices(result.indices)
        scalar = converted(self.own(sums, (*self.rows.own, *features.own)), result.dtype)
        inner = features.each([Store(result.buffer, at, scalar)], features.place)
        return unrolled(self.rows.own, inner, self.rows.within(self.rows.place))

    def numbers(self, name: str, scalar: Scalar) -> Operand:
        """Make the tiles of a number for each column."""
        [variable], one = self.columns.variables, Side("", [], Variable(1), [], [])
        terms = Terms([variable], variable.extent, self.columns.width)
        return Operand(scalar, one, terms, True, 0, self.ring.stages, name=name, threads=self.copiers)

    def number_at(self, numbers: Operand, stage: Index) -> Load:
        """Return the number of a column."""
        return Load(numbers.tile, numbers.at(ZERO, self.columns.place, stage))
