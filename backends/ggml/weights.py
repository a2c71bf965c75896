"""Layout and type of weights: a matrix that products alone read is stored with their terms in rows."""

from __future__ import annotations

from collections.abc import Iterable

from catgrad.errors import OptionError
from catgrad.programs.passes.transpose import readings, stored
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Function, Program
from catgrad.programs.stacks import stacks_of

BLOCK = 32
"""Elements of the blocks of q8_0 and q4_0, of which rows are made."""

FORWARD = (Kind.PREDICT, Kind.FUNCTION)
"""Functions whose products determine layouts."""


def laid_out(program: Program, is_quantised: bool) -> tuple[Program, dict[str, bool], set[str]]:
    """Return the program on weights as ggml reads them, whether each is transposed, and those to quantise.

    Transposed are matrices whose columns the forward functions multiply by, and their state; quantised are
    those that every function reads in products only, and none changes.

    Raises: OptionError if weights are to be quantised, and a program that trains has none
    """
    running = [function for function in program.functions if not function.kind.is_initial]
    forward = _readings([f for f in running if f.kind in FORWARD], BLOCK if is_quantised else 1)
    rows = {name: True in kinds for name, kinds in forward.items() if kinds in ({True}, {False})}
    others = {name for name, kinds in _readings(running).items() if None in kinds}
    quantised = rows.keys() - others if is_quantised else set[str]()
    if is_quantised and not quantised and any(Role.PARAMETER in f.changes for f in running):
        raise OptionError(
            f"a program that trains must have frozen matrices for products of a multiple of {BLOCK} terms to "
            "be quantised",
            f"{program.name} has none",
            "freeze some, as adapters_only does, or leave weights f32",
        )
    transposed = {name for name, is_turned in rows.items() if is_turned}
    stacks = [stack for role in (Role.PARAMETER, Role.BUFFER) for stack in stacks_of(program, role)]
    transposed -= {name for stack in stacks if not transposed.issuperset(stack) for name in stack}
    shapes = {slot.name: slot.type.shape for slots in program.tables.values() for slot in slots}
    for slot in program.tables.get(Role.STATE, ()):
        owner = slot.name.partition(".")[2]
        if owner in transposed and slot.type.shape == shapes[owner]:
            transposed.add(slot.name)
    names = [slot.name for slots in program.tables.values() for slot in slots]
    weights = {name: name in transposed for name in names if name in transposed | quantised}
    return stored(program, transposed), weights, quantised


def _readings(functions: Iterable[Function], block: int = 1) -> dict[str, set[bool | None]]:
    """Collect how functions read each parameter."""
    found: dict[str, set[bool | None]] = {}
    for function in functions:
        for name, reading in readings(function, block):
            found.setdefault(name, set()).add(reading)
    return found
