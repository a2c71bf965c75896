"""Print attention by warp groups: tiles that a producer brings, and products of them, as one line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.boxes import Box, box
from catgrad.loops.ir.index import ZERO, Variable
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Reduce, Store, loops, perfect_nest, size_hint
from catgrad.loops.ir.scalar import Scalar
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.printing.lines import For, Line, When
from catgrad.printing.dialect import Text
from catgrad.types import Dtype

OPERANDS = ("queries", "keys", "values")
"""Names of the operands, in their order."""

Operand = tuple[str, Box, Variable]
"""The name of an operand, its tile as a box, and the variable of places in this."""


@dataclass(frozen=True)
class BroughtTile(Line):
    """A copy of the tile of an operand, a box from an element on, to the next stage of a ring."""

    operand: str
    first: tuple[Text, ...]


@dataclass(frozen=True)
class QueryProduct(Line):
    """The scores of queries and the next tile of keys, whose heads have so many features."""

    dtype: Dtype
    features: int
    scores: str


@dataclass(frozen=True)
class ValueProduct(Line):
    """The next tile of values, multiplied by weights in registers, which is added to the output."""

    dtype: Dtype
    features: int
    output: str
    weights: str


@dataclass(frozen=True)
class RoundedWeights(Line):
    """Scores that are rounded to a dtype, two in a register."""

    dtype: Dtype
    weights: str
    scores: str


@dataclass(frozen=True)
class FedAttention(Line):
    """The lines of the warp groups of a block, and those by which a producer brings what they multiply."""

    features: int
    tiles: tuple[Line, ...]
    lines: tuple[Line, ...]


def fed_attention(items: Sequence[Item]) -> Loop | None:
    """Find the attention of a block of warp groups."""
    own = (loop.body[-1] for loop in loops(items) if loop.axis is Axis.EITHER)
    return next((x for x in own if isinstance(x, Loop) and x.axis is Axis.BLOCK), None)


def operands(attention: Loop) -> list[Operand]:
    """List the operands, each with its first tile."""
    every = [each for loop in _whole(attention.body) for each in _operands(loop)]
    return [next(each for each in every if each[0] == name) for name in OPERANDS]


def features(attention: Loop) -> int:
    """Count the features of a head."""
    (_, queries, _), *_ = operands(attention)
    return size_hint(queries.dimensions[0].size)


def _whole(items: Sequence[Item]) -> Iterator[Loop]:
    """Yield the nests that warp groups run at once."""
    for item in items:
        if isinstance(item, Loop) and item.axis is Axis.WARPGROUP:
            yield item
        elif isinstance(item, Loop):
            yield from _whole(item.body)


def _operands(loop: Loop) -> list[Operand]:
    """List the operands of a product that are in memory."""
    (row, column, *terms), [s] = perfect_nest([loop])
    if isinstance(s, Reduce):
        queries, keys = s.scalar.operands
        [feature] = s.axes
        return [_operand("queries", queries, row, feature), _operand("keys", keys, column, feature)]
    if not isinstance(s, Accumulate):
        return []
    _, values = s.scalar.operands
    [key] = terms
    return [_operand("values", values, key, column)]


def _operand(name: str, factor: Scalar, place: Variable, feature: Variable) -> Operand:
    found = box(factor.operands[0], place, feature)
    assert found
    return name, found, place


def brought_tiles(here: Expressions, attention: Loop) -> Iterator[Line]:
    """Print what a producer brings: the queries, and the other operand of each product in order."""
    yield _brought(here, *operands(attention)[0])
    yield from _through(here, attention.body)


def _through(here: Expressions, items: Sequence[Item]) -> Iterator[Line]:
    for item in items:
        if isinstance(item, Loop) and item.axis is Axis.WARPGROUP:
            yield from (_brought(here, *each) for each in _operands(item)[-1:])
        elif isinstance(item, Loop) and item.axis is Axis.SERIAL and [*_whole(item.body)]:
            variable, lines = item.variable, tuple(_through(here, item.body))
            conditions = tuple(map(here.condition, item.conditions))
            body = (When(conditions, lines),) if conditions else lines
            yield For(here.variables[variable], here.size(variable.extent), body, step=variable.step)


def _brought(here: Expressions, name: str, tile: Box, place: Variable) -> BroughtTile:
    first = (d.index.substitute({place: ZERO}) for d in tile.dimensions[1:])
    return BroughtTile(name, tuple(map(here.index, first)))


def whole_line(here: Expressions, loop: Loop) -> Line:
    """Print a product of attention, or the rounding of its weights."""
    _, [s] = perfect_nest([loop])
    assert isinstance(s, Store | Reduce | Accumulate)
    target = here.name_of(s.buffer)
    if isinstance(s, Store):
        [(scores, _)] = s.reads
        return RoundedWeights(s.buffer.type.dtype, target, here.name_of(scores))
    *_, (_, tile, _) = _operands(loop)
    dtype, width = tile.buffer.type.dtype, size_hint(tile.dimensions[0].size)
    if isinstance(s, Reduce):
        return QueryProduct(dtype, width, target)
    [weights] = s.scalar.operands[0].loads()
    return ValueProduct(dtype, width, target, here.name_of(weights.buffer))
