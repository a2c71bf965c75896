"""Outlining: the body of a loop over equal layers becomes a function, which several functions may call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from catgrad.dims import Dim
from catgrad.naming import Namer
from catgrad.printing.dialect import Call, Pack, Unpack
from catgrad.programs.ports import Kind, Port, Role
from catgrad.programs.program import Apply, Function, Nested
from catgrad.types import symbols

from .loops import Loop

MIN_OPERATIONS = 5
"""The fewest operations that become a function."""

MAX_PARAMETERS = 8
"""The most parameters of a function for a layer."""


DOCS = {
    "forward": "Forward pass of a layer.",
    "reverse": "Reverse derivative of a layer: cotangents of what it reads and of its parameters.",
    "update": "Update of a layer: its new state and parameters.",
    Kind.INIT: "Initial values of the parameters of a layer.",
    Kind.INIT_STATE: "Initial values of the optimiser's state of a layer.",
    Kind.INIT_BUFFERS: "Initial values of the buffers of a layer.",
}
SAVES = "Forward pass of a layer, and what its reverse reads."


Place = tuple[int, int]
"""The places of a function in a program, and of a loop in the function."""


def outlined(
    functions: Sequence[Function], layers: Sequence[Mapping[int, str]], reserved: Iterable[str]
) -> list[Function]:
    """Replace the bodies of loops over layers of tables by calls; `layers` has the names of rows' layers."""
    found: dict[Place, Function] = {}
    for i, (function, own) in enumerate(zip(functions, layers, strict=True)):
        names = _names(function)
        for k, apply in enumerate(function.body):
            loop, here = Loop.of(apply), {own[v] for v in (*apply.inputs, *apply.outputs) if v in own}
            if loop and here and _is_worth_a_function(loop):
                found[i, k] = _function(loop, _phase(function, loop), min(here), names)
    owners = [function.name for function in functions]
    chosen = _chosen(found, owners, Namer((*reserved, *owners)))
    return [
        replace(f, body=tuple(_calling(apply, chosen.get((i, k))) for k, apply in enumerate(f.body)))
        for i, f in enumerate(functions)
    ]


def _names(function: Function) -> dict[int, str]:
    """Return names of values, those of the operation for intermediate ones."""
    names = dict(function.names)
    for op, inputs, outputs in function.body:
        if len(outputs) == 1:
            names.setdefault(outputs[0], op.result_name(*(names.get(v, "") for v in inputs)))
    return names


def _chosen(found: Mapping[Place, Function], owners: Sequence[str], namer: Namer) -> dict[Place, Function]:
    """Choose one function for equal ones, and for one that returns the first result only.

    Different ones of one name have those of their callers before it.
    """
    known: dict[tuple[int, ...], int] = {}
    chosen: dict[Place, Function] = {}
    general: dict[str, list[tuple[tuple[int, ...], Function]]] = {}
    for place, each in sorted(found.items(), key=lambda pair: -len(pair[1].results)):
        values, alike = _numbered(each, known), general.setdefault(each.name, [])
        equal = [f for numbers, f in alike if values in (numbers, numbers[:1])]
        if not equal:
            name = f"{owners[place[0]]}_{each.name}" if alike else each.name
            equal = [replace(each, name=namer.fresh(name))]
            alike.append((values, equal[0]))
        chosen[place] = equal[0]
    return chosen


def _numbered(function: Function, known: dict[Any, int]) -> tuple[int, ...]:
    """Return the numbers of results: equal ones for equal values of equal arguments."""
    number: dict[int, int] = {}
    for k, v in enumerate(function.arguments):
        number[v] = known.setdefault((k, function.types[v]), len(known))
    for op, inputs, outputs in function.body:
        read = tuple(number[v] for v in inputs)
        same: object = id(op) if isinstance(op, (Nested, Call)) else op
        for k, v in enumerate(outputs):
            number[v] = known.setdefault(
                (same, tuple(sorted(read)) if op.commutative else read, k), len(known)
            )
    return tuple(number[v] for v in function.results)


def _calling(apply: Apply, called: Function | None) -> Apply:
    """Replace the body of a loop by a call of a function, if there is one."""
    loop = Loop.of(apply)
    if not called or not loop:
        return apply
    only = len(loop.body.results) < len(called.results)
    call = Apply(Call(called, only), loop.body.arguments, loop.body.results)
    return replace(loop, body=replace(loop.body, body=(call,))).apply


def _function(loop: Loop, phase: str, layer: str, outside: Mapping[int, str]) -> Function:
    """Return the body of a loop as a function; names in it do not begin with that of the layer."""
    body, saves = loop.body, len(loop.outputs) > loop.op.carried
    prefix = re.compile(rf"(^|[._]){layer.replace('_', '[._]')}\.")
    names = {inner: outside[outer] for outer, inner in loop.constants.items() if outer in outside}
    names = dict.fromkeys(body.arguments, "operand") | names | {**body.names}
    names = {v: prefix.sub(r"\1", name) for v, name in names.items()}
    return replace(
        body,
        name=f"{layer}_{phase}",
        doc=SAVES if phase == "forward" and saves else DOCS[phase],
        inputs=tuple(Port(Role.INPUT, names.get(v, ""), body.types[v]) for v in body.arguments),
        outputs=tuple(Port(Role.OUTPUT, "", body.types[v]) for v in body.results),
        names=names,
    )


def _is_worth_a_function(loop: Loop) -> bool:
    """Tell whether a body is long, with few arguments that tell all sizes, and new results."""
    body = loop.body
    own = [each for each in body.body if not isinstance(each.op, (Pack, Unpack))]
    rows = [v for each in body.body if isinstance(each.op, Unpack) for v in each.outputs]
    arrays = [body.types[v] for v in (*body.arguments, *rows) if body.types[v]]
    sizes = (size for type in arrays for size in type.shape if isinstance(size, Dim))
    told = {min(size.symbols) for size in sizes if size == Dim(min(size.symbols))}
    new = {*body.results}.difference(body.arguments)
    return (
        len(own) >= MIN_OPERATIONS
        and len(body.arguments) <= MAX_PARAMETERS
        and told.issuperset(symbols(tuple(filter(None, body.types))))
        and len(new) == len(body.results)
    )


def _phase(function: Function, loop: Loop) -> str:
    """Return what a loop does in its function."""
    if function.kind.is_initial:
        return function.name
    changed = {function.outputs[k].role for k, v in enumerate(function.results) if v in loop.outputs}
    if loop.op.backwards:
        return "reverse"
    return "update" if changed & {Role.STATE, Role.PARAMETER} else "forward"


def called(function: Function) -> dict[str, Function]:
    """Return the functions that a function calls, by name, each before those that call it."""
    found: dict[str, Function] = {}
    for apply in function.body:
        loop = Loop.of(apply)
        for each in loop.body.body if loop else (apply,):
            if isinstance(each.op, Call):
                found |= called(each.op.function) | {each.op.function.name: each.op.function}
    return found
