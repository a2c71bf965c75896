"""FlashAttention: attention and its reverse by tiles, without a stored matrix of scores.

Forward, a block of threads goes through the keys of its queries with an online softmax: a greater maximum
rescales the sums so far. The reverse computes the weights again, from the logarithm of each query's sum of
exponentials: once for the queries, and once for keys and values, so that every sum has a fixed order.

Source: Dao 2023, FlashAttention-2 (arXiv:2307.08691), algorithms 1 and 2; Milakov and Gimelshein 2018, Online
normalizer calculation for softmax (arXiv:1805.02867)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Index, Variable, index, is_below, is_natural
from catgrad.loops.ir.nest import (
    Accumulate,
    Item,
    Kernel,
    Loop,
    Store,
    Substituted,
    size_hint,
)
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Scalar, converted, number
from catgrad.loops.ir.steps import Attend, AttentionPart
from catgrad.loops.passes.gpu.attention.exponentials import FLOAT, of_floats
from catgrad.loops.passes.gpu.attention.pairs import Element, Pairs, padded
from catgrad.loops.passes.gpu.products.thread_tiles import RUN, SIDE, THREADS, Side, unrolled
from catgrad.ops.arithmetic import Add, Divide, Maximum, Multiply, Subtract
from catgrad.ops.compare import Equal, Select
from catgrad.ops.transcendental import Exp, Log
from catgrad.types import Dtype

WIDTHS = ((64, 32), (32, 32), (32, 16), (16, 16))
"""Rows and columns of tiles, of which the first that fit are chosen."""

MAX_TILE_BYTES = 48 * 2**10
"""Bytes of shared memory that a block may have without asking for more."""

MAX_RESULTS = 16
"""Elements of each result that a thread keeps in registers."""


def attention(step: Attend) -> Kernel:
    """Schedule a part of attention for a grid of blocks."""
    return Kernel([(_Forward if step.part is AttentionPart.OUTPUT else _Reverse)(step).loop()])


class _Tiles(Pairs, ABC):
    """Tiles of the operands, and products of them, for forward and reverse."""

    def __init__(self, step: Attend) -> None:
        self.step = step
        self.of_keys = step.part is AttentionPart.KEYS
        rows, columns = (step.key, step.query) if self.of_keys else (step.query, step.key)
        widths = next(w for w in WIDTHS if self._fits(*w))
        super().__init__(rows, columns, widths)
        self.query, self.key = (self.columns, self.rows) if self.of_keys else (self.rows, self.columns)
        self.feature, self.column = self.features(step.feature), self.features(step.column)
        self.own_scores = (*self.rows.own, *self.columns.own)
        self.scores = self.registers("scores", self.own_scores)
        self.weights = self.tile("weights_tile", *widths)

    def _fits(self, rows: int, columns: int) -> bool:
        """Tell whether tiles fit into shared memory, and each result into registers."""
        width = max(padded(size_hint(v.extent)) for v in (self.step.feature, self.step.column))
        return self.bytes(rows, columns) <= MAX_TILE_BYTES and rows * width <= MAX_RESULTS * THREADS

    @abstractmethod
    def bytes(self, rows: int, columns: int) -> int:
        """Count the bytes of all tiles."""

    @abstractmethod
    def loop(self) -> Loop:
        """The loops over tiles, and what a block does for each."""

    def bytes_of_tiles(self, *sizes: tuple[int, int]) -> int:
        """Count the bytes of tiles, by their heights and widths."""
        return sum(FLOAT.itemsize * height * (padded(width) + RUN) for height, width in sizes)

    @property
    def exists(self) -> tuple[Bounds, ...]:
        """The conditions that a query attends to a key."""
        window = self.step.window
        behind = Bounds(self.query.index - self.key.index, window or 0, True, window is not None)
        return (*self.columns.within(self.columns.place), *((behind,) if self.step.causal else ()))

    def tile_of(self, name: str, is_row: bool, features: Side) -> Buffer:
        """Make the tile of an operand."""
        return self.tile(name, (self.rows if is_row else self.columns).width, features.width)

    def through_columns(self, body: list[Item]) -> Loop:
        """Go through the tiles of columns, without those above the diagonal and those before the window."""
        first_query, first_key = index(self.query.first), index(self.key.first)
        farthest = first_query + (self.query.width - 1) - first_key
        nearest = first_query - first_key - (self.key.width - 1)
        conditions: list[Bounds] = []
        if self.step.causal and not is_natural(farthest):
            conditions.append(Bounds(farthest, 0, True, False))
        if self.step.window is not None and not is_below(nearest, self.step.window):
            conditions.append(Bounds(nearest, self.step.window, False, True))
        return Loop(self.columns.first, body, conditions=tuple(conditions))

    def score(self, scores: Buffer, rows: Buffer, columns: Buffer, features: Side) -> list[Item]:
        """Compute the inner products of rows and columns."""
        loop = self.add_products(scores, self.columns, features.extent, _plain(rows), _plain(columns))
        return [*self.fill(scores, self.own_scores), loop]

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

    def bytes(self, rows: int, columns: int) -> int:
        d, e = (size_hint(v.extent) for v in (self.step.feature, self.step.column))
        return self.bytes_of_tiles((rows, d), (columns, d), (columns, e), (rows, columns), (rows, SIDE))

    def loop(self) -> Loop:
        """The loops over tiles, and what a block does for each."""
        q, k, v = self.step.operands
        own, outputs = self.rows.own, (*self.rows.own, *self.column.own)
        self.queries = self.tile_of("queries_tile", True, self.feature)
        self.keys = self.tile_of("keys_tile", False, self.feature)
        values = self.tile_of("values_tile", False, self.column)
        self.partial = self.tile("partial_tile", self.rows.width, SIDE)
        self.greatest, self.sums = self.registers("greatest", own), self.registers("sums", own)
        self.output = self.registers("output", outputs)
        begin = [
            *self.fill(self.greatest, own, -inf),
            *self.fill(self.sums, own),
            *self.fill(self.output, outputs),
        ]
        multiply = self.add_products(
            self.output, self.column, self.columns.width, _plain(self.weights), _turned(values)
        )
        body: list[Item] = [
            self.load(self.keys, self.columns, self.feature, k),
            self.load(values, self.columns, self.column, v),
            self.of_threads(self._scores()),
            self.of_threads(self._exponentials()),
            self.of_threads([multiply]),
        ]
        return self.of_block(
            (*self.step.batch, self.rows.first),
            [
                self.load(self.queries, self.rows, self.feature, q),
                self.of_threads(begin),
                self.through_columns(body),
                *self._end(),
            ],
        )

    def _at(self, other: Index) -> tuple[Index, Index]:
        return self.rows.place, other

    def _scores(self) -> list[Item]:
        """Compute scores, and of each row the greatest that the thread has."""
        own, score = self.rows.own, self.own(self.scores, self.own_scores)
        scaled: Scalar = of_floats(Multiply(), score, number(self.step.scale, FLOAT))
        scaled = Masked(self.exists, scaled, number(-inf, FLOAT)) if self.exists else scaled
        best = self.registers("best", own)
        best_at = self.own(best, own)
        find: list[Item] = [
            self.set(self.scores, self.own_scores, scaled),
            Accumulate(best, best_at.indices, Maximum(), score),
        ]
        share = Store(self.partial, self._at(index(self.threads[1])), best_at)
        return [
            *self.score(self.scores, self.queries, self.keys, self.feature),
            *self.fill(best, own, -inf),
            *unrolled(self.own_scores, find),
            *unrolled(own, [share]),
        ]

    def _exponentials(self) -> list[Item]:
        """Rescale the sums to the greatest scores so far, and add the exponentials of the tile's."""
        own, outputs, thread = self.rows.own, (*self.rows.own, *self.column.own), Variable(SIDE, "thread")
        newest, base, factor = (self.registers(name, own) for name in ("newest", "base", "factor"))
        greatest, latest, zero = self.own(self.greatest, own), self.own(newest, own), self.own(base, own)
        other = Load(self.partial, self._at(index(thread)))
        is_none = Compute(Equal(), Dtype.bool, (latest, number(-inf, FLOAT)))
        rescale = self.own(factor, own)
        score = self.own(self.scores, self.own_scores)
        weight = Load(self.weights, self._at(self.columns.place))
        return [
            *unrolled(own, [
                self.set(newest, own, greatest),
                Loop(thread, [Accumulate(newest, latest.indices, Maximum(), other)], axis=Axis.UNROLLED),
                # A row of scores -inf has no exponentials yet, rather than those of NaN.
                self.set(base, own, of_floats(Select(), is_none, number(0, FLOAT), latest)),
                self.set(factor, own, of_floats(Exp(), of_floats(Subtract(), greatest, zero))),
                self.set(self.greatest, own, latest),
                self.set(self.sums, own, of_floats(Multiply(), self.own(self.sums, own), rescale)),
            ]),
            *unrolled(self.own_scores, [
                self.set(self.scores, self.own_scores, of_floats(Exp(), of_floats(Subtract(), score, zero))),
                Accumulate(self.sums, self.own(self.sums, own).indices, Add(), score),
                Store(self.weights, weight.indices, score),
            ]),
            *unrolled(outputs, [
                self.set(self.output, outputs, of_floats(Multiply(), self.own(self.output, outputs), rescale))
            ]),
        ]  # fmt: skip

    def _end(self) -> list[Item]:
        """Add up the sums of a row's threads, and divide by them."""
        own, thread = self.rows.own, Variable(SIDE, "thread")
        sums, whole = self.own(self.sums, own), self.registers("whole", own)
        total = self.own(whole, own)
        share = Store(self.partial, self._at(index(self.threads[1])), sums)
        other = Load(self.partial, self._at(index(thread)))
        add = Loop(thread, [Accumulate(whole, total.indices, Add(), other)], axis=Axis.UNROLLED)
        combine = unrolled(own, [self.set(whole, own, number(0, FLOAT)), add])
        quotient = of_floats(Divide(), self.own(self.output, (*own, *self.column.own)), total)
        stores = self.store(0, self.column, quotient)
        if len(self.step.results) > 1:
            logsumexp = of_floats(Add(), self.own(self.greatest, own), of_floats(Log(), total))
            result = self.step.results[1]
            at = Substituted(self.rows.values(self.rows.place)).indices(result.indices)
            first = Bounds(index(self.threads[1]), 1, False, True)
            conditions = (first, *self.rows.within(self.rows.place))
            stores += unrolled(own, [Store(result.buffer, at, logsumexp)], conditions)
        return [self.of_threads(unrolled(own, [share])), self.of_threads([*combine, *stores])]


class _Reverse(_Tiles):
    """The cotangents of queries, or of keys and values."""

    def bytes(self, rows: int, columns: int) -> int:
        d, e = (size_hint(v.extent) for v in (self.step.feature, self.step.column))
        weights = [(rows, columns)] * (2 if self.of_keys else 1)
        return self.bytes_of_tiles((rows, d), (rows, e), (columns, d), (columns, e), *weights)

    def loop(self) -> Loop:
        """The loops over tiles, and what a block does for each."""
        q, k, v, dy, _, _ = self.step.operands
        operands = [(q, k), (dy, v)]
        names = [("queries_tile", "keys_tile"), ("cotangents_tile", "values_tile")]
        if self.of_keys:
            operands, names = [(b, a) for a, b in operands], [(b, a) for a, b in names]
        both = (self.feature, self.column)
        rows, columns = (
            [self.tile_of(pair[i], i == 0, f) for pair, f in zip(names, both, strict=True)] for i in (0, 1)
        )
        self.of_scores = self.tile("of_scores_tile", self.rows.width, self.columns.width)
        results = [(self.of_scores, columns[0], self.feature)]
        results += [(self.weights, columns[1], self.column)] if self.of_keys else []
        names_of_sums = ("of_keys", "of_values") if self.of_keys else ("of_queries",)
        sums = [
            self.registers(name, (*self.rows.own, *f.own))
            for name, (_, _, f) in zip(names_of_sums, results, strict=True)
        ]
        begin, multiply, end = list[Item](), list[Item](), list[Item]()
        for place, (total, (factor, tile, f)) in enumerate(zip(sums, results, strict=True)):
            own = (*self.rows.own, *f.own)
            begin += self.fill(total, own)
            multiply.append(self.add_products(total, f, self.columns.width, _plain(factor), _turned(tile)))
            end += self.store(place, f, self.own(total, own))
        loads: list[list[Item]] = [
            [self.load(t, side, f, pair[i]) for t, f, pair in zip(tiles, both, operands, strict=True)]
            for i, (side, tiles) in enumerate(((self.rows, rows), (self.columns, columns)))
        ]
        again = self.of_threads(self._of_scores(rows, columns))
        through = self.through_columns([*loads[1], again, self.of_threads(multiply)])
        return self.of_block(
            (*self.step.batch, self.rows.first),
            [*loads[0], self.of_threads(begin), through, self.of_threads(end)],
        )

    def _of_scores(self, rows: list[Buffer], columns: list[Buffer]) -> list[Item]:
        """Compute the weights again, and the cotangents of the scores."""
        products = self.registers("products", self.own_scores)
        score, inner = self.own(self.scores, self.own_scores), self.own(products, self.own_scores)
        at = Substituted({self.step.query: self.query.index})
        logsumexp, of_query = (at.scalar(each) for each in self.step.operands[4:])
        scale, zero = number(self.step.scale, FLOAT), number(0, FLOAT)
        weight: Scalar = of_floats(
            Exp(), of_floats(Subtract(), of_floats(Multiply(), score, scale), logsumexp)
        )
        of_score: Scalar = of_floats(Multiply(), score, of_floats(Subtract(), inner, of_query))
        of_score = of_floats(Multiply(), of_score, scale)
        conditions = (*self.rows.within(self.rows.place), *self.exists)
        if conditions:
            weight, of_score = (Masked(conditions, each, zero) for each in (weight, of_score))
        place = (self.rows.place, self.columns.place)
        stores: list[Item] = [self.set(self.scores, self.own_scores, weight)]
        stores += [Store(self.weights, place, score)] if self.of_keys else []
        stores += [Store(self.of_scores, place, of_score)]
        return [
            *self.score(self.scores, rows[0], columns[0], self.feature),
            *self.score(products, rows[1], columns[1], self.column),
            *unrolled(self.own_scores, stores),
        ]


def _plain(tile: Buffer) -> Element:
    """Read a tile by place and term."""
    return lambda place, term: Load(tile, (place, term))


def _turned(tile: Buffer) -> Element:
    """Read a tile by term and place."""
    return lambda place, term: Load(tile, (term, place))
