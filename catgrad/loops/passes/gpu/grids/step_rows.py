"""Double buffering of a step's rows: those of the next step arrive in shared memory while this one runs.

copy the rows of step 0                         asynchronously
for each step t:
wait until its rows have arrived; barrier   whose place was that of the rows of step t − 2
copy the rows of step t + 1
run step t
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import ZERO, Index, Variable, index, modulo
from catgrad.loops.ir.nest import Barrier, Commit, Item, Loop, Store
from catgrad.loops.ir.scalar import Bounds, Buffer, Load, Masked, Space, number
from catgrad.loops.memory_plan import byte_size
from catgrad.loops.passes.gpu.products.asynchronous import COPIED_BYTES, copied

STAGES = 2
"""Steps whose rows are in shared memory at once."""


@dataclass(frozen=True)
class StepRows:
    """Arrays with a row for each of some steps, and the arrays of two rows that replace them."""

    places: Mapping[Buffer, Buffer]

    @staticmethod
    def of(arrays: Sequence[Buffer], most: int) -> StepRows:
        """Replace arrays whose rows can be copied at once, as long as they take at most so many bytes."""
        places, taken = dict[Buffer, Buffer](), 0
        for array in arrays:
            type = array.type.with_shape((STAGES, *array.type.shape[1:]))
            place = Buffer(f"{array.name}_row", type, Space.SHARED)
            size = byte_size(place)
            if isinstance(size, int) and taken + size <= most and _copy(array, place, ZERO, ZERO):
                places[array] = place
                taken += size
        return StepRows(places)

    @property
    def bytes(self) -> int:
        """The bytes of the places."""
        sizes = map(byte_size, self.places.values())
        return sum(size for size in sizes if isinstance(size, int))

    def stage(self, step: Variable) -> Index:
        """Return which of the rows is that of a step."""
        return modulo(index(step), STAGES)

    def brought_ahead(self, items: list[Item]) -> list[Item]:
        """Copy the first rows before a loop over steps, the last item, and the next ones within it."""
        *before, steps = items
        if not self.places or not isinstance(steps, Loop):
            return items
        t, body = index(steps.variable), steps.body
        body = body[:-1] if isinstance(body[-1], Barrier) else body  # the next step begins with one
        first, later = ([*self._copies(step, steps.variable)] for step in (ZERO, t + 1))
        return [*before, *first, Commit(), replace(steps, body=[Barrier(0), *later, Commit(), *body])]

    def _copies(self, step: Index, steps: Variable) -> Iterator[Item]:
        """Copy the rows of a step, if there is one."""
        exists = Bounds(step, steps.extent, False, True)
        for array, place in self.places.items():
            copy = _copy(array, place, step, modulo(step, STAGES), exists)
            assert copy  # an array without a copy has no place
            yield copy


def _copy(array: Buffer, place: Buffer, step: Index, stage: Index, *conditions: Bounds) -> Loop | None:
    """Copy a row in as large pieces as there are; None if it has no bytes for one."""
    size, rest = place.size, [ZERO] * (array.type.rank - 2)
    if array.type.rank < 2 or not isinstance(size, int):
        return None
    for bytes in COPIED_BYTES:
        width = bytes // array.type.dtype.itemsize
        if not width or size // STAGES % width:
            continue
        piece, near = Variable(size // STAGES // width, "piece"), Variable(width, "near")
        at = index(piece) * width + index(near)
        element, zero = Load(array, (step, *rest, at)), number(0, array.type.dtype)
        scalar = Masked(conditions, element, zero) if conditions else element
        copy = copied(Store(place, (stage, *rest, at), scalar), near)
        if copy:
            return Loop(piece, [copy], axis=Axis.THREAD)
    return None
