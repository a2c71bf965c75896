"""Rows of layers: loops read and fill a list for each layer, as an array of structs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from catgrad.printing.dialect import Pack, Unpack
from catgrad.printing.releases import is_large
from catgrad.programs.ports import Port, Role
from catgrad.programs.program import Apply, Function
from catgrad.programs.segments import Run
from catgrad.terms.op import Op
from catgrad.types import NdArrayType

from .loops import Loop
from .tables import Runs

Values = tuple[int, ...]


class Column(Op, register=False):
    """The arrays at one place of all rows, as a list."""

    place: int
    result = "column"


class Zip(Op, register=False):
    """The rows of lists."""

    result = "rows"


class Place(NamedTuple):
    """The place of a list among rows."""

    rows: int
    place: int


SUFFIXES = {Role.STATE: ".state", Role.BUFFER: ".buffers"}
"""The ends of names of rows, by table."""


def with_rows(function: Function, runs: Runs) -> tuple[Function, Mapping[int, str]]:
    """Replace the lists of equal layers that a function takes, returns, or saves between its loops.

    Return the names of layers too, of rows of tables, but for gradients that it takes.
    """
    grouping = _Grouping(function, runs)
    arguments, inputs = grouping.taken()
    for apply in function.body:
        loop = Loop.of(apply)
        grouping.body.append(grouping.over_rows(loop) if loop else grouping.with_lists(apply))
    results, outputs = grouping.returned()
    changed = replace(function, arguments=arguments, inputs=inputs, results=results, outputs=outputs)
    types, names = tuple(grouping.types), grouping.names
    changed = _marked(replace(changed, body=tuple(grouping.body), types=types, names=names))
    read = (v for v, port in zip(arguments, inputs, strict=True) if port.role is not Role.GRADIENT)
    ends = {*read, *results}
    return changed, {v: name for v, name in grouping.layers.items() if v in ends}


class _Grouping:
    """A function whose lists are being replaced: the rows that each list is in."""

    def __init__(self, function: Function, runs: Runs) -> None:
        self.function, self.runs = function, runs
        self.types: list[NdArrayType] = list(function.types)
        self.names, self.body = dict(function.names), list[Apply]()
        self.places: dict[int, Place] = {}
        self.columns: dict[int, Values] = {}
        self.layers: dict[int, str] = {}
        self.listed: set[int] = set()
        self.wanted = [
            (values, self._new_name(port, run), run.name)
            for values, port, run in self._parts(*self._outputs)
            if run
        ]

    @property
    def _outputs(self) -> tuple[Sequence[int], Sequence[Port]]:
        return self.function.results, self.function.outputs

    def _parts(
        self, values: Sequence[int], ports: Sequence[Port]
    ) -> Iterator[tuple[Values, Port, Run | None]]:
        """Yield each argument or result with its port, those of a run together."""
        for role, group in groupby(zip(values, ports, strict=True), lambda pair: pair[1].role):
            pairs, done = [*group], 0
            for run in self.runs.get(role, ()):
                single = run.start - done
                yield from (((v,), port, None) for v, port in pairs[:single])
                taken, pairs, done = pairs[single:][: run.width], pairs[single + run.width :], run.end
                yield tuple(v for v, _ in taken), taken[0][1], run
            yield from (((v,), port, None) for v, port in pairs)

    def _name(self, port: Port, run: Run) -> str:
        return replace(port, name=f"{run.name}{SUFFIXES.get(port.role, '')}").label

    def _new_name(self, port: Port, run: Run) -> str:
        is_new = port.role.is_table and not self.function.kind.is_initial
        return f"new_{self._name(port, run)}" if is_new else self._name(port, run)

    def rows(self, columns: Values, name: str, layer: str) -> int:
        """Return new rows of these lists, which are arrays of a layer."""
        self.types.append(None)  # type: ignore[arg-type]  # rows are no arrays
        made = len(self.types) - 1
        self.names[made], self.layers[made] = name, layer
        self.places |= {v: Place(made, k) for k, v in enumerate(columns) if v not in self.places}
        self.columns[made] = columns
        return made

    def taken(self) -> tuple[Values, tuple[Port, ...]]:
        """Return the arguments and their ports."""
        arguments, inputs = list[int](), list[Port]()
        for values, port, run in self._parts(self.function.arguments, self.function.inputs):
            arguments.append(self.rows(values, self._name(port, run), run.name) if run else values[0])
            inputs.append(replace(port, name=run.name, rows=run.layers * run.width) if run else port)
        return tuple(arguments), tuple(inputs)

    def returned(self) -> tuple[Values, tuple[Port, ...]]:
        """Return the results and their ports."""
        results, outputs = list[int](), list[Port]()
        for values, port, run in self._parts(*self._outputs):
            results.append(self._zipped(values, self._new_name(port, run), run.name) if run else values[0])
            outputs.append(replace(port, name=run.name, rows=run.layers * run.width) if run else port)
        return tuple(results), tuple(outputs)

    def _zipped(self, columns: Values, name: str, layer: str) -> int:
        """Return the rows of these lists, or new ones."""
        rows = self.places[columns[0]].rows if columns[0] in self.places else -1
        if self.columns.get(rows) == columns:
            return rows
        self._list(columns)
        made = self.rows(columns, name, layer)
        self.body.append(Apply(Zip(), columns, (made,)))
        return made

    def with_lists(self, apply: Apply) -> Apply:
        """Return an operation that reads lists."""
        self._list(apply.inputs)
        return apply

    def _list(self, values: Values) -> None:
        for v in values:
            if v in self.places and v not in self.listed:
                self.body.append(Apply(Column(self.places[v].place), (self.places[v].rows,), (v,)))
                self.listed.add(v)

    def over_rows(self, loop: Loop) -> Apply:
        """Return a loop that unpacks the rows that it reads, and packs those that it fills."""
        carried, _, constants = loop.op.parts(loop.inputs)
        carries, _, invariants = loop.op.parts(loop.body.arguments)
        read, others = self._read(loop)
        self._list((*carried, *others.values(), *constants))
        inside = _Body(loop.body)
        unpacked = [
            inside.unpacked(self.names[rows], [self.names.get(v, "") for v in self.columns[rows]], found)
            for rows, found in read.items()
        ]
        count = loop.op.carried
        outputs, results, filled = [*loop.outputs[:count]], [*loop.body.results[:count]], loop.filled
        for columns, *names in self._filled(loop, next((self.layers[rows] for rows in read), "layer")):
            outputs.append(self.rows(columns, *names) if names else columns[0])
            values = tuple(filled[v] for v in columns)
            self._share_names(inside, {v: filled[v] for v in columns})
            results.append(inside.packed(values, names[0]) if names else values[0])
        return Loop(
            replace(loop.op, scanned=len(read) + len(others)),
            inside.function((*carries, *unpacked, *others, *invariants), tuple(results)),
            (*carried, *read, *others.values(), *constants),
            tuple(outputs),
        ).apply

    def _share_names(self, inside: _Body, columns: Mapping[int, int]) -> None:
        """Give each list that a loop fills, and its row, the name that one of them has."""
        computed = {v: each for each in inside.body.body for v in each.outputs}
        for column, v in columns.items():
            if column in self.names and v in computed:
                inside.names.setdefault(v, self.names[column])
            elif v in inside.names:
                self.names.setdefault(column, inside.names[v])
            elif v in computed:
                op, inputs, _ = computed[v]
                self.names[column] = op.result_name(*(inside.names.get(each, "") for each in inputs))

    def _read(self, loop: Loop) -> tuple[dict[int, dict[int, int]], dict[int, int]]:
        """Return the arrays in the body of rows that a loop reads, by place, and those of other lists."""
        read: dict[int, dict[int, int]] = {}
        others: dict[int, int] = {}
        for outer, v in zip(
            *(loop.op.parts(side)[1] for side in (loop.inputs, loop.body.arguments)), strict=True
        ):
            rows, place = self.places.get(outer, (-1, 0))
            if rows < 0 or outer in self.listed or place in read.get(rows, ()):
                others[v] = outer
            else:
                read.setdefault(rows, {})[place] = v
        return read, others

    def _filled(self, loop: Loop, layer: str) -> Iterator[tuple[Values, *tuple[str, ...]]]:
        """Yield lists that a loop fills as rows, with names of rows and layer; one alone has none."""
        rest = dict(loop.filled)
        for columns, *names in self.wanted:
            if {*columns} <= rest.keys() and len({*columns}) == len(columns):
                rest = {v: each for v, each in rest.items() if v not in columns}
                yield (columns, *names)
        if len(rest) == 1:
            yield (tuple(rest),)
        elif rest:
            yield tuple(rest), f"d_{layer}" if loop.op.backwards else f"{layer}.saved", layer


class _Body:
    """The body of a loop, with operations before and after."""

    def __init__(self, body: Function) -> None:
        self.body, self.before, self.after = body, list[Apply](), list[Apply]()
        self.types, self.names = list(body.types), dict(body.names)

    def _new(self, type: NdArrayType | None, name: str) -> int:
        self.types.append(type)  # type: ignore[arg-type]  # rows are no arrays
        self.names |= {len(self.types) - 1: name} if name else {}
        return len(self.types) - 1

    def unpacked(self, name: str, names: Sequence[str], found: Mapping[int, int]) -> int:
        """Return a new argument, a row of arrays with these names, of which some have a value."""
        row = self._new(None, name)
        arrays = tuple(found[k] if k in found else self._new(None, each) for k, each in enumerate(names))
        for k, v in found.items():
            self.names.setdefault(v, names[k])
        self.before.append(Apply(Unpack(), (row,), arrays))
        return row

    def packed(self, arrays: Values, name: str) -> int:
        """Return a row of these arrays."""
        row = self._new(None, name)
        self.after.append(Apply(Pack(), arrays, (row,)))
        return row

    def function(self, arguments: Values, results: Values) -> Function:
        """Return the new body."""
        body = (*self.before, *self.body.body, *self.after)
        changed = replace(self.body, arguments=arguments, results=results, body=body)
        return replace(changed, types=tuple(self.types), names=self.names)


def _marked(function: Function) -> Function:
    """Mark in each loop the rows, filled by loops, of large arrays that no later operation reads."""
    kept, body = {*function.results, *function.arguments}, list[Apply]()
    for apply in reversed(function.body):
        loop = Loop.of(apply)
        body.append(_clearing(loop, kept).apply if loop else apply)
        kept.update(apply.inputs)
    return replace(function, body=tuple(body[::-1]))


def _clearing(loop: Loop, kept: set[int]) -> Loop:
    """Clear the rows of a loop that are not kept."""
    rows = {inner for outer, inner in loop.rows.items() if outer not in kept}

    def marked(apply: Apply) -> Apply:
        large = any(map(is_large, (loop.body.types[v] for v in apply.outputs)))
        return apply._replace(op=Unpack(last=True)) if large and rows.issuperset(apply.inputs) else apply

    body = tuple(marked(each) if isinstance(each.op, Unpack) else each for each in loop.body.body)
    return replace(loop, body=replace(loop.body, body=body))
