"""Specialisation of programs for sprites: concrete sizes, and predictions among the results of a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from catgrad.backend import Backend
from catgrad.errors import OptionError
from catgrad.ops.bits import BitAnd
from catgrad.ops.random import RandomBits
from catgrad.programs.ports import Kind, Port, Role
from catgrad.programs.program import Function, Program, operations
from catgrad.terms.op import Op
from catgrad.terms.structural import Label
from catgrad.types import symbols


def prepare(backend: Backend, program: Program) -> Program:
    """Replace the symbolic size by a number, and add the outputs of the model to the results of its step.

    Raises: OptionError if it has more than one symbolic size
    """
    taken = {table for function in program.functions for table in function.tables}
    tables = {table: slots for table, slots in program.tables.items() if table in taken}
    sized = replace(program.map(lambda f: _with_numbers(backend, f)), tables=tables)
    step, predict = sized.kinds.get(Kind.STEP), sized.kinds.get(Kind.PREDICT)
    if step is None or predict is None:
        return sized
    shown = _with_outputs(step, [port for port in predict.outputs if port.role is Role.OUTPUT])
    return sized.map(lambda f: shown if f is step else f)


def _with_numbers(backend: Backend, function: Function) -> Function:
    names = symbols(function.argument_types)
    if len(names) > 1:
        raise OptionError(
            "a sprite must have at most one symbolic size, that of the batch",
            f"{function.name} has {', '.join(names)}",
            "use numbers for the others in the types of the model",
        )
    options = backend.options
    size = options.predict_batch if predicts(function) else options.batch
    return function.substitute(dict.fromkeys(names, size))


def _with_outputs(step: Function, outputs: Sequence[Port]) -> Function:
    """Add the outputs of the model, which have these names in the step, to its results."""
    named = {op.name: outputs[0] for op, _, outputs in step.body if isinstance(op, Label)}
    values = [named[port.name] for port in outputs]
    ports = (replace(port, type=step.types[v]) for port, v in zip(outputs, values, strict=True))
    return replace(step, results=(*step.results, *values), outputs=(*step.outputs, *ports))


def predicts(function: Function) -> bool:
    """Tell whether it returns outputs of a model or carries state, and trains nothing."""
    remembers = Role.BUFFER in function.tables and Role.BUFFER in function.changes
    answers = any(port.role is Role.OUTPUT for port in function.outputs)
    return function.kind in (Kind.PREDICT, Kind.FUNCTION) and (remembers or answers)


def streams(program: Program) -> list[int | None]:
    """List the streams of random numbers that the model draws from while it runs; None for operands."""
    found = {op.stream for op in _printed(program) if isinstance(op, RandomBits)}
    return sorted(found, key=lambda stream: (stream is None, stream))


def uses_masks(program: Program) -> bool:
    """Tell whether bits of one number are masked by those of another."""
    return any(isinstance(op, BitAnd) for op in _printed(program))


def _printed(program: Program) -> Iterator[Op]:
    """Yield the operations of functions that become custom blocks."""
    return (op for f in program.functions if not f.kind.is_initial for op in operations(f))


def untouched(function: Function) -> set[str]:
    """Collect the arrays of tables that a function returns unchanged, by name."""
    renewed = function.renewed().items()
    return {function.inputs[n].name for k, n in renewed if function.results[k] == function.arguments[n]}
