"""Functions of a program as JavaScript functions: shared kernels, and calls of them."""

from __future__ import annotations

from catgrad.backend import Backend
from catgrad.loops.machine import Machine
from catgrad.loops.passes import PASSES
from catgrad.loops.passes.schedule.unroll import unroll
from catgrad.loops.passes.simplify.bind import RegisterCosts, binder
from catgrad.naming import Namer
from catgrad.programs.ports import TABLES
from catgrad.programs.program import Program
from catgrad.programs.segments import segments_of

from ..kernels.functions import PrintedFunctions

MACHINE = Machine(
    PASSES,
    (unroll, binder(RegisterCosts())),
    multiplies_matrices=True,
    float64_sums=True,
    locals_once=True,
    passes_rows=True,
)
"""Sums are in float64, which V8 adds faster than it rounds each sum to float32."""

METHODS = ("constructor", "load", "parameters", "buffers", "save", "state", "terminate")
"""The members that every model has."""


class ModuleFunctions(PrintedFunctions):
    """The functions of one program as methods of a class."""

    machine = MACHINE

    def context(self) -> dict[str, object]:
        """Print all functions; returns the variables that templates read."""
        return {**model_context(self.program), **super().context()}


def model_context(program: Program) -> dict[str, object]:
    """Return what the class of models adds: the slots of tables, and the name of the method of a function."""
    slots = {table: program.tables[table] for table in TABLES if program.tables.get(table)}
    segments = {table: segments_of(program, table) for table in slots}
    layered = any(each.numbers for of_table in segments.values() for each in of_table)
    return {"slots": slots, "segments": segments, "layered": layered, "methods": methods(program)}


def methods(program: Program) -> dict[str, str]:
    """Name the method of each function."""
    namer = Namer(METHODS)
    return {f.name: namer.fresh(f.name) for f in program.functions}


def template_context(backend: Backend, program: Program) -> dict[str, object]:
    """Return the variables that the templates of the target javascript read."""
    return ModuleFunctions(backend, program).context()
