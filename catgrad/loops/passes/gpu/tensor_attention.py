"""FlashAttention on tensor cores: products of tiles by warps, and an online softmax in their registers.

    for each tile of rows, a block:                 queries, or keys for the cotangents of keys and values
        for each tile of columns, in a ring:        keys, or queries
            scores = rows · columns
            greatest, weights = …                   of a row, by the four threads that have parts of it
            result = rescaled result + weights · columns

Scores are sums of one product and factors of the next in the same registers, rounded as the other factor is.
The forward pass rescales; the reverse computes weights from the logarithms of sums, as on other cores.

Source: Dao 2023, FlashAttention-2 (arXiv:2307.08691), algorithms 1 and 2
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf

from catgrad.loops.ir.index import ZERO, Index, Variable, index, modulo, quotient
from catgrad.loops.ir.nest import Accumulate, Axis, Item, Kernel, Loop, ReduceLanes, Store, Substituted, rewritten
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Scalar, converted, number
from catgrad.loops.ir.steps import Attend, AttentionPart
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.attention_tiles import LANES, ROWS, STAGES, factor_dtype, sides, sizes, slices
from catgrad.loops.passes.gpu.operands import Operand, Terms
from catgrad.loops.passes.gpu.products import narrowed
from catgrad.loops.passes.gpu.ring import Ring
from catgrad.loops.passes.gpu.thread_tiles import Side, ThreadTiles, stepped, unrolled
from catgrad.ops.arithmetic import Add, Divide, Maximum, Multiply, Subtract
from catgrad.ops.compare import Equal, Select
from catgrad.ops.transcendental import Exp, Log
from catgrad.terms.op import Op
from catgrad.types import Dtype

FLOAT = Dtype.float32


def tensor_attention(step: Attend, machine: Machine) -> Kernel | None:
    """Schedule a part of attention for tensor cores; None if they do not multiply its operands."""
    dtype = factor_dtype(step, machine)
    if dtype is None:
        return None
    return Kernel([(_Forward if step.part is AttentionPart.OUTPUT else _Reverse)(step, dtype).loop()])


class _Tiles(ThreadTiles, ABC):
    """The sides of scores and results, the tiles of operands, and products of them."""

    def __init__(self, step: Attend, dtype: Dtype) -> None:
        self.step, self.factor_dtype, self.sizes = step, dtype, sizes(step, dtype)
        self.of_keys = step.part is AttentionPart.KEYS
        rows, columns = sides(step)
        self.lane = Variable(LANES, "column_thread")
        warp, row = Variable(self.sizes.rows // ROWS, "row_warp"), Variable(ROWS // 2, "row_thread")
        super().__init__([warp, row, self.lane], FLOAT)
        first = stepped(rows.extent, f"{rows.name}_tile", self.sizes.rows)
        own = [(Variable(1, rows.name), ROWS), (Variable(2, rows.name), ROWS // 2)]
        self.rows = Side(rows.name, [rows], first, [(warp, ROWS), (row, 1)], own)
        self.columns = self._across(columns, self.sizes.columns, Variable(columns.extent, "first"))
        self.query, self.key = (self.columns, self.rows) if self.of_keys else (self.rows, self.columns)
        self.feature = self._across(step.feature, self.sizes.feature)
        self.column = self._across(step.column, self.sizes.column)
        self.slices = slices(step, index(first), self.sizes)
        self.ring = Ring(self.slices, self.sizes.columns, STAGES)
        self.own_scores = (*self.rows.own, *self.columns.own)
        self.scores = self.registers("scores", self.own_scores)

    def _across(self, variable: Variable, width: int, first: Variable | None = None) -> Side:
        """Give each lane two neighbouring columns of every eight."""
        name = variable.name
        own = [(Variable(width // 8, name), 8), (Variable(2, name), 1)]
        return Side(name, [variable], first or Variable(1), [(self.lane, 2)], own)

    @abstractmethod
    def loop(self) -> Loop:
        """The loops over tiles, and what a block does for each."""

    def operand(self, name: str, scalar: Scalar, side: Side, features: Side) -> Operand:
        """Make the tiles of rows of features: of all rows, or of the columns of a ring."""
        is_whole = side is self.rows
        width, stages = (self.rows.width, 1) if is_whole else (self.columns.width, self.ring.stages)
        terms = Terms(side.variables, side.extent, width, not is_whole and self.slices.before)
        factor = narrowed(scalar, self.factor_dtype) or scalar
        return Operand(
            factor, features, terms, False, self.sizes.padding, stages, name=name, threads=self.team
        )

    def through(self, begin: list[Item], rows: Sequence[Operand], columns: Sequence[Operand], end: list[Item]) -> Loop:
        """Go through the tiles of columns for each tile of rows."""
        first = index(self.rows.first)

        def tile(term: Index, stage: Index) -> list[Item]:
            return rewritten(self.tile(stage), Substituted({self.columns.first: term}))

        through = self.ring.through(columns, tile, [(operand, first) for operand in rows])
        return self.of_block(
            (*self.step.batch, self.rows.first), [self.of_threads(begin), *through, *end]
        )

    @abstractmethod
    def tile(self, stage: Index) -> list[Item]:
        """What a block does for the tile of columns that is at a stage."""

    def score(self, scores: Buffer, rows: Operand, columns: Operand, stage: Index) -> list[Item]:
        """Compute the inner products of rows and columns."""
        k = Variable(rows.inner, "k")
        left = Load(rows.tile, rows.at(index(k), self.rows.place))
        right = Load(columns.tile, columns.at(index(k), self.columns.place, stage))
        zeros = self.of_threads(self.fill(scores, self.own_scores))
        return [zeros, self._add_products(scores, self.own_scores, k, left, right)]

    def add_weighted(
        self, total: Buffer, features: Side, weights: Buffer, columns: Operand, stage: Index
    ) -> Item:
        """Add the columns of a tile, multiplied by weights that are in registers, to a result."""
        k = Variable(self.columns.width, "k")
        place, own = index(k), list(map(index, (*self.threads[:-1], *self.rows.own)))
        lane, eighth, half = quotient(modulo(place, 8), 2), quotient(place, 8), modulo(place, 2)
        at = (*own[:2], lane, *own[2:], eighth, half)
        left = converted(Load(weights, at), self.factor_dtype)
        right = Load(columns.tile, columns.at(features.place, place, stage))
        return self._add_products(total, (*self.rows.own, *features.own), k, left, right)

    def _add_products(
        self, sums: Buffer, own: Sequence[Variable], k: Variable, left: Scalar, right: Scalar
    ) -> Item:
        term = _float(Multiply(), converted(left, FLOAT), converted(right, FLOAT))
        add = unrolled(own, [Accumulate(sums, self.own(sums, own).indices, Add(), term)])
        return self.of_threads([Loop(k, add, axis=Axis.TENSOR)])

    @property
    def exists(self) -> tuple[Bounds, ...]:
        """The conditions that a query attends to a key."""
        window, columns = self.step.window, self.columns
        behind = Bounds(self.query.index - self.key.index, window or 0, True, window is not None)
        before = (Bounds(columns.index, 0, True, False),) if self.slices.before else ()
        return (*before, *columns.within(columns.place), *((behind,) if self.step.causal else ()))

    def masked(self, scalar: Scalar, outside: float) -> Scalar:
        """Replace a scalar where a query does not attend to a key."""
        return Masked(self.exists, scalar, number(outside, FLOAT)) if self.exists else scalar

    def of_all_lanes(self, name: str, op: Op, part: Buffer) -> tuple[Load, list[Item]]:
        """Combine a number for each row over the threads that have parts of it."""
        own, lane = self.rows.own, Variable(LANES, "lane")
        whole = self.registers(name, own)
        at = tuple(map(index, (*self.threads[:-1], lane, *own)))
        identity = 0 if isinstance(op, Add) else -inf
        reduce = ReduceLanes(whole, self.own(whole, own).indices, op, Load(part, at), (lane,), identity)
        return self.own(whole, own), unrolled(own, [reduce])

    def store(self, place: int, features: Side, scalar: Scalar) -> list[Item]:
        """Store the elements of a result that there are."""
        result = self.step.results[place]
        values = self.rows.values(self.rows.place) | features.values(features.place)
        stored = Store(
            result.buffer, Substituted(values).indices(result.indices), converted(scalar, result.dtype)
        )
        inner = unrolled(features.own, [stored], features.within(features.place))
        return unrolled(self.rows.own, inner, self.rows.within(self.rows.place))


class _Forward(_Tiles):
    """The output, by an online softmax."""

    def loop(self) -> Loop:
        """The loops over tiles, and what a block does for each."""
        q, k, v = self.step.operands
        own, outputs = self.rows.own, (*self.rows.own, *self.column.own)
        self.queries = self.operand("queries", q, self.rows, self.feature)
        self.keys = self.operand("keys", k, self.columns, self.feature)
        self.values = self.operand("values", v, self.columns, self.column)
        self.greatest, self.sums = self.registers("greatest", own), self.registers("sums", own)
        self.output = self.registers("output", outputs)
        begin = [
            *self.fill(self.greatest, own, -inf),
            *self.fill(self.sums, own),
            *self.fill(self.output, outputs),
        ]
        return self.through(begin, [self.queries], [self.keys, self.values], self._end())

    def tile(self, stage: Index) -> list[Item]:
        """What a block does for the tile of columns that is at a stage."""
        own, score = self.rows.own, self.own(self.scores, self.own_scores)
        best = self.registers("best", own)
        scaled = self.masked(_float(Multiply(), score, number(self.step.scale, FLOAT)), -inf)
        find = unrolled(self.own_scores, [
            self.set(self.scores, self.own_scores, scaled),
            Accumulate(best, self.own(best, own).indices, Maximum(), score),
        ])  # fmt: skip
        return [
            *self.score(self.scores, self.queries, self.keys, stage),
            self.of_threads([*self.fill(best, own, -inf), *find]),
            self.of_threads(self._exponentials(best)),
            self.add_weighted(self.output, self.column, self.scores, self.values, stage),
        ]

    def _exponentials(self, best: Buffer) -> list[Item]:
        """Rescale sums to the greatest scores so far, and compute the exponentials of the tile's."""
        own, outputs = self.rows.own, (*self.rows.own, *self.column.own)
        newest, combine = self.of_all_lanes("newest", Maximum(), best)
        base, factor = self.registers("base", own), self.registers("factor", own)
        greatest, zero, rescale = self.own(self.greatest, own), self.own(base, own), self.own(factor, own)
        is_none = Compute(Equal(), Dtype.bool, (newest, number(-inf, FLOAT)))
        score = self.own(self.scores, self.own_scores)
        return [
            *combine,
            *unrolled(own, [
                Accumulate(newest.buffer, newest.indices, Maximum(), greatest),
                # A row of scores -inf has no exponentials yet, rather than those of NaN.
                self.set(base, own, _float(Select(), is_none, number(0, FLOAT), newest)),
                self.set(factor, own, _float(Exp(), _float(Subtract(), greatest, zero))),
                self.set(self.greatest, own, newest),
                self.set(self.sums, own, _float(Multiply(), self.own(self.sums, own), rescale)),
            ]),
            *unrolled(self.own_scores, [
                self.set(self.scores, self.own_scores, _float(Exp(), _float(Subtract(), score, zero))),
                Accumulate(self.sums, self.own(self.sums, own).indices, Add(), score),
            ]),
            *unrolled(outputs, [
                self.set(self.output, outputs, _float(Multiply(), self.own(self.output, outputs), rescale))
            ]),
        ]  # fmt: skip

    def _end(self) -> list[Item]:
        """Add up the sums of a row's threads, and divide by them."""
        own = self.rows.own
        total, combine = self.of_all_lanes("total", Add(), self.sums)
        quotient = _float(Divide(), self.own(self.output, (*own, *self.column.own)), total)
        stores = self.store(0, self.column, quotient)
        if len(self.step.results) > 1:
            logsumexp = _float(Add(), self.own(self.greatest, own), _float(Log(), total))
            result = self.step.results[1]
            at = Substituted(self.rows.values(self.rows.place)).indices(result.indices)
            first = Bounds(index(self.lane), 1, False, True)
            conditions = (first, *self.rows.within(self.rows.place))
            stores += unrolled(own, [Store(result.buffer, at, logsumexp)], conditions)
        return [self.of_threads([*combine, *stores])]


class _Reverse(_Tiles):
    """The cotangents of queries, or of keys and values."""

    def loop(self) -> Loop:
        """The loops over tiles, and what a block does for each."""
        q, k, v, dy, *of_rows = self.step.operands
        pairs = [("keys", k, "queries", q), ("values", v, "cotangents", dy)]
        features = (self.feature, self.column)
        self.tiles = list[tuple[Operand, Operand, Side]]()
        for (key, of_key, query, of_query), side in zip(pairs, features, strict=True):
            both = (self.operand(key, of_key, self.key, side), self.operand(query, of_query, self.query, side))
            rows, columns = both if self.of_keys else both[::-1]
            self.tiles.append((rows, columns, side))
        self.products = self.registers("products", self.own_scores)
        # The cotangent of the scores weighs features; of the values, the weights weigh columns.
        self.results = [("of_keys" if self.of_keys else "of_queries", self.products, *self.tiles[0][1:])]
        self.results += [("of_values", self.scores, *self.tiles[1][1:])] if self.of_keys else []
        self.sums = [self.registers(name, (*self.rows.own, *side.own)) for name, _, _, side in self.results]
        begin, end = self._numbers(of_rows), list[Item]()
        for place, (total, (_, _, _, side)) in enumerate(zip(self.sums, self.results, strict=True)):
            own = (*self.rows.own, *side.own)
            begin += self.fill(total, own)
            result: Scalar = self.own(total, own)
            if place == 0:
                result = _float(Multiply(), result, number(self.step.scale, FLOAT))
            end += self.store(place, side, result)
        columns = [columns for _, columns, _ in self.tiles]
        rows = [rows for rows, _, _ in self.tiles]
        return self.through(begin, rows, [*columns, *self.of_columns], [self.of_threads(end)])

    def _numbers(self, scalars: Sequence[Scalar]) -> list[Item]:
        """Let threads have the numbers of their queries: those of rows in registers, of columns as tiles."""
        names, own, query = ("logsumexps", "inner_products"), self.rows.own, self.step.query
        self.of_columns = list[Operand]()
        if self.of_keys:
            one = Side("", [], Variable(1), [], [])
            terms = Terms([query], query.extent, self.columns.width)
            self.of_columns = [
                Operand(scalar, one, terms, True, 0, self.ring.stages, name=name, threads=self.team)
                for name, scalar in zip(names, scalars, strict=True)
            ]
            return []
        self.of_rows = [self.registers(name, own) for name in names]
        at = Substituted({query: self.rows.index})
        within = self.rows.within(self.rows.place)
        loads = [at.scalar(scalar) for scalar in scalars]
        loads = [Masked(within, load, number(0, FLOAT)) for load in loads] if within else loads
        sets: list[Item] = [self.set(r, own, load) for r, load in zip(self.of_rows, loads, strict=True)]
        return unrolled(own, sets)

    def tile(self, stage: Index) -> list[Item]:
        """What a block does for the tile of columns that is at a stage."""
        if self.of_keys:
            logsumexp, inner = (
                Load(o.tile, o.at(ZERO, self.columns.place, stage)) for o in self.of_columns
            )
        else:
            logsumexp, inner = (self.own(each, self.rows.own) for each in self.of_rows)
        score, product = (self.own(each, self.own_scores) for each in (self.scores, self.products))
        scaled = _float(Multiply(), score, number(self.step.scale, FLOAT))
        weight = self.masked(_float(Exp(), _float(Subtract(), scaled, logsumexp)), 0)
        of_score = _float(Multiply(), score, _float(Subtract(), product, inner))
        body: list[Item] = [
            self.set(self.scores, self.own_scores, weight),
            self.set(self.products, self.own_scores, of_score),
        ]
        items = list[Item]()
        for scores, (rows, columns, _) in zip((self.scores, self.products), self.tiles, strict=True):
            items += self.score(scores, rows, columns, stage)
        items.append(self.of_threads(unrolled(self.own_scores, body)))
        for total, (_, weights, columns, side) in zip(self.sums, self.results, strict=True):
            items.append(self.add_weighted(total, side, weights, columns, stage))
        return items


def _float(op: Op, *operands: Scalar) -> Compute:
    return Compute(op, FLOAT, operands)
