"""Functions prepared for the lowering, and a machine for each kind of kernel language."""

from __future__ import annotations

from catgrad.functors import Expand
from catgrad.loops import OPERATIONS
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine, Vectors
from catgrad.loops.passes import KERNEL_PASSES, PASSES
from catgrad.loops.passes.simplify.bind import RegisterCosts, binder
from catgrad.programs.passes import erase_barriers, optimise
from catgrad.programs.program import Function, lower, nest
from catgrad.terms.op import Op
from catgrad.terms.term import Term

BIND = binder(RegisterCosts(longest=20, loads_before_choices=True))

VECTORS = Machine(
    PASSES,
    (*KERNEL_PASSES, BIND),
    vectors=Vectors(lanes=16),
    threads=True,
    multiplies_matrices=True,
    passes_rows=True,
)
"""A machine with vectors and threads."""

SCALARS = Machine(PASSES, (*KERNEL_PASSES, BIND))
"""A machine that processes one element after the other."""


def has(op: Op) -> bool:
    """Tell whether an operation is lowered to loops without expansion."""
    return op.macro in OPERATIONS


def prepared(function: Function) -> Function:
    """Prepare a function for the lowering."""
    return nest(erase_barriers(optimise(function)), prepared)


def compiled(term: Term, machine: Machine = VECTORS) -> Lowered:
    """Expand a term to operations that have kernels, and compile it for a machine."""
    return compile_kernels(prepared(lower(Expand(has)(term))), machine)
