"""Printing of loops: names of carries, of rows and of what is filled row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from catgrad.ops.scan import Scan
from catgrad.printing.dialect import Layers
from catgrad.printing.releases import is_large
from catgrad.printing.statements import Loop, Stack
from catgrad.programs.program import Apply, Function, Nested
from catgrad.types import NdArrayType

if TYPE_CHECKING:
    from catgrad.printing.printer import Lines

Rows = tuple[tuple[str, str, NdArrayType], ...]


def printed_loop(outer: Lines, op: Scan, body: Function, apply: Apply, operands: Sequence[str]) -> Loop:
    """Print a loop among the lines of a function or of a block."""
    inside, new, named = body.arguments, body.results, outer.function.names.get
    outputs = apply.outputs[: op.carried]
    carries = outer.assigned(
        outputs,
        [
            body.names.get(v) or named(o) or body.names.get(n) or "carry"
            for v, o, n in zip(inside, outputs, new, strict=False)
        ],
    )
    print_rest = _over_lists if isinstance(op, Layers) else _over_arrays
    return print_rest(outer, op, body, apply, operands, carries)


def _over_arrays(
    outer: Lines, op: Scan, body: Function, apply: Apply, operands: Sequence[str], carries: Sequence[str]
) -> Loop:
    """Print a loop that has variables for rows, and copies results into arrays."""
    (_, arrays, constants), fresh = op.parts(operands), outer.printer.namer.fresh
    sources, filled = op.parts(apply.inputs)[1], apply.outputs[op.carried :]
    read, results = op.parts(body.arguments)[1], body.results[op.carried :]
    named = outer.function.names.get
    elements = [
        fresh(body.names.get(v) or f"{outer.stems.get(source, 'row')}_t")
        for v, source in zip(read, sources, strict=True)
    ]
    index = fresh("t")
    stems = [body.names.get(v, "row") for v in results]
    preferred = [named(o) or f"{stem}_rows" for o, stem in zip(filled, stems, strict=True)]
    stacks = outer.assigned(filled, preferred)
    outer.stems |= {o: named(o) or stem for o, stem in zip(filled, stems, strict=True)}
    block = outer.inside(body, [*carries, *elements, *constants])
    rows = tuple(zip(elements, arrays, [body.types[v] for v in read], strict=True))
    return _loop(outer, op, block, index, operands, carries, rows, [*zip(stacks, filled, strict=True)])


def _over_lists(
    outer: Lines, op: Scan, body: Function, apply: Apply, operands: Sequence[str], carries: Sequence[str]
) -> Loop:
    """Print a loop that reads and assigns rows of lists where they are used; its names are free after it."""
    row, printer, (_, lists, constants) = outer.dialect.macros["row"], outer.printer, op.parts(operands)
    filled, results = apply.outputs[op.carried :], body.results[op.carried :]
    made = {v: each for each in body.body if not isinstance(each.op, Nested) for v in each.outputs}
    named, stem = outer.function.names.get, outer.inside(body, [""] * len(body.arguments)).preferred_name
    stacks = outer.assigned(
        filled,
        [
            named(o)
            or (stem(made[v].op, v, made[v].inputs) if v in made else f"{body.names.get(v, 'carry')}_rows")
            for o, v in zip(filled, results, strict=True)
        ],
    )
    outside, printer.namer = printer.namer, printer.namer.scope()
    index = printer.namer.fresh("layer")
    block = outer.inside(body, [*carries, *(row(each, index) for each in lists), *constants])
    places = zip(results, (row(each, index) for each in stacks), strict=True)
    block.places = {v: place for v, place in [*places][::-1] if v in made} | _in_place(op, body, carries)
    block.emptied = _emptied(outer, op, body, apply)
    outer.filled.update(filled)
    loop = _loop(outer, op, block, index, operands, carries, (), [*zip(stacks, filled, strict=True)])
    printer.namer = outside
    return replace(loop, kind=op.macro)


def _in_place(op: Scan, body: Function, carries: Sequence[str]) -> dict[int, str]:
    """Return the results that are assigned to carries at once: those of the last operation, if all are."""
    last, new = body.body[-1].outputs if body.body else (), body.results[: op.carried]
    in_place = {*body.results} <= {*last} and len({*new}) == len(new)
    return dict(zip(new, carries, strict=True)) if in_place else {}


def _emptied(outer: Lines, op: Scan, body: Function, apply: Apply) -> set[int]:
    """Return the arguments of a loop's body that are rows, which loops fill and nobody reads later."""
    lists, rows = op.parts(apply.inputs)[1], op.parts(body.arguments)[1]
    last = {
        v
        for v in outer.filled.intersection(lists).difference(outer.function.results)
        if outer.last_reader[v] is apply and apply.inputs.count(v) == 1
    }
    emptied = {
        inside for v, inside in zip(lists, rows, strict=True) if v in last and is_large(body.types[inside])
    }
    outer.emptied |= {v for v, inside in zip(lists, rows, strict=True) if inside in emptied}
    return emptied


def _loop(
    outer: Lines,
    op: Scan,
    block: Lines,
    index: str,
    operands: Sequence[str],
    carries: Sequence[str],
    rows: Rows,
    stacks: Sequence[tuple[str, int]],
) -> Loop:
    """Print the lines of a loop, whose variables have names already."""
    body, printer, row = block.function, outer.printer, outer.dialect.macros.get("row", str)
    lines, results = block.print()
    old, new = body.arguments[: op.carried], body.results[: op.carried]
    types = [body.types[value] for value in old]
    renewals = zip(old, new, carries, results, strict=False)
    filled = []
    for (name, o), v, text in zip(stacks, body.results[op.carried :], results[op.carried :], strict=True):
        type, assigned = outer.function.types[o], block.places.get(v) == row(name, index)
        shape = printer.shape(type.shape) if type else ""  # rows are no arrays
        filled.append(Stack(name, "" if assigned else text, shape, type))
    return Loop(
        index,
        printer.size(op.length),
        op.backwards,
        carries=tuple(zip(carries, operands, types, strict=False)),
        rows=rows,
        lines=lines,
        stacks=tuple(filled),
        renewed=tuple(
            (carry, text) for v, n, carry, text in renewals if v != n and carry != block.places.get(n)
        ),
        simultaneous=any(not block.mentions[n].isdisjoint(old[:i]) for i, n in enumerate(new)),
        always_runs=isinstance(op.length, int) and op.length > 0,
    )
