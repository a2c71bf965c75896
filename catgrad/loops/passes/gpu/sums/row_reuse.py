"""Reuse analysis of rows: the elements that several loops of a team access, always by the same thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Indices, Item, Loop, scalars
from catgrad.loops.ir.scalar import Buffer, Scalar, Space
from catgrad.loops.machine import WARP
from catgrad.loops.passes.gpu.grids.wide import WIDTH

MIN_ROW = WARP
"""Elements of a row that is worth registers."""

Place = tuple[Buffer, Indices]
"""An element of a row: a buffer, and indices in which one variable stands for those of all loops."""


def row_extents(team: Loop) -> list[int]:
    """List the extents of the rows of a team, the longest first."""
    extents = {row.variable.extent for block in _blocks([team]) for row in block}
    return sorted((extent for extent in extents if isinstance(extent, int)), reverse=True)


def _blocks(items: Sequence[Item]) -> Iterator[list[Loop]]:
    """Yield the loops over rows among items, then those within the other loops among them."""
    yield [item for item in items if isinstance(item, Loop) and _is_row(item)]
    for item in items:
        if isinstance(item, Loop) and item.axis is not Axis.THREAD:
            yield from _blocks(item.body)


def _is_row(loop: Loop) -> bool:
    """Tell whether threads share the iterations of a loop, each of which is a few statements."""
    v = loop.variable
    if not isinstance(v.extent, int) or v.extent < MIN_ROW or v.step != 1 or loop.conditions:
        return False
    return loop.axis is Axis.THREAD and not any(isinstance(inner, Loop) for inner in loop.body)


class Rows:
    """The loops of a team over rows of one extent, and the `places` that several of them access.

    These are first elements of the team's own rows in memory; then arrays of the team, of which each
    iteration accesses its own element; last what is alike in the rows of all teams, as a weight is.
    """

    def __init__(self, team: Loop, extent: int) -> None:
        self.team, self.extent = team, extent
        self.blocks = [[row for row in block if row.variable.extent == extent] for block in _blocks([team])]
        self.one = Variable(extent, "j")
        self.width = WIDTH if extent >= WIDTH * MIN_ROW and self._are_wide() else 1
        repeated = self._repeated()
        common = [place for place in repeated if self._is_common(place)]
        self.places = [*(place for place in repeated if place not in common), *self._private(), *common]

    def each(self, threads: int) -> int:
        """Count the elements of a row that each thread has."""
        return -(-self.extent // (self.width * threads)) * self.width

    def place(self, row: Loop, buffer: Buffer, indices: Indices) -> Place:
        """Return the place of an element that a loop accesses."""
        values = {row.variable: index(self.one)}
        return buffer, tuple(i.substitute(values) for i in indices)

    def _are_wide(self) -> bool:
        """Tell whether rows are whole strips, or all begin where a strip of neighbours may."""
        if self.extent % WIDTH == 0:
            return True
        rows = [row for block in self.blocks for row in block]
        every = ((row.variable, b.flat(at)) for row in rows for b, at in (*row.reads, *row.writes))
        moving = [(v, place) for v, place in every if v in place.variables()]
        return all(
            place.constant % WIDTH == 0 and all(atom is v or n % WIDTH == 0 for atom, n in place.terms)
            for v, place in moving
        )

    def _private(self) -> list[Place]:
        found: dict[Buffer, list[Indices]] = {}
        for row in (row for block in self.blocks for row in block):
            for buffer, indices in (*row.reads, *row.writes):
                if buffer.space is Space.LOCAL:
                    found.setdefault(buffer, []).append(self.place(row, buffer, indices)[1])
        every = [buffer for buffer, _ in (*self.team.reads, *self.team.writes)]
        return [
            (buffer, indices[0])
            for buffer, indices in found.items()
            if len(indices) == every.count(buffer)
            and len({*indices}) == 1
            and [indices[0][axis].variable for axis in buffer.order] == [self.one]
        ]

    def _repeated(self) -> list[Place]:
        """Find elements that several loops read, the most often read first."""
        count: dict[Place, int] = {}
        for block in self.blocks:
            for place in dict.fromkeys(place for row in block for place in self._loads(row)):
                count[place] = max(count.get(place, 0), len(self.readers(block, place)))
        again = [place for place, n in count.items() if n > 1]
        return sorted(again, key=lambda place: -count[place])

    def _is_common(self, place: Place) -> bool:
        """Tell whether a place is the same in the rows of all teams."""
        return {v for i in place[1] for v in i.variables()} == {self.one}

    def readers(self, block: Sequence[Loop], place: Place) -> list[Loop]:
        """List loops from the first that certainly reads an element to the one that writes it, if any."""
        if place[0].is_of_kernel:
            return []
        home, found = place[0].home, list[Loop]()
        written = [buffer for buffer, _ in self.team.writes if buffer.home is home]
        own = {row: [access for access in row.writes if access[0].home is home] for row in block}
        at = {self.place(row, *access)[1] for row, accesses in own.items() for access in accesses}
        if sum(map(len, own.values())) < len(written) or at - {place[1]}:
            return []
        for row in block:
            loads = self._loads(row)
            if place in loads and (found or loads[place]):
                found.append(row)
            if own[row]:
                break
        return found

    def _loads(self, row: Loop) -> dict[Place, bool]:
        """Find the places that a loop reads, and tell whether it does so in each iteration."""
        found: dict[Place, bool] = {}
        for scalar in (scalar for s in row.statements for scalar in scalars(s)):
            certain = {*always(scalar)}
            for load in scalar.loads():
                place = self.place(row, load.buffer, load.indices)
                if not load.buffer.is_of_kernel and row.variable in load.variables:
                    found[place] = found.get(place, False) or load in certain
        return found


def always(scalar: Scalar) -> Iterator[Scalar]:
    """Yield a scalar and the operands that are computed whenever it is."""
    yield scalar
    for operand in scalar.always:
        yield from always(operand)
