"""Hoisting of constants: arrays that do not depend on arguments become buffers or parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from catgrad.ops.reduce import Broadcast
from catgrad.programs.passes.prune import prune
from catgrad.programs.ports import Kind, Port, Role
from catgrad.programs.program import Apply, Function, Program
from catgrad.terms.state import Slot
from catgrad.terms.structural import Constant
from catgrad.types import symbols

Key = tuple[Any, ...]


class Tables:
    """The constant tables of some functions, without duplicates, and the function that computes them."""

    def __init__(self) -> None:
        self.numbers: dict[Key, int] = {}  # the value of each constant expression
        self.body: list[Apply] = []
        self.types: list[Any] = []
        self.results: list[int] = []

    def value(self, key: Key) -> int:
        """Return the number of a table, and add it if it is new."""
        if key not in self.numbers:
            op, _, types, inputs = key
            arguments = tuple(self.value(each) for each in inputs)
            outputs = tuple(range(len(self.types), len(self.types) + len(types)))
            self.types += types
            self.body.append(Apply(op, arguments, outputs))
            self.numbers |= {(op, i, types, inputs): value for i, value in enumerate(outputs)}
        return self.numbers[key]

    def position(self, key: Key) -> int:
        """Return the position of a table."""
        value = self.value(key)
        if value not in self.results:
            self.results.append(value)
        return self.results.index(value)

    def function(self, names: Iterable[str]) -> Function:
        """Build () -> tables."""
        named = dict(zip(self.results, names, strict=True))
        return Function(
            name=Kind.INIT_CONSTANTS.value,
            arguments=(),
            body=tuple(self.body),
            results=tuple(self.results),
            types=tuple(self.types),
            inputs=(),
            outputs=tuple(Port(Role.CONSTANT, name, self.types[v]) for v, name in named.items()),
            names=named,
            doc="The tables.",
            kind=Kind.INIT_CONSTANTS,
        )


def hoisted(program: Program, compress: bool) -> Program:
    """Turn tables into arguments of the functions, in the table `constants`."""
    tables = Tables()
    chosen = {f.name: _tables(f, tables, compress) for f in program.functions if _is_model(f)}
    taken = {slot.name for slots in program.tables.values() for slot in slots}
    free = (name for i in range(len(tables.results) + len(taken)) if (name := f"table_{i}") not in taken)
    slots = tuple(Slot(name, tables.types[v]) for name, v in zip(free, tables.results, strict=False))
    if not slots:
        return program
    changed = [_with_tables(f, slots, chosen[f.name]) if f.name in chosen else f for f in program.functions]
    functions = (tables.function(slot.name for slot in slots), *changed)
    return replace(program, functions=functions, tables={**program.tables, Role.CONSTANT: slots})


def _is_model(function: Function) -> bool:
    return function.kind is not Kind.CRITERION and not function.kind.is_initial


def _tables(function: Function, tables: Tables, compress: bool) -> dict[int, int]:
    """Return the position of the table for each constant value with a reader that is not constant."""
    sizes = dict.fromkeys(symbols(function.types), 1)
    producer = {value: apply for apply in function.body for value in apply.outputs}
    keys: dict[int, Key] = {}
    for op, inputs, outputs in function.body:
        if all(v in keys for v in inputs) and op.substitute(sizes) == op:
            types = tuple(function.types[v] for v in outputs)
            keys |= {
                v: (op, i, types, tuple(keys[source] for source in inputs)) for i, v in enumerate(outputs)
            }
    read = [v for a in function.body if not keys.keys() >= set(a.outputs) for v in a.inputs]
    places = {}
    for value in (v for v in dict.fromkeys([*read, *function.results]) if v in keys):
        while compress and isinstance(producer[value].op, Broadcast):
            (value,) = producer[value].inputs
        if function.types[value].dtype.is_floating and not isinstance(producer[value].op, Constant):
            places[value] = tables.position(keys[value])
    return places


def _with_tables(function: Function, slots: tuple[Slot, ...], places: dict[int, int]) -> Function:
    """Add the tables as first arguments of a function."""
    start = len(function.types)
    arguments = tuple(range(start, start + len(slots)))
    replacements = {value: arguments[place] for value, place in places.items()}
    body = tuple(
        apply._replace(inputs=tuple(replacements.get(v, v) for v in apply.inputs)) for apply in function.body
    )
    return prune(
        replace(
            function,
            arguments=(*arguments, *function.arguments),
            body=body,
            results=tuple(replacements.get(v, v) for v in function.results),
            types=(*function.types, *(slot.type for slot in slots)),
            names={**function.names, **{v: s.name for v, s in zip(arguments, slots, strict=True)}},
            inputs=(*(Port(Role.CONSTANT, s.name, s.type) for s in slots), *function.inputs),
        )
    )
