"""The functions of a task as a program, with ports and documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from catgrad.functors import Expand
from catgrad.learn.functions import Functions, initial_term
from catgrad.learn.signatures import INITIAL_VALUES, LETTERS, described
from catgrad.learn.task import COMPILED, Task
from catgrad.programs import ports
from catgrad.programs.ports import INITIAL, TABLES, Kind, Port, Role
from catgrad.programs.program import Function, Program, lower
from catgrad.terms.op import Op
from catgrad.terms.state import SEED, Slot
from catgrad.terms.term import Term


def program(
    task: Task, has: Callable[[Op], bool] = lambda op: True, entries: Sequence[Kind] = COMPILED
) -> Program:
    """Lower the terms of a task; definitions for which `has` is false are expanded."""
    expand = Expand(has)
    tables = {Role.STATE: task.state, Role.BUFFER: task.buffers, Role.PARAMETER: task.parameters}
    functions = [_entry(task, Kind(kind), expand) for kind in entries]
    optimiser = task.optimiser.name, task.optimiser.settings
    every = (*_initial(tables, functions, expand), *functions)
    return Program(task.name, every, tables, optimiser, task.notes)


def functions_program(functions: Functions, has: Callable[[Op], bool] = lambda op: True) -> Program:
    """Lower all functions, and those that compute initial values."""
    expand = Expand(has)
    tables = {Role.STATE: (), Role.BUFFER: functions.buffers, Role.PARAMETER: functions.parameters}
    lowered = []
    for name, opened in functions.opened.items():
        term, inputs, outputs = functions.entry(name)
        letters = "".join(f"{LETTERS[role]} × " for role in ports.tables(inputs))
        doc = f"{letters}X → {'M × ' if opened.changes else ''}Y."
        lowered.append(_lowered(expand(term), name, Kind.FUNCTION, inputs, outputs, doc))
    return Program(functions.name, (*_initial(tables, lowered, expand), *lowered), tables)


def _initial(
    tables: Mapping[Role, tuple[Slot, ...]], functions: Sequence[Function], expand: Expand
) -> list[Function]:
    """Lower the functions from a seed to the initial values of tables that are arguments."""
    taken = {Role.PARAMETER, *(role for function in functions for role in function.tables)}
    seed = (Port(Role.SEED, "seed", SEED.array_type),)
    initial = []
    for table, doc in INITIAL_VALUES.items():
        if table in taken:
            kind = INITIAL[table]
            outputs = tuple(Port(table, slot.name, slot.type) for slot in tables[table])
            term = expand(initial_term(tables[table]))
            initial.append(_lowered(term, kind, kind, seed, outputs, doc))
    return initial


def _entry(task: Task, kind: Kind, expand: Expand) -> Function:
    term, inputs, outputs = task.entry(kind)
    taken = {Role.PARAMETER, *(port.role for port in inputs)}
    doc = described(kind, [role for role in TABLES if role not in taken])
    return _lowered(expand(term), kind, kind, inputs, outputs, doc)


def _lowered(
    term: Term, name: str, kind: Kind, inputs: tuple[Port, ...], outputs: tuple[Port, ...], doc: str
) -> Function:
    """Lower a term whose ports are known."""
    lowered = lower(term, str(name), [port.label for port in inputs], doc)
    return replace(lowered, kind=kind, inputs=inputs, outputs=outputs)
