"""What all targets share that are Python over an array library with operators and broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catgrad.programs.passes import Pass
from catgrad.terms.op import Op
from catgrad.types import Dtype

from .broadcasting import BroadcastByOperators
from .matmul import MatmulForms
from .modules import load_module
from .sums import SumsInFloat32

__all__ = ["load_module", "passes"]


def passes(
    takes_numbers: Callable[[Op, Dtype], bool],
    sums: tuple[type[Op], ...],
    scalars_keep_dtype: bool = False,
    own: Sequence[Pass] = (),
) -> tuple[Pass, ...]:
    """The dialect's passes, for a library that takes Python numbers beside arrays of a dtype as operands
    of an operation, and that needs help with these `sums` of 16-bit numbers.

    With `scalars_keep_dtype` a number beside a scalar does not widen it. A library's `own` passes
    run while shapes are still what types say.
    """
    return SumsInFloat32(sums), MatmulForms(), *own, BroadcastByOperators(takes_numbers, scalars_keep_dtype)
