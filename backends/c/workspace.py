"""Workspace of an emitted function: its size in bytes, and a bound of all numbers that its sizes lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from catgrad.dims import Dim, Size
from catgrad.loops.ir.bounds import size_bound
from catgrad.loops.ir.steps import Lowered, kernels
from catgrad.loops.memory_plan import Plan, largest
from catgrad.loops.printing.calls import KernelText
from catgrad.loops.printing.functions import FunctionPrinter
from catgrad.printing.dialect import Text
from catgrad.types import substitute

from .machine import LINE_BYTES

Term = tuple[int, tuple[str, ...]]
"""A coefficient, and the sizes that it is multiplied by."""


@dataclass(frozen=True)
class Workspace:
    """Memory that a function takes for intermediate results, as expressions of sizes.

    `arrays` are the bytes of all arrays, of which `least` are alive at the peak. If `has_scratch`, kernels
    take `scratch` bytes beside them, one after the other, or those with parallel loops `thread_scratch` for
    each thread if `per_thread`. The sum of the terms of `reach` bounds every size, index and number of bytes
    in the function, and the parts they are computed from; that of `index_reach` those of sizes and indices
    alone. `sizes` are the bytes of arrays, and of scratch memory once and per thread.
    """

    sizes: tuple[Size, Size, Size]
    arrays: Text
    least: Text
    scratch: Text
    thread_scratch: Text
    has_scratch: bool
    per_thread: bool
    may_be_empty: bool
    reach: tuple[Term, ...]
    index_reach: tuple[Term, ...]
    scratch_reach: tuple[Term, ...]
    thread_reach: tuple[Term, ...]

    @property
    def is_needed(self) -> bool:
        """Tell whether the function takes any memory, at some sizes at least."""
        return self.has_scratch or self.arrays.number != 0

    def at(self, numbers: Mapping[str, Size]) -> Size:
        """Return the bytes with one thread at some sizes; a bound where others stay symbols."""
        arrays, once, per_thread = substitute(self.sizes, numbers)
        bytes = largest(once, per_thread) + arrays
        return bytes if isinstance(bytes, Dim) else -(-bytes // LINE_BYTES) * LINE_BYTES


def workspace_of(printer: FunctionPrinter) -> Workspace:
    """Describe the workspace of a function that is printed."""
    lowered, plan, texts, spell = printer.lowered, printer.plan, printer.texts, printer.expressions.size
    of_all, of_threads = (0, 0) if plan.overlaps else _scratch(lowered, plan, texts)
    terms = [term for size in (plan.size, of_all, of_threads) for term in _terms(size)]
    needs_some = any(coefficient and not names for coefficient, names in terms)
    has_scratch = any(text.scratch for text in texts)
    types = dict.fromkeys(array.type for array in (*lowered.arguments, *lowered.results, *plan.offsets))
    bytes = (type.bytes for type in types)
    indices = reduce(largest, map(size_bound, (text.reach for text in texts)), printer.expressions.reach)
    reach = reduce(largest, map(size_bound, (*bytes, plan.size)), indices)
    return Workspace(
        (plan.size, of_all, of_threads),
        spell(plan.size),
        spell(plan.least),
        spell(of_all),
        spell(of_threads),
        has_scratch,
        any(text.per_thread for text in texts),
        (has_scratch or plan.size != 0) and not needs_some,
        _terms(reach),
        _terms(indices),
        _terms(size_bound(of_all)),
        _terms(size_bound(of_threads)),
    )


def _scratch(lowered: Lowered, plan: Plan, texts: Sequence[KernelText]) -> tuple[Size, Size]:
    """Bound the scratch memory of kernels from above: of those without, and of those with some per thread."""
    once: Size = 0
    per_thread: Size = 0
    for kernel, text in zip(kernels(lowered.steps), texts, strict=True):
        if text.per_thread:
            per_thread = largest(per_thread, plan.scratch_sizes[kernel])
        else:
            once = largest(once, plan.scratch_sizes[kernel])
    return (0 if largest(once, per_thread) == per_thread else once), per_thread


def _terms(size: Size) -> tuple[Term, ...]:
    if not isinstance(size, Dim):
        return ((size, ()),)
    return tuple((coefficient, monomial) for monomial, coefficient in size.terms)
