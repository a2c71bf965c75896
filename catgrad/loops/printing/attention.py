"""Print attention by warp groups: tiles that a producer brings, and products of them, as one line each.

A product of rows and columns has both in memory: rows are those of the block, which are kept, and columns are
the next tile of a ring. A product with weights in registers takes the next tile too, or one taken before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.boxes import Box, box
from catgrad.loops.ir.index import ZERO, Index, Variable
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Reduce, Store, loops, perfect_nest, size_hint
from catgrad.loops.ir.scalar import Scalar
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.printing.fed_lines import (
    BroughtTile,
    FedAttention,
    Heads,
    KeptProduct,
    KeptRows,
    RoundedWeights,
    WeightedProduct,
)
from catgrad.loops.printing.lines import For, Line, When
from catgrad.printing.dialect import Text

OPERANDS = {
    ("query", "feature"): "queries",
    ("key", "feature"): "keys",
    ("key", "column"): "values",
    ("query", "column"): "cotangents",
}
"""Names of operands by those of their axes, in their order."""


@dataclass(frozen=True)
class Operand:
    """An operand of a product: its name, its tile as a box, and the variable of places in this."""

    name: str
    tile: Box
    place: Variable

    @property
    def first(self) -> tuple[Index, ...]:
        """The first element of the tile, but for its feature."""
        return tuple(d.index.substitute({self.place: ZERO}) for d in self.tile.dimensions[1:])


def fed_attention(items: Sequence[Item]) -> Loop | None:
    """Find the attention of a block of warp groups."""
    own = (loop.body[-1] for loop in loops(items) if loop.axis is Axis.EITHER)
    return next((x for x in own if isinstance(x, Loop) and x.axis is Axis.BLOCK), None)


class Attention:
    """The products of the warp groups of a block, and the operands that they have in memory."""

    def __init__(self, block: Loop) -> None:
        self.block, self.ago = block, dict[Loop, int]()
        found = [*map(_operands, _whole(block.body))]
        first = {each.name: each for operands in reversed(found) for each in operands}
        self.operands = [first[name] for name in OPERANDS.values() if name in first]
        of_memory = [operands for operands in found if len(operands) == 2]
        self.kept = [*{rows.name: rows for rows, _ in of_memory}.values()]
        rows, columns = of_memory[0]
        places = size_hint(rows.place.extent), size_hint(columns.place.extent)
        self.heads = Heads(size_hint(rows.tile.dimensions[0].size), *places, len(self.kept))
        self._take(block.body)

    def _take(self, items: Sequence[Item]) -> None:
        """Find how many tiles ago that of each product was taken, 0 if it is the next one."""
        taken = list[tuple[str, tuple[Index, ...]]]()
        for loop in (item for item in items if isinstance(item, Loop)):
            if loop.axis is not Axis.WARPGROUP:
                self._take(loop.body)
            elif found := _operands(loop):
                tile = found[-1].name, found[-1].first
                self.ago[loop] = len(taken) - taken.index(tile) if tile in taken else 0
                taken += [] if tile in taken else [tile]

    def fed(self, here: Expressions, lines: Sequence[Line]) -> FedAttention:
        """Print what warp groups do, and what a producer brings: rows, and tiles in the order of products."""
        rows = (KeptRows(each.name, _first(here, each), i) for i, each in enumerate(self.kept))
        return FedAttention(self.heads, (*rows, *self._through(here, self.block.body)), tuple(lines))

    def _through(self, here: Expressions, items: Sequence[Item]) -> Iterator[Line]:
        for item in items:
            if not isinstance(item, Loop):
                continue
            if self.ago.get(item) == 0:
                tile = _operands(item)[-1]
                yield BroughtTile(tile.name, _first(here, tile))
            elif item.axis is Axis.SERIAL and [*_whole(item.body)]:
                variable, lines = item.variable, tuple(self._through(here, item.body))
                conditions = tuple(map(here.condition, item.conditions))
                body = (When(conditions, lines),) if conditions else lines
                yield For(here.variables[variable], here.size(variable.extent), body, step=variable.step)

    def line(self, here: Expressions, loop: Loop) -> Line:
        """Print a product, or the rounding of its weights."""
        _, [s] = perfect_nest([loop])
        assert isinstance(s, Store | Reduce | Accumulate)
        target = here.name_of(s.buffer)
        if isinstance(s, Store):
            [(scores, _)] = s.reads
            return RoundedWeights(s.buffer.type.dtype, target, here.name_of(scores))
        *rows, columns = _operands(loop)
        dtype = columns.tile.buffer.type.dtype
        if isinstance(s, Reduce):
            names = [each.name for each in self.kept]
            return KeptProduct(dtype, self.heads, target, names.index(rows[0].name))
        [weights] = s.scalar.operands[0].loads()
        return WeightedProduct(dtype, self.heads, target, here.name_of(weights.buffer), self.ago[loop])


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
        rows, columns = s.scalar.operands
        [feature] = s.axes
        return [_operand(rows, row, feature), _operand(columns, column, feature)]
    if not isinstance(s, Accumulate):
        return []
    [place] = terms
    return [_operand(s.scalar.operands[1], place, column)]


def _operand(factor: Scalar, place: Variable, feature: Variable) -> Operand:
    found = box(factor.operands[0], place, feature)
    assert found
    return Operand(OPERANDS[place.name, feature.name], found, place)


def _first(here: Expressions, operand: Operand) -> tuple[Text, ...]:
    return tuple(map(here.index, operand.first))
