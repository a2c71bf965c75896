"""Lists of arrays: functions that take and return equal layers as lists, and loops over their rows."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import fields, replace

from catgrad.backend import Backend, statements
from catgrad.naming import shared_name
from catgrad.ops.scan import Scan
from catgrad.ops.table import Stack, Unstack
from catgrad.printing.dialect import Layers
from catgrad.printing.printer import FunctionPrinter
from catgrad.printing.statements import FunctionText, Statement
from catgrad.programs.passes.prune import prune
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.ports import TABLES, Port, Role
from catgrad.programs.program import Apply, Function, Nested, Program
from catgrad.programs.segments import segments
from catgrad.terms.op import Op
from catgrad.types import NdArrayType

from .loops import improved
from .outline import called, outlined
from .rows import with_rows
from .tables import Runs, columns, layout, moments, runs
from .updates import with_updates


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


def template_context(backend: Backend, program: Program) -> Mapping[str, object]:
    """Return the variables of the templates: statements, the tables in segments, and the layouts of calls."""
    found = runs(program)
    functions, layers = zip(
        *(with_rows(improved(with_lists(grouped(f, found))), found) for f in program.functions), strict=True
    )
    optimiser, settings = program.optimiser
    update = optimiser if settings and optimiser.isidentifier() else "update"
    reserved = backend.dialect.reserved
    shared, of_any_shape = with_updates(outlined(functions, layers, reserved), update, reserved)
    changed = replace(program, functions=tuple(shared))
    return {
        "layered": any(found.values()),
        "layouts": {f.name: layout(f.inputs, found) for f in program.functions},
        "called": _called(backend, changed, of_any_shape),
        **statements(backend, changed),
        **_tables(program, found),
    }


def _tables(program: Program, found: Runs) -> dict[str, object]:
    """Return the tables in segments, the state without what each parameter has, and the names of that."""
    slots = {role: program.tables.get(role, ()) for role in TABLES}
    parameters, state = slots[Role.PARAMETER], slots[Role.STATE]
    names = moments(parameters, state)
    divided = {role: [*segments(slots[role], found[role])] for role in TABLES}
    if names:
        divided[Role.STATE] = [*segments(state[: len(state) - len(names) * len(parameters)], ())]
    return {"segments": divided, "moments": names}


def _called(
    backend: Backend, program: Program, of_any_shape: Container[str]
) -> dict[str, list[FunctionText]]:
    """Print functions that others call, by the first that does, without comments on shapes if these vary."""
    printed, known = dict[str, list[FunctionText]](), set[str]()
    for function in program.functions:
        new = {name: f for name, f in called(function).items() if name not in known}
        texts = [FunctionPrinter(f, backend.dialect).print() for f in new.values()]
        printed[function.name] = [_without_types(t) if t.name in of_any_shape else t for t in texts]
        known.update(new)
    return printed


def _without_types(text: FunctionText) -> FunctionText:
    lines = (replace(line, types=()) if isinstance(line, Statement) else line for line in text.statements)
    return replace(text, statements=tuple(lines))


def grouped(function: Function, runs: Runs) -> Function:
    """Replace arguments and results that are rows of layers by lists, one for each array of a layer."""
    rewriter, lists, taken = Rewriter(function), dict[Values, int](), []
    for values, port in _columns(function.arguments, function.inputs, runs):
        value = values[0]
        if port.rows:
            rewriter.types.append(_type(rewriter, values))
            value = lists[values] = len(rewriter.types) - 1
            rewriter.names[value] = port.label
            for k, row in enumerate(values):
                rewriter.keep(Apply(Row(k), (value,), (row,)))
        taken.append((value, port))

    def known(_: Rewriter, apply: Apply) -> Values | None:
        return (lists[apply.inputs],) if isinstance(apply.op, Stack) and apply.inputs in lists else None

    function = rewriter.sweep(known)
    returned = []
    for values, port in _columns(function.results, function.outputs, runs):
        returned.append((_list(rewriter, values, lists) if port.rows else values[0], port))
    arguments, inputs = zip(*taken, strict=True) if taken else ((), ())
    results, outputs = zip(*returned, strict=True) if returned else ((), ())
    changed = replace(function, arguments=arguments, inputs=inputs, results=results, outputs=outputs)
    body, types = tuple(rewriter.body), tuple(rewriter.types)
    return prune(replace(changed, body=body, types=types, names=rewriter.names))


def _columns(values: Sequence[int], ports: Sequence[Port], runs: Runs) -> Iterator[tuple[Values, Port]]:
    """Yield the values of each argument or result, several for a list, and its port."""
    for places, port in columns(ports, runs):
        yield tuple(values[k] for k in places), port


def _type(rewriter: Rewriter, values: Values) -> NdArrayType:
    """Return the type of a list of these values."""
    row = rewriter.types[values[0]]
    return row.with_shape((len(values), *row.shape))


def _list(rewriter: Rewriter, values: Values, lists: Mapping[Values, int]) -> int:
    """Return a list of these values: the one that they are the rows of, or a new one."""
    apply = rewriter.producer.get(values[0])
    if apply and isinstance(apply.op, Unstack) and apply.outputs == values:
        (found,) = apply.inputs
        rows = [rewriter.names.get(v, "") for v in values]
        if all(rows):
            rewriter.names.setdefault(found, shared_name(rows))
        return found
    if values in lists:
        return lists[values]
    equal = len({*values}) == 1
    op = Repeated(len(values)) if equal else Stack(len(values))
    return rewriter.apply_as(_type(rewriter, values), op, *(values[:1] if equal else values))


def with_lists(function: Function, takes: Callable[[Nested], bool] = lambda nested: True) -> Function:
    """Replace loops over lists, which fill lists; other operations read lists as arrays.

    A stack is a list, and so is what a loop fills, if it reads rows of lists or others read its rows, and
    `takes` lists at all.
    """
    listed = {v for v, port in zip(function.results, function.outputs, strict=True) if port.rows}
    wanted = listed.union(a.inputs[0] for a in function.body if isinstance(a.op, Unstack))
    lists = {v for v, port in zip(function.arguments, function.inputs, strict=True) if port.rows}
    types, body, joined = list(function.types), list[Apply](), dict[int, int]()

    def array(value: int) -> int:
        """Return a value as an array."""
        if value in lists and value not in joined:
            types.append(types[value])
            joined[value] = len(types) - 1
            body.append(Apply(Joined(), (value,), (joined[value],)))
        return joined.get(value, value)

    for apply in function.body:
        op, inputs, outputs = _over_lists(apply, lists, wanted, takes)
        lists.update(outputs[op.op.carried :] if isinstance(op, Nested) and isinstance(op.op, Layers) else ())
        lists.update(outputs if isinstance(op, (Stack, Repeated)) else ())
        rows = _rows(op, inputs)
        inputs = tuple(v if k in rows else array(v) for k, v in enumerate(inputs))
        body.append(Apply(op, inputs, outputs))
    results = tuple(v if v in listed else array(v) for v in function.results)
    return replace(function, body=tuple(body), results=results, types=tuple(types))


def _over_lists(apply: Apply, lists: set[int], wanted: set[int], takes: Callable[[Nested], bool]) -> Apply:
    """Return a loop as one over lists if it reads or fills any, and other operations unchanged."""
    if not isinstance(apply.op, Nested):
        return apply
    nested = Nested(apply.op.op, tuple(with_lists(each, takes) for each in apply.op.functions))
    op = nested.op
    if isinstance(op, Scan) and takes(nested):
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
