"""Differential testing: a target and the reference on the same programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from catgrad.backend import NO_16_BITS, Backend
from catgrad.errors import ShapeError
from catgrad.functors import Expand
from catgrad.ops.attention import Attention
from catgrad.ops.conv import Conv
from catgrad.ops.norms import AffineLayerNorm, GroupNorm, LayerNorm, RmsNorm
from catgrad.programs.program import Function, bind_symbols, dtypes, evaluate, lower, operations
from catgrad.programs.program import Program as Emitted
from catgrad.targets import get_backend
from catgrad.terms.block import map_blocks
from catgrad.terms.dead_code import eliminate_dead_code
from catgrad.terms.term import Term, map_operations
from catgrad.types import Array, Dtype, as_numpy, symbols, widened
from tests.programs import Program
from tests.rounding import needs_what_fails, spread, values

BEYOND: dict[str, Callable[[Array], bool]] = {
    "nan": lambda array: array.dtype.kind in "fV" and bool(np.isnan(widened(array)).any()),
    "infinite": lambda array: array.dtype.kind in "fV" and bool(np.isinf(widened(array)).any()),
    "16 bits": lambda array: array.dtype.kind in "fV" and array.dtype != np.float64,
    "64 bits": lambda array: array.dtype == np.int64 and bool((np.abs(array / 2.0**53) > 1).any()),
    "beyond 32 bits": lambda array: array.dtype == np.int64 and bool((array != array.astype(np.int32)).any()),
}
"""Values that a target with known gaps computes differently, by the keys of `Backend.known_gaps`."""
HALVES = {dtype.name for dtype in Dtype if dtype.wide is not dtype}
NORMS = {norm.__name__ for norm in (AffineLayerNorm, GroupNorm, LayerNorm, RmsNorm)}


def check_programs(target: str, programs: Sequence[Program], **options: Any) -> None:
    """Raise AssertionError unless the target computes each program as the reference does.

    They are the functions of one emitted library, because building a library is slow.
    """
    backend = get_backend(target).configured(**options)
    programs = [p for p in programs if not _is_beyond(backend, p)]
    if not programs:
        return
    expand = Expand(backend.has)
    functions = [lower(expand(p.term), f"f{k}", doc="A program.") for k, p in enumerate(programs)]
    artifact = backend.emit(Emitted("case", tuple(functions)))
    compiled = artifact.load()()
    for k, program in enumerate(programs):
        if message := difference(backend, program, getattr(compiled, f"f{k}"), artifact.program[f"f{k}"]):
            raise AssertionError(f"{target}: {message} in{program!r}")


def _is_beyond(backend: Backend, program: Program) -> bool:
    """Tell whether a program needs a feature among the known gaps of the target."""
    macros = {op.macro for op in operations(lower(program.term))}
    if "norms" in backend.known_gaps and not NORMS.isdisjoint(macros):
        return True
    gaps = set(backend.known_gaps)
    lacks = (HALVES if NO_16_BITS in gaps else set()) | {Dtype.float64.name} & gaps
    if not lacks.isdisjoint(dtypes(lower(program.term))):
        return True
    if "symbolic sizes" in gaps and symbols(tuple(program.term.source.table)):
        return True
    if "infinite weights" in gaps and any(macro.endswith(Conv.__name__) for macro in macros):
        gaps.add("infinite")
    if "attention" in gaps and any(macro.endswith(Attention.__name__) for macro in macros):
        gaps.add("nan")
    beyond = [holds for name, holds in BEYOND.items() if name in gaps]
    seen = outcome(lambda: values(pruned(program.term), *program.inputs)) if beyond else []
    return not isinstance(seen, Exception) and any(holds(array) for holds in beyond for array in seen)


def difference(
    backend: Backend, program: Program, call: Callable[..., Sequence[Array]], emitted: Function
) -> str | None:
    """Describe the difference between a call on a target and the reference; None if there is none.

    The function that is `emitted` names sizes as the target does, and demands least values of some.
    """
    term, given = pruned(program.term), program.inputs
    sizes = bind_symbols(emitted.argument_types, [a.shape for a in given])
    unmet = [
        size
        for size, least in emitted.requirements
        if size.substitute(sizes) < least  # type: ignore[operator]
    ]
    wanted = outcome(lambda: evaluate(term, *given))
    # No library but NumPy takes its bfloat16, and every target takes float32 for it.
    taken = [widened(a) if a.dtype.name == "bfloat16" else a for a in given]
    found = outcome(lambda: [as_numpy(r) for r in call(*taken)])
    fails = isinstance(found, Exception)
    if unmet:
        return None if fails else f"{unmet[0]} may be {sizes}"
    if isinstance(wanted, ShapeError):
        return None  # the operation that requires the size was simplified away
    if isinstance(wanted, IndexError):
        if fails or "errors" in backend.known_gaps or not needs_what_fails(term, *given):
            return None  # as long as its outcome is not needed, code that fails may be left out
        return f"{found!r} for {wanted!r}"
    if isinstance(wanted, Exception) or fails:
        return f"{found!r} where the reference gives {wanted!r}"
    return _first_difference(backend, program, found, wanted)


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the error that it raises."""
    try:
        return call()
    except Exception as error:
        return error


def _first_difference(
    backend: Backend, program: Program, found: Sequence[Array], wanted: Sequence[Array]
) -> str | None:
    spreads = spread(pruned(program.term), *program.inputs)
    types = program.term.target.table
    for k, (type, x, y, error) in enumerate(zip(types, found, wanted, spreads, strict=True)):
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"result {k} is {x.dtype}{list(x.shape)} and not {y.dtype}{list(y.shape)}"
        tolerance = backend.tolerance.get(type.dtype.value, 0.0)
        if not (same := _same(widened(x), widened(y), error, tolerance)).all():
            return f"result {k} is {x[~same][:4]} and not {y[~same][:4]}"
    return None


def _same(x: Array, y: Array, error: Array, tolerance: float) -> Array:
    if x.dtype.kind != "f":
        return np.asarray((x == y) | np.isinf(error))
    x, y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(x - y) <= tolerance * (1 + np.abs(y)) + 8 * error
        return np.asarray(near | (x == y) | (np.isnan(x) & np.isnan(y)) | np.isinf(error))


def pruned(term: Term) -> Term:
    """Remove dead code, also in loops and branches: targets do not run it."""
    return eliminate_dead_code(map_operations(term, lambda op: map_blocks(op, pruned)))
