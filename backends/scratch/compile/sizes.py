"""Programs for sprites: with sizes that are numbers, and predictions among what a step gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from catgrad.backend import Backend
from catgrad.errors import OptionError
from catgrad.ops.bits import BitAnd
from catgrad.ops.random import RandomBits
from catgrad.programs.program import Function, Program, operations
from catgrad.terms.op import Op
from catgrad.terms.structural import Label
from catgrad.types import symbols

PREDICTIONS = "y_hat"
"""What the model's outputs are called."""


def arranged(backend: Backend, program: Program) -> Program:
    """The program with a number for its symbolic size, and the outputs of the model as results of its step.

    Raises: OptionError if it has more than one symbolic size
    """
    taken = {table for function in program.functions for table in function.takes}
    tables = {name: slots for name, slots in program.tables.items() if name in taken}
    changed = program.map(lambda f: _with_predictions(_with_numbers(backend, f)))
    return replace(changed, tables=tables)


def _with_numbers(backend: Backend, function: Function) -> Function:
    names = symbols(function.argument_types)
    if len(names) > 1:
        raise OptionError(
            "a sprite must have at most one size that is not a number, that of the batch",
            f"{function.name} has {', '.join(names)}",
            "write the others as numbers in the model's types",
        )
    options = backend.options
    size = options.predict_batch if predicts(function) else options.batch
    return function.substitute(dict.fromkeys(names, size))


def _with_predictions(function: Function) -> Function:
    if function.name != "train_step":
        return function
    found = {
        op.name: outputs[0]
        for op, _, outputs in function.body
        if isinstance(op, Label) and op.name.split("_")[:2] == PREDICTIONS.split("_")
    }
    return replace(function, results=(*function.results, *found.values()), gives=(*function.gives, *found))


def predicts(function: Function) -> bool:
    """Tell whether it gives outputs of a model or remembers something, and trains nothing."""
    remembers = "buffers" in function.takes and "buffers" in function.gives
    answers = any(name.startswith(PREDICTIONS) for name in function.gives)
    return function.name not in ("train_step", "trained") and (remembers or answers)


def streams(program: Program) -> list[int]:
    """The streams of random numbers that the model draws from while it runs."""
    return sorted({op.stream for op in _printed(program) if isinstance(op, RandomBits)})


def uses_masks(program: Program) -> bool:
    """Tell whether bits of one number are masked by those of another."""
    return any(isinstance(op, BitAnd) for op in _printed(program))


def _printed(program: Program) -> Iterator[Op]:
    """The operations of functions that become custom blocks."""
    return (op for f in program.functions if not f.name.startswith("init") for op in operations(f))


def untouched(program: Program, function: str) -> set[str]:
    """The arrays of tables that a function gives back as it takes them, by name."""
    f = program[function]
    taken = zip(_named(program, f.takes), f.arguments, strict=False)
    given = dict(zip(_named(program, f.gives), f.results, strict=True))
    return {name for name, value in taken if given.get(name) == value}


def _named(program: Program, tables: Sequence[str]) -> list[str]:
    """The names of all arrays of these tables; what is no table is one array itself."""
    return [slot.name if slot else name for name in tables for slot in program.tables.get(name, (None,))]
