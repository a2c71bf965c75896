"""Lists of arrays: functions that take and return equal layers as lists, and loops over their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from catgrad.backend import Backend, statements
from catgrad.naming import shared_name
from catgrad.ops.scan import Scan
from catgrad.ops.table import Stack, Unstack
from catgrad.printing.dialect import Layers
from catgrad.programs.ports import TABLES
from catgrad.programs.passes import prune
from catgrad.programs.program import Apply, Function, Nested, Program
from catgrad.terms.op import Op

from .tables import Runs, columns, layout, runs, segments


class Row(Op, register=False):
    """One array of a list."""

    place: int
    result = "row"


class Repeated(Op, register=False):
    """A list of one array several times."""

    count: int
    result = "rows"


class Joined(Op, register=False):
    """The arrays of a list as one array."""

    result = "stack"


def template_context(backend: Backend, program: Program) -> Mapping[str, Any]:
    """Return the variables of the templates: statements, the tables in segments, and the layouts of calls."""
    found = runs(program)
    layouts = {f.name: (layout(f.inputs, found), layout(f.outputs, found)) for f in program.functions}
    return {
        "layered": any(found.values()),
        "layouts": layouts,
        **statements(backend, program.map(lambda f: with_lists(grouped(f, found)))),
        "segments": {role: [*segments(program.tables.get(role, ()), found[role])] for role in TABLES},
    }


def grouped(function: Function, runs: Runs) -> Function:
    """Replace arguments and results that are rows of layers by lists, one for each array of a layer."""
    types, names = list(function.types), dict(function.names)
    taken, lists, rows = [], {}, []
    for places, port in columns(function.inputs, runs):
        values = tuple(function.arguments[k] for k in places)
        if not port.rows:
            taken.append((values[0], port))
            continue
        value = lists[values] = _stacked(types, values)
        names[value] = port.label
        rows += [Apply(Row(k), (value,), (v,)) for k, v in enumerate(values)]
        taken.append((value, port))
    unstacked = {a.outputs: a.inputs[0] for a in function.body if isinstance(a.op, Unstack)}
    known = {a.outputs[0]: lists[a.inputs] for a in function.body if isinstance(a.op, Stack) and a.inputs in lists}
    body = [a._replace(inputs=tuple(known.get(v, v) for v in a.inputs)) for a in function.body]
    for a in function.body:
        rows_named = [names.get(v) for v in a.outputs]
        if isinstance(a.op, Unstack) and all(rows_named):
            names.setdefault(a.inputs[0], shared_name(rows_named))
    returned = []
    for places, port in columns(function.outputs, runs):
        values = tuple(function.results[k] for k in places)
        value = unstacked.get(values, lists.get(values)) if port.rows else values[0]
        if value is None:
            value = _stacked(types, values)
            equal = len({*values}) == 1
            op = Repeated(port.rows) if equal else Stack(port.rows)
            body.append(Apply(op, values[:1] if equal else values, (value,)))
        returned.append((known.get(value, value), port))
    arguments, inputs = zip(*taken, strict=True) if taken else ((), ())
    results, outputs = zip(*returned, strict=True) if returned else ((), ())
    return prune.apply(
        replace(
            function, arguments=arguments, inputs=inputs, results=results, outputs=outputs,
            body=(*rows, *body), types=tuple(types), names=names,
        )
    )  # fmt: skip


def _stacked(types: list[Any], values: Sequence[int]) -> int:
    """Add a value, the stack of others."""
    row = types[values[0]]
    types.append(row.with_shape((len(values), *row.shape)))
    return len(types) - 1


def with_lists(function: Function) -> Function:
    """Replace loops over lists, which fill lists; other operations read lists as arrays.

    A stack is a list, and so is what a loop fills, if it reads rows of lists or others read its rows.
    """
    listed = {v for v, port in zip(function.results, function.outputs, strict=True) if port.rows}
    wanted = listed.union(a.inputs[0] for a in function.body if isinstance(a.op, Unstack))
    lists = {v for v, port in zip(function.arguments, function.inputs, strict=True) if port.rows}
    types, body, joined = list(function.types), [], {}

    def array(value: int) -> int:
        """Return a value as an array."""
        if value in lists and value not in joined:
            types.append(types[value])
            joined[value] = len(types) - 1
            body.append(Apply(Joined(), (value,), (joined[value],)))
        return joined.get(value, value)

    for apply in function.body:
        op, inputs, outputs = _over_lists(apply, lists, wanted)
        lists.update(outputs[op.op.carried :] if isinstance(op, Nested) and isinstance(op.op, Layers) else ())
        lists.update(outputs if isinstance(op, (Stack, Repeated)) else ())
        rows = _rows(op, inputs)
        inputs = tuple(v if k in rows else array(v) for k, v in enumerate(inputs))
        body.append(Apply(op, inputs, outputs))
    results = tuple(v if v in listed else array(v) for v in function.results)
    return replace(function, body=tuple(body), results=results, types=tuple(types))


def _over_lists(apply: Apply, lists: set[int], wanted: set[int]) -> Apply:
    """Return a loop as one over lists if it reads or fills any, and other operations unchanged."""
    if not isinstance(apply.op, Nested):
        return apply
    nested = Nested(apply.op.op, tuple(map(with_lists, apply.op.functions)))
    op = nested.op
    if isinstance(op, Scan):
        rows = {*op.parts(apply.inputs)[1], *apply.outputs[op.carried :]}
        if not rows.isdisjoint(lists | wanted):
            own = {each.name: getattr(op, each.name) for each in fields(op)}
            nested = replace(nested, op=Layers(**own))
    return apply._replace(op=nested)


def _rows(op: Op, inputs: Sequence[int]) -> range:
    """Return the positions of operands that may be lists."""
    if isinstance(op, Nested) and isinstance(op.op, Layers):
        return range(op.op.carried, op.op.carried + op.op.scanned)
    return range(len(inputs) if isinstance(op, (Row, Unstack)) else 0)
