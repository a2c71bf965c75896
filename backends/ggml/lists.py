"""Lists of arrays: equal layers of tables as arrays of structs, and loops over them within one graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from catgrad.ops.reduce import Broadcast
from catgrad.ops.shape import Reshape
from catgrad.ops.table import Stack, Unstack
from catgrad.printing.dialect import Layers
from catgrad.programs.passes import optimise
from catgrad.programs.passes.prune import prune
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.ports import Role
from catgrad.programs.program import Apply, Function, Nested
from catgrad.programs.segments import Run
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant

from ..kernels.structs import Member
from ..python.lists import Joined, Repeated, Row, grouped, with_lists
from ..python.loops import improved
from ..python.tables import Runs
from .nodes import DuplicateRows, LayerLoop, Rows

LISTS = (Stack, Rows, Repeated, DuplicateRows)
"""Operations whose results are lists."""

OF_LISTS = (*LISTS, Row, Joined, LayerLoop)
"""Operations on lists, which are no operations on arrays."""


class Column(str):
    """An array of each layer: a member of the structs in an array."""

    layers: str
    member: str

    def __new__(cls, layers: str, member: str) -> Column:
        """Name the member of all layers."""
        made = super().__new__(cls, f"{layers}.{member}")
        made.layers, made.member = layers, member
        return made

    def at(self, index: int | str) -> str:
        """Return the member of one layer."""
        return f"{self.layers}[{index}].{self.member}"


def runs_of(tables: Mapping[Role, Sequence[Member]]) -> Runs:
    """Find the arrays of structs in tables."""
    found: dict[Role, Sequence[Run]] = {role: [*_runs(members)] for role, members in tables.items()}
    return {**found, Role.GRADIENT: found.get(Role.PARAMETER, ())}


def _runs(members: Sequence[Member]) -> Iterator[Run]:
    start = 0
    for layers, group in groupby(members, lambda member: member.layers):
        length = len([*group])
        if layers:
            yield Run(start, length // layers.count, layers.count)
        start += length


def layered(function: Function, runs: Runs) -> Function:
    """Return the function on lists, with loops over them that one graph has room for.

    Other loops, which have loops or branches of their own, read and write arrays.
    """
    return _with_loops(improved(with_lists(grouped(function, runs), is_straight), is_free, is_free))


def lists_in(function: Function) -> set[int]:
    """Return the values of a function that are lists."""
    ports = zip(function.arguments, function.inputs, strict=False)
    found = {value for value, port in ports if port.rows}
    for op, _, outputs in function.body:
        if isinstance(op, LayerLoop):
            found.update(outputs[op.loop.carried :])
        elif isinstance(op, LISTS):
            found.update(outputs)
    return found


def is_straight(nested: Nested) -> bool:
    """Tell whether a loop is straight-line code."""
    return not any(isinstance(each.op, Nested) for each in nested.functions[0].body)


def is_free(op: Op) -> bool:
    """Tell whether those that read the result of an operation compute it without a node."""
    return isinstance(op, (Constant, Broadcast, Reshape))


def _with_loops(function: Function) -> Function:
    """Replace loops over lists by operations, and give them lists for arrays."""
    rewriter, lists = Rewriter(function), lists_in(function)
    results = zip(function.results, function.outputs, strict=False)
    replacing = {value: f"new.{port.name}" for value, port in results if port.rows and port.role.is_table}

    def listed(value: int) -> int:
        if value not in lists:
            value = rewriter.apply_as(rewriter.types[value], Rows(), value)
            lists.add(value)
        return value

    def rule(_: Rewriter, apply: Apply) -> Values | None:
        op, inputs, outputs = apply
        if isinstance(op, Unstack):
            rows = listed(inputs[0])
            for k, value in enumerate(outputs):
                rewriter.keep(Apply(Row(k), (rows,), (value,)))
            return outputs
        if not isinstance(op, Nested):
            lists.update(outputs if isinstance(op, LISTS) else ())
            return None
        if isinstance(op.op, Layers):
            carries, rows_read, constants = op.op.parts(inputs)
            inputs = (*carries, *map(listed, rows_read), *constants)
            lists.update(outputs[op.op.carried :])
            body = optimise(op.functions[0])
            names = {v: replacing[y] for v, y in zip(body.results, outputs, strict=True) if y in replacing}
            body = replace(body, names={**names, **body.names})
            rewriter.keep(Apply(LayerLoop(op.op, body), inputs, outputs))
        else:
            inside = Nested(op.op, tuple(map(_with_loops, op.functions)))
            rewriter.keep(Apply(inside, inputs, outputs))
        return outputs

    changed = rewriter.sweep(rule)
    return prune(replace(changed, body=tuple(rewriter.body), types=tuple(rewriter.types)))
