"""The functions of a task as terms with ports, and as a program with documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

from catgrad.errors import OptionError
from catgrad.functors import Expand, roll
from catgrad.learn.functions import Functions, initial_term
from catgrad.learn.task import COMPILED, Task
from catgrad.programs import ports
from catgrad.programs.ports import INITIAL, TABLES, Kind, Port, Role
from catgrad.programs.program import Function, Program, lower
from catgrad.programs.signatures import INITIAL_VALUES, LETTERS, SIGNATURES, described
from catgrad.programs.terms import TermEntry, Terms
from catgrad.terms.op import Op
from catgrad.terms.state import SEED
from catgrad.terms.term import Term


def layered(model: object) -> Any:
    """Return a model as files hold it and hashes cover it: a Task with stacks of equal layers as loops."""
    return replace(model, rolls=True) if isinstance(model, Task) else model


@singledispatch
def terms_of(model: object, kinds: Sequence[Kind] = tuple(SIGNATURES)) -> Terms:
    """Collect the terms of a Task, of some kinds or of all, or of Functions; `Terms` are returned unchanged.

    Raises: OptionError for anything else
    """
    raise OptionError(
        "a model with terms must be a Task or Functions",
        f"it is {type(model).__name__}",
        "wrap it as Task(model, sgd(0.01), mse)",
    )


@terms_of.register
def _(model: Terms, kinds: Sequence[Kind] = ()) -> Terms:
    return model


@terms_of.register
def _(model: Task, kinds: Sequence[Kind] = tuple(SIGNATURES)) -> Terms:
    tables = {Role.STATE: model.state, Role.BUFFER: model.buffers, Role.PARAMETER: model.stored}
    entries = {str(k): TermEntry(k, *model.entry(k)) for k in map(Kind, kinds) if k in model.kinds}
    optimiser = model.optimiser.name, model.optimiser.settings
    return Terms(model.name, entries, tables, optimiser, model.notes)


@terms_of.register
def _(model: Functions, kinds: Sequence[Kind] = ()) -> Terms:
    tables = {Role.STATE: (), Role.BUFFER: model.buffers, Role.PARAMETER: model.parameters}
    entries = {name: TermEntry(Kind.FUNCTION, *model.entry(name)) for name in model.terms}
    return Terms(model.name, entries, tables)


def program(
    task: Task, has: Callable[[Op], bool] = lambda op: True, entries: Sequence[Kind] = COMPILED
) -> Program:
    """Lower the terms of a task; definitions for which `has` is false are expanded."""
    return lowered(terms_of(task, entries), has, task.rolls)


def lowered(terms: Terms, has: Callable[[Op], bool] = lambda op: True, rolls: bool = False) -> Program:
    """Lower terms, and those from a seed to the initial values of the tables that they take.

    The terms of initial values are rolled here, others are where they are composed.
    """
    expand = Expand(has)
    functions = [_function(name, entry, expand) for name, entry in terms.entries.items()]
    every = (*_initial(terms, functions, expand, rolls), *functions)
    return Program(terms.name, every, terms.tables, terms.optimiser, terms.notes)


def _initial(terms: Terms, functions: Sequence[Function], expand: Expand, rolls: bool) -> list[Function]:
    """Lower the functions from a seed to the initial values of tables that are arguments."""
    taken = {Role.PARAMETER, *(role for function in functions for role in function.tables)}
    seed = (Port(Role.SEED, "seed", SEED.array_type),)
    initial = []
    for table, doc in INITIAL_VALUES.items():
        if table in taken:
            slots, kind = terms.tables.get(table, ()), INITIAL[table]
            outputs = tuple(Port(table, slot.name, slot.type) for slot in slots)
            term = initial_term(slots)
            if rolls:
                term = roll(term, results=[slot.name for slot in slots])
            initial.append(_lowered(expand(term), kind, kind, seed, outputs, doc))
    return initial


def _function(name: str, entry: TermEntry, expand: Expand) -> Function:
    if entry.kind is Kind.FUNCTION:
        letters = "".join(f"{LETTERS[role]} × " for role in ports.tables(entry.inputs))
        renewed = "M × " if Role.BUFFER in ports.tables(entry.outputs) else ""
        doc = f"{letters}X → {renewed}Y."
    else:
        taken = {Role.PARAMETER, *(port.role for port in entry.inputs)}
        doc = described(entry.kind, [role for role in TABLES if role not in taken])
    return _lowered(expand(entry.term), name, entry.kind, entry.inputs, entry.outputs, doc)


def _lowered(
    term: Term, name: str, kind: Kind, inputs: tuple[Port, ...], outputs: tuple[Port, ...], doc: str
) -> Function:
    """Lower a term whose ports are known."""
    function = lower(term, str(name), [port.label for port in inputs], doc)
    new = "" if kind.is_initial else "new_"
    results = {
        v: new * port.role.is_table + port.label
        for v, port in zip(function.results, outputs, strict=True)
        if port.role.is_table or port.role is Role.GRADIENT
    }
    return replace(function, kind=kind, inputs=inputs, outputs=outputs, names={**results, **function.names})
