"""Kernels that are one function of different arrays are one launch, with the bits of several."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from catgrad.backends.cuda.machine import MACHINE

from catgrad import NdArrayType, Task, emit, layers, losses, optimisers
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Kernel, Loop, Store
from catgrad.loops.ir.scalar import Buffer, Load, Space
from catgrad.loops.ir.steps import For, Group, Step, every_step
from catgrad.loops.passes.gpu.grids import groups as module
from catgrad.loops.passes.gpu.grids.groups import group_launches
from catgrad.loops.passes.gpu.grids.side_by_side import MAX_PARTS
from catgrad.loops.reference import run
from tests.covering import some
from tests.laws.test_rolled_stacks import blocks, drawn, lowered

APART = replace(MACHINE, passes=tuple(each for each in MACHINE.passes if each is not group_launches))
"""The same machine without groups."""


def clipped(model) -> Task:
    """Train a model on clipped gradients, all of which are known before the first update; weights decay."""

    def own(slot):
        return optimisers.adamw(0.01, weight_decay=0.1 if slot.type.rank > 1 else 0.0)

    optimiser = optimisers.clipped(optimisers.grouped(own), 1.0)
    return Task(model, optimiser, losses.mse, "clipped", rolls=True)


def groups(steps) -> list[Group]:
    return [step for step in every_step(steps) if isinstance(step, Group)]


def dense(count: int) -> Task:
    """Train layers of different widths, none of which are a stack."""
    widths = [NdArrayType((4 + n,)) for n in range(count + 1)]
    pairs = enumerate(pairwise(widths))
    each = (layers.dense(NdArrayType((2,)), *pair, name=f"l{n}") for n, pair in pairs)
    return clipped(layers.sequential(*each))


@pytest.mark.parametrize("task", [clipped(blocks(4)), dense(MAX_PARTS + 2)], ids=["stack", "layers"])
def test_groups_compute_the_bits_of_launches_of_their_own(task):
    grouped, apart = (lowered(task, "step", machine) for machine in (MACHINE, APART))
    assert groups(grouped.steps) and not groups(apart.steps)
    reversed_steps = [Group(s.body[::-1]) if isinstance(s, Group) else s for s in grouped.steps]
    arrays = drawn(task.step_term)
    wanted = [array.tobytes() for array in run(apart, *arrays)]
    for steps in (grouped.steps, reversed_steps):
        found = run(replace(grouped, steps=steps), *arrays)
        assert [array.tobytes() for array in found] == wanted


@pytest.mark.parametrize("depth", some([4, 9], [4]))
def test_all_updates_of_a_kind_are_one_launch(depth):
    steps = lowered(clipped(blocks(depth)), "step", MACHINE).steps
    assert len(groups(steps)) == 2
    written = {b.home for group in groups(steps) for b, _ in group.writes}
    others = [step for step in steps if not isinstance(step, Group)]
    assert not any(b.alias in written for step in others for b, _ in step.writes)


def copies(source: int, following: tuple[int, ...]) -> list[Step]:
    """Copy row t of one of two stacks to row t of the first, for 12 rows; those `following` are t + 1."""
    stacks = [Buffer(name, NdArrayType((13, 5))) for name in "xy"]
    rows = [Buffer(name, NdArrayType((5,)), Space.RESULT) for name in ("to", "from")]
    k = Variable(5, "k")
    copy = Store(rows[0], (index(k),), Load(rows[1], (index(k),)))
    arrays = {rows[0]: (stacks[0],), rows[1]: (stacks[source],)}
    kernel = Kernel([Loop(k, [copy], axis=Axis.GRID, threads=256)])
    return [For(Variable(12, "t"), False, [kernel], arrays, frozenset(rows[n] for n in following))]


def grouped(steps: list[Step]) -> list[Step]:
    any_function = lowered(clipped(blocks(1)), "predict", APART)
    return group_launches(replace(any_function, steps=steps), MACHINE).steps


def test_iterations_that_do_not_depend_on_each_other_are_one_launch():
    for following in ((), (0,)):
        assert [type(step) for step in grouped(copies(1, following))] == [Group]


@pytest.mark.parametrize(("source", "following"), [(0, (0,)), (0, (1,))])
def test_a_loop_whose_iterations_read_what_others_write_stays_one(source, following):
    assert [type(step) for step in grouped(copies(source, following))] == [For]


def test_a_table_is_no_larger_than_the_arguments_of_a_kernel(monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", most := 600)
    source = emit(dense(MAX_PARTS + 6), "cuda").source
    tables = re.findall(r"grid_table<(\w+)_entry, (\d+)> table\)", source)
    assert [int(rows) < MAX_PARTS + 6 for _, rows in tables] == [True, True]
    for name, rows in tables:
        entry = re.search(rf"struct {name}_entry {{(.*?)}};", source, re.S)[1]
        assert int(rows) * (4 + 8 * entry.count(";")) <= most
