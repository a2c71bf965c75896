"""Kernels scheduled for GPUs: machines for tests, and a race detector for the threads of a team."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest
from catgrad.backends.cuda import functions
from catgrad.backends.cuda.machine import GPU, MACHINE

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import exchanged
from catgrad.loops.ir.index import Index, Variable
from catgrad.loops.ir.nest import Barrier, Item, Loop, Statement
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import GpuCosts, Machine
from catgrad.loops.passes import gpu
from catgrad.loops.passes.gpu.products.call_library import call_library
from catgrad.loops.reference import Interpreter
from catgrad.programs.program import bind_symbols
from catgrad.types import Array

LIMITS = {
    "sums.columns_of_rows": {"MIN_PARTS": 2},
    "products.library_products": {"MIN_LIBRARY_WORK": 8, "MIN_TILED_EXTENT": 2},
    "products.roles": {"MIN_TILED_WORK": 8, "MIN_TILED_EXTENT": 2},
    "sums.row_reuse": {"MIN_ROW": 2},
    "sums.scatters": {"MAX_INSPECTIONS": 4, "ROWS": 2, "TEAMS": 1},
    "products.split_products": {"MIN_TERMS": 2, "SHORT_GRAIN": 2},
    "grids.spaces": {"MAX_PRIVATE_BYTES": 64},
    "sums.split_sums": {"TEAM": 2, "MIN_SPLIT_TERMS": 2, "MIN_TERMS": 1, "RUN": 2},
    "grids.threads": {"MIN_SPAN": 2, "MAX_WARP_SPAN": 8, "MIN_ELEMENTS": 8, "MIN_SUMS": 8},
    "grids.transposes": {"TILE": 2, "MIN_SIDE": 2, "MIN_TRANSPOSED": 8},
}
"""Limits with which small programs have kernels of all kinds."""

FEW_ROWS = {
    "sums.columns_of_rows": {"MIN_PARTS": 8},
    "sums.split_sums": {"MIN_SPLIT_TERMS": 16, "MIN_TERMS": 4},
}
"""Limits with which columns of a few rows are summed as those of thousands."""

FEW_THREADS = GpuCosts(busy_threads=2**10)
"""Costs with which columns of a few rows are summed as those of thousands."""

LOW = GpuCosts(
    multiprocessors=4,
    launch_cycles=0,
    addition_cycles=0,
    split_gain=1,
    combine_iterations=0,
    busy_threads=256,
    busy_rows=8,
)
"""Costs with which small programs have kernels of all kinds."""

COSTS = {"default": GPU.costs, "rows": FEW_THREADS}


def with_costs(costs: GpuCosts) -> Machine:
    """Return the machine with other costs."""
    return replace(MACHINE, gpu=replace(GPU, costs=costs))


SMALL = with_costs(replace(LOW, busy_teams=2, lone_launch_iterations=8))
"""A machine that fuses small programs as the other one fuses large ones."""

LIBRARY = replace(SMALL, passes=(call_library, *SMALL.passes))
"""A machine with a library of matrix products."""

MACHINES = {"default": MACHINE, "rows": with_costs(FEW_THREADS), "small": SMALL, "library": LIBRARY}


@contextmanager
def limits(machine: str) -> Iterator[None]:
    """Lower the limits of schedules, and the costs of the target cuda, except for the default machine."""
    with pytest.MonkeyPatch.context() as patch, costs(COSTS.get(machine, LOW)):
        for module, lower in {"default": {}, "rows": FEW_ROWS}.get(machine, LIMITS).items():
            for name, value in lower.items():
                patch.setattr(import_module(f"{gpu.__name__}.{module}"), name, value)
        yield


@contextmanager
def costs(changed: GpuCosts) -> Iterator[None]:
    """Emit for a GPU with other costs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functions, "GPU", replace(GPU, costs=changed))
        yield


Accesses = dict[str, dict[Buffer, dict[int, int | None]]]
"""The threads that have read and written each element, by its array and offset."""
SEVERAL = -1
"""Stands for the thread of an element that several threads have touched."""


def accesses() -> Accesses:
    """Return accesses of no elements."""
    return {"read": defaultdict(dict), "written": defaultdict(dict)}


class Teams(Interpreter):
    """An interpreter that knows which thread of a team touches an element, since the last barrier.

    Iterations of loops over threads are dealt to threads in turn; all threads run what is outside of them.
    It also knows which threads have touched an element at all, whose array is `exchanged` if one writes it.
    """

    thread: int | None = None
    size_of_team = 0

    def __init__(self, lowered: Lowered, arrays: Sequence[Array]) -> None:
        types = [a.type for a in lowered.arguments]
        super().__init__(bind_symbols(types, [np.shape(a) for a in arrays]), shuffled=True)
        for argument, array in zip(lowered.arguments, arrays, strict=True):
            self.memory[argument] = np.array(array, argument.type.dtype.numpy).reshape(-1)
        self.team: list[Variable] = []
        self.forget_accesses()
        self.exchanged: set[Buffer] = set()

    def loop(self, loop: Loop) -> None:
        """Run a loop; the iterations of nested loops over threads have one number."""
        if loop.axis is not Axis.THREAD:
            around = self.team, self.size_of_team
            if loop.axis.has_team:
                if not self.team:
                    self.forget_accesses()  # of another kernel
                    self.exchanged = exchanged([loop])
                self.team, self.size_of_team = [*self.team, loop.variable], loop.threads
            super().loop(loop)
            self.team, self.size_of_team = around
            if loop.axis.has_team:
                self.find_accesses()
            return
        chain, body, conditions = threads_of(loop)
        values = [range(0, self.size(v.extent), v.step) for v in chain]
        numbered = [*enumerate(product(*values))]
        self.random.shuffle(numbered)  # type: ignore[union-attr]
        for number, at in numbered:
            self.values |= dict(zip(chain, at, strict=True))
            self.thread = number % self.size_of_team
            if all(map(self.holds, conditions)):
                self.items(body)
        self.thread = None

    def begin_team(self) -> None:
        """Begin an iteration that a team runs."""
        super().begin_team()
        self.find_accesses()

    def find_accesses(self) -> None:
        """Find the accesses by the team that runs: since the barrier, and all."""
        team = *self.team[-1:], *(self.values[v] for v in self.team)
        self.here = self.since_barrier[team], self.past[team]

    def forget_accesses(self) -> None:
        """Forget the accesses of all teams."""
        self.since_barrier: dict[Any, Accesses] = defaultdict(accesses)
        self.past: dict[Any, Accesses] = defaultdict(accesses)
        self.find_accesses()

    def statement(self, s: Statement) -> None:
        """Run one statement."""
        if isinstance(s, Barrier):
            self.since_barrier.clear()
            self.find_accesses()
        super().statement(s)

    def touch(self, array: Buffer, indices: Sequence[Index], place: Any, kind: str) -> None:
        """Record an access. Raises: AssertionError if another thread touched what is written."""
        super().touch(array, indices, place, kind)
        if not self.size_of_team or array.space in (Space.REGISTER, Space.LOCAL, Space.LITERAL):
            return
        home, mine = array.home, self.thread
        since, past = self.here
        kinds = ("written", "read") if kind == "written" else ("written",)
        now = [since[each][home] for each in kinds]
        may_exchange = home in self.exchanged or array.is_of_kernel
        before = [] if may_exchange else [past[each][home] for each in kinds]
        mark = since[kind][home], past[kind][home]
        for at in [place] if isinstance(place, int) else np.ravel(place).tolist():
            for each in now:
                if each.get(at, mine) != mine:
                    raise AssertionError(f"{array.name}[{at}] is {kind} without a barrier between threads")
            for each in before:
                if each.get(at, mine) != mine:
                    raise AssertionError(f"{array.name}[{at}] is {kind} by another thread than before")
            for each in mark:
                each[at] = mine if each.get(at, mine) == mine else SEVERAL


def threads_of(loop: Loop) -> tuple[list[Any], list[Item], list[Any]]:
    """Return the variables of a perfect nest of loops over threads, its body, and its conditions."""
    chain, conditions = [loop.variable], [*loop.conditions]
    while len(loop.body) == 1 and isinstance(loop.body[0], Loop) and loop.body[0].axis is Axis.THREAD:
        loop = loop.body[0]
        chain.append(loop.variable)
        conditions += loop.conditions
    return chain, loop.body, conditions


def run_in_teams(lowered: Lowered, *arrays: Array) -> list[Array]:
    """Compute the results of scheduled kernels. Raises: AssertionError if threads of a team race."""
    machine = Teams(lowered, arrays)
    with np.errstate(all="ignore"):
        machine.steps(lowered.steps)
    shapes = [[machine.size(size) for size in r.type.shape] for r in lowered.results]
    return [machine.memory_of(r).reshape(s).copy() for r, s in zip(lowered.results, shapes, strict=True)]
