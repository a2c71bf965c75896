"""Runs of equal layers in tables, whose arrays functions take and return as lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from catgrad.naming import shared_name
from catgrad.ops.table import Stack, Unstack
from catgrad.programs.ports import TABLES, Port, Role
from catgrad.programs.program import Function, Program
from catgrad.programs.segments import Run
from catgrad.programs.stacks import name_of_layers
from catgrad.terms.state import Slot
from catgrad.types import symbols

Runs = Mapping[Role, Sequence[Run]]
"""The runs of each table in order, and of gradients as of the parameters."""


def runs(program: Program) -> Runs:
    """Find the runs whose arrays some function stacks as layers, or returns as rows of a stack."""
    found: dict[Role, set[Run]] = {role: set() for role in TABLES}
    for function in program.functions:
        for role, places in _stacked(function):
            step = places[1] - places[0]
            if step > 0 and places == list(range(places[0], places[0] + step * len(places), step)):
                found[role].add(Run(places[0], step, len(places)))
    each = {role: tuple(_disjoint(found[role], program.tables.get(role, ()))) for role in TABLES}
    return {**each, Role.GRADIENT: each[Role.PARAMETER]}


def _stacked(function: Function) -> Iterator[tuple[Role, list[int]]]:
    """Yield the positions in a table of arrays that are the rows of a stack."""
    places: dict[int, tuple[Role, int]] = {}
    for values, ports in ((function.arguments, function.inputs), (function.results, function.outputs)):
        for role, group in groupby(zip(values, ports, strict=True), lambda pair: pair[1].role):
            table = Role.PARAMETER if role is Role.GRADIENT else role
            places |= {v: (table, k) for k, (v, _) in enumerate(group)}
    for op, inputs, outputs in function.body:
        if isinstance(op, (Stack, Unstack)) and op.count > 1:
            rows = [places.get(v) for v in (inputs if isinstance(op, Stack) else outputs)]
            known = [row for row in rows if row is not None]
            roles = {role for role, _ in known}
            if len(known) == len(rows) and len(roles) == 1 and roles.issubset(TABLES):
                yield roles.pop(), [k for _, k in known]


def _disjoint(found: Iterable[Run], slots: Sequence[Slot]) -> Iterator[Run]:
    """Yield runs that do not overlap, each from its first array, with layers of equal types."""
    end = 0
    for run in sorted(found):
        types = (
            [[slots[k].type for k in run.column(j)] for j in range(run.width)]
            if run.end <= len(slots)
            else []
        )
        alike = all(len({*column}) == 1 and not symbols((*column,)) for column in types)
        if run.start >= end and types and alike:
            arrays = [tuple(slots[k].name for k in run.column(j)) for j in range(run.width)]
            yield run._replace(name=name_of_layers(arrays))
            end = run.end


def columns(ports: Sequence[Port], runs: Runs) -> Iterator[tuple[Sequence[int], Port]]:
    """Yield the positions of each argument or result, and its port: an array, or a list of those of a run."""
    for role, group in groupby(enumerate(ports), lambda pair: pair[1].role):
        places, done = [k for k, _ in group], 0
        for run in runs.get(role, ()):
            yield from (([k], ports[k]) for k in places[done : run.start])
            for j in range(run.width):
                rows = [places[k] for k in run.column(j)]
                name = shared_name([ports[k].name for k in rows])
                yield rows, replace(ports[rows[0]], name=name, rows=run.layers)
            done = run.end
        yield from (([k], ports[k]) for k in places[done:])


def layout(ports: Sequence[Port], runs: Runs) -> list[tuple[int, int]]:
    """Return the counts of layers, and of arrays of each, in order, up to the last layer."""
    counts, single = [], 0
    for role, group in groupby(port.role for port in ports):
        done = 0
        for run in runs.get(role, ()):
            single += run.start - done
            counts += [*([(1, single)] if single else []), (run.layers, run.width)]
            single, done = 0, run.end
        single += len([*group]) - done
    return counts


def moments(parameters: Sequence[Slot], state: Sequence[Slot]) -> tuple[str, ...]:
    """Return the names of what each parameter has at the end of the state, all in order."""
    if len(parameters) < 2:
        return ()
    ends = f".{parameters[0].name}"
    found = [slot.name.removesuffix(ends) for slot in state if slot.name.endswith(ends)]
    expected = [(f"{moment}.{slot.name}", slot.type) for slot in parameters for moment in found]
    is_state = found and [(slot.name, slot.type) for slot in state[-len(expected) :]] == expected
    return tuple(found) if is_state else ()
