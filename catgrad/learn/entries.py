"""The functions of a task as a program: what each takes, returns and says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from catgrad.functors import Expand
from catgrad.functors.reverse import cotangents
from catgrad.learn.functions import Functions, initial_term
from catgrad.learn.task import Task
from catgrad.naming import numbered
from catgrad.programs.program import GRADIENTS, Function, Program, lower
from catgrad.terms.op import Op
from catgrad.terms.state import Slot

DOCS = {
    "predict": "{M}P × X → Ŷ: the model's output.",
    "trained": "{M}P × X → {M}Ŷ: the model's output in training.",
    "criterion": "Ŷ × Y → R: how far ŷ is from y.",
    "loss": "{M}P × X × Y → R: how far the output is from y.",
    "rev": "{M}P × X × Ŷ′ → P′ × X′: the reverse derivative of predict.",
    "rev_p": "{M}P × X × Ŷ′ → P′: the part of rev that parameters need.",
    "grads": "{M}P × X × Y → R × {M}P′: the loss in training and its gradient.",
    "update": "{S}P × P′ → {S}P: the optimiser's part of a step.",
    "step": "{S}{M}P × X × Y → {S}{M}P: one step of training.",
    "train_step": "{S}{M}P × X × Y → R × {S}{M}P: one step, and the loss before it.",
}
"""The functions of a task, by name."""

COMPILED = ("predict", "loss", "rev", "rev_p", "grads", "update", "step", "train_step")
"""Those that a target prints which does not choose others."""

RENEWED = {
    "grads": ("buffers",),
    "update": ("state", "parameters"),
    "step": ("state", "buffers", "parameters"),
    "train_step": ("state", "buffers", "parameters"),
    "trained": ("buffers",),
}
"""The tables whose new values functions return."""

TABLES = {"state": "S", "buffers": "M", "parameters": "P"}
"""What functions take in common, in this order."""

INITIAL = {
    "init_state": ("state", "First values of the optimiser's state."),
    "init_buffers": ("buffers", "First values of the buffers."),
    "init": ("parameters", "First values of the parameters."),
}


def program(
    task: Task, has: Callable[[Op], bool] = lambda op: True, entries: Sequence[str] = COMPILED
) -> Program:
    """Terms as straight-line code, with definitions expanded that `has` does not name."""
    expand = Expand(has)
    tables = {name: getattr(task, name) for name in TABLES}
    functions = [_entry(task, name, tables, expand) for name in entries]
    optimiser = task.optimiser.name, task.optimiser.settings
    return Program(task.name, (*_initial(tables, functions, expand), *functions), tables, optimiser)


def functions_program(functions: Functions, has: Callable[[Op], bool] = lambda op: True) -> Program:
    """Lower all functions, and those that give first values."""
    expand = Expand(has)
    tables = {"state": (), "buffers": functions.buffers, "parameters": functions.parameters}
    lowered = []
    for name, opened in functions.opened.items():
        term, takes, gives = functions.entry(name)
        names = [s.name for table in takes for s in tables[table]] + numbered("x", len(opened.inputs))
        letters = "".join(f"{TABLES[table]} × " for table in takes)
        doc = f"{letters}X → {'M × ' if opened.changes else ''}Y."
        lowered.append(replace(lower(expand(term), name, names, doc), takes=takes, gives=gives))
    return Program(functions.name, (*_initial(tables, lowered, expand), *lowered), tables)


def _initial(
    tables: Mapping[str, tuple[Slot, ...]], functions: Sequence[Function], expand: Expand
) -> list[Function]:
    """The functions from a seed to first values of the tables that functions take."""
    taken = {"parameters", *(table for function in functions for table in function.takes)}
    return [
        replace(lower(expand(initial_term(tables[table])), name, ["seed"], doc), gives=(table,))
        for name, (table, doc) in INITIAL.items()
        if table in taken
    ]


def _entry(task: Task, name: str, tables: dict[str, tuple[Slot, ...]], expand: Expand) -> Function:
    term, takes = task.entry(name)
    names = [slot.name for table in takes for slot in tables[table]] + _own(task, name)
    letters = {letter: f"{letter} × " if table in takes else "" for table, letter in TABLES.items()}
    lowered = lower(expand(term), name, names, DOCS[name].format(**letters))
    return replace(lowered, takes=takes, gives=_gives(task, name, takes))


def _gives(task: Task, name: str, takes: tuple[str, ...]) -> tuple[str, ...]:
    """What a function returns, in order."""
    renewed = tuple(table for table in RENEWED.get(name, ()) if table in takes)
    if name in ("predict", "trained"):
        return (*renewed, *numbered("y_hat", len(task.outputs)))
    if name in ("rev", "rev_p"):
        return (GRADIENTS, *(numbered("d_x", len(cotangents(task.inputs))) if name == "rev" else ()))
    loss = ("loss",) if name in ("criterion", "loss", "grads", "train_step") else ()
    return (*loss, *renewed, *((GRADIENTS,) if name == "grads" else ()))


def _own(task: Task, name: str) -> list[str]:
    """What a function's own arguments are called."""
    x = numbered("x", len(task.inputs))
    if name in ("predict", "trained"):
        return x
    if name == "criterion":
        return numbered("y_hat", len(task.outputs)) + numbered("y", len(task.targets))
    if name in ("rev", "rev_p"):
        return x + numbered("d_y_hat", len(cotangents(task.outputs)))
    if name == "update":
        return [f"d_{slot.name}" for slot in task.parameters]
    return x + numbered("y", len(task.targets))
