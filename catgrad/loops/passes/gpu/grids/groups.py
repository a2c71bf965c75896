"""Grouped launches: kernels that are one function of different arrays are one grid, with a table of these.

As in a grouped matrix product, a block looks up which arrays it is for. So the optimiser's updates of all
parameters of a kind are one launch, those of the layers of a stack among them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.hashing import Signature
from catgrad.loops.ir.nest import Kernel, Loop, may_fail
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import For, Group, If, Lowered, Step, kernels
from catgrad.loops.machine import Machine
from catgrad.loops.memory_plan import Plan
from catgrad.loops.passes.gpu.grids.side_by_side import MAX_BLOCKS, MAX_PARTS, are_independent, count_blocks
from catgrad.loops.passes.parametric import parametric

MAX_BYTES = 32_000
"""Bytes of a table, at most: the arguments of a kernel have 32,764 since CUDA 12.1, and there are others."""

ENTRY_BYTES, ADDRESS_BYTES = 16, 8
"""Bytes of an entry of a table beside its addresses, and of each address."""


@dataclass(frozen=True)
class Entries:
    """The entries of a table, by the `places` of the steps that they come from, for a function with this key.

    There are so many `rows`, each of some `arrays` and run by blocks of its own. All have the `common` ones.
    """

    key: Hashable
    places: tuple[int, ...]
    rows: int
    blocks: int
    arrays: int
    common: frozenset[Buffer]

    @staticmethod
    def of(place: int, step: Step, machine: Machine) -> Entries | None:
        """Find those of a step; None if it may not be one of a group."""
        if isinstance(step, For) and not _has_independent_rows(step):
            return None
        variable = step.variable if isinstance(step, For) else None
        match step.body if isinstance(step, For) else [step]:
            case [Kernel(body=[Loop(axis=Axis.GRID) as nest]) as kernel] if not may_fail([nest]):
                rows, blocks = variable.extent if variable else 1, count_blocks(nest)
                if not isinstance(rows, int) or blocks is None:
                    return None
                arrays = {b.home for b, _ in (*kernel.reads, *kernel.writes) if _has_address(b)}
                common = arrays.difference(step.rows if isinstance(step, For) else ())
                finished = machine.finish(kernel)
                found = parametric(finished)
                key = Signature(found[0] if found else finished, Plan()).kernel_key
                return Entries(key, (place,), rows, rows * blocks, len(arrays), frozenset(common))
        return None

    def __add__(self, other: Entries) -> Entries:
        """Join the entries of two tables."""
        return replace(
            self,
            places=self.places + other.places,
            rows=self.rows + other.rows,
            blocks=self.blocks + other.blocks,
            common=self.common & other.common,
        )

    @property
    def fits(self) -> bool:
        """Tell whether a table is as small as an argument of a kernel must be."""
        return self.rows * (ENTRY_BYTES + ADDRESS_BYTES * (self.arrays - len(self.common))) <= MAX_BYTES

    @property
    def is_worth(self) -> bool:
        """Tell whether there are loops among the steps, or more than side by side on one grid."""
        many = self.rows > MAX_PARTS or self.blocks > MAX_BLOCKS
        return self.rows > len(self.places) or (many and self.rows > 1)


def _has_address(buffer: Buffer) -> bool:
    return not buffer.is_of_kernel and buffer.space is not Space.LITERAL


def group_launches(lowered: Lowered, machine: Machine) -> Lowered:
    """Group equal kernels that are too many, or too large, for parts of one grid; not of initial values."""
    is_initial = lowered.function.kind.is_initial
    return lowered if is_initial else replace(lowered, steps=_grouped(lowered.steps, machine))


def _grouped(steps: Sequence[Step], machine: Machine) -> list[Step]:
    """Put each group in the place of its first step."""
    every = [each for step in steps for each in _apart(step, machine)]
    groups = [table for table in _tables(every, machine) if table.is_worth]
    first = {table.places[0]: Group(_joined([every[place] for place in table.places])) for table in groups}
    moved = {place for table in groups for place in table.places[1:]}
    return [first.get(place, step) for place, step in enumerate(every) if place not in moved]


def _joined(steps: Sequence[Step]) -> list[Step]:
    """Join loops over the same rows again."""
    done: list[Step] = []
    for step in steps:
        last = done[-1] if done else None
        if isinstance(step, For) and isinstance(last, For) and step.rows is last.rows:
            done[-1] = replace(last, body=[*last.body, *step.body])
        else:
            done.append(step)
    return done


def _apart(step: Step, machine: Machine) -> list[Step]:
    """Distribute a loop over its kernels, if these become fewer launches, or else group what is within."""
    if isinstance(step, If):
        first, second = (_grouped(part, machine) for part in step.parts)
        return [replace(step, parts=(first, second))]
    if not isinstance(step, For):
        return [step]
    if _has_independent_rows(step):
        loops: list[Step] = [replace(step, body=[kernel]) for kernel in step.body]
        tables = [Entries.of(0, each, machine) for each in loops]
        known = [table for table in tables if table and table.fits]
        if len(known) == len(loops) and len({table.key for table in known}) <= known[0].rows:
            return loops
    return [replace(step, body=_grouped(step.body, machine))]


def _has_independent_rows(loop: For) -> bool:
    """Prove that no kernel of any iteration writes what another one touches."""
    own = kernels(loop.body)
    if not own or len(own) < len(loop.body):
        return False
    if not all(are_independent(a, b) for n, b in enumerate(own) for a in own[:n]):
        return False
    arrays = {
        b: [array.home for array in loop.rows.get(b, (b,))]
        for kernel in own
        for b, _ in (*kernel.reads, *kernel.writes)
        if _has_address(b)
    }
    written = {b for kernel in own for b, _ in kernel.writes if _has_address(b)}
    return all(
        b in loop.rows
        and len({*arrays[b]}) == len(arrays[b])
        and all(a.home is b.home or {*arrays[a]}.isdisjoint(arrays[b]) for a in arrays)
        for b in written
    )


def _tables(steps: Sequence[Step], machine: Machine) -> list[Entries]:
    """Join each step with the last table of its function, if it may run where that does."""
    tables: dict[Hashable, list[Entries]] = {}
    for place, step in enumerate(steps):
        own = Entries.of(place, step, machine)
        if own is None:
            continue
        known = tables.setdefault(own.key, [])
        between = steps[known[-1].places[0] : place] if known else ()
        joined = known[-1] + own if known else own
        if known and joined.fits and all(are_independent(each, step) for each in between):
            known[-1] = joined
        else:
            known.append(own)
    return [table for known in tables.values() for table in known]
