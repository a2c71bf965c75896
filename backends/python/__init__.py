"""The Python family: targets in Python on an array library with operators and broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catgrad.programs.passes import Pass
from catgrad.terms.op import Op
from catgrad.types import Dtype

from .broadcasting import BroadcastByOperators
from .lists import template_context
from .matmul import MatmulForms
from .modules import load_module
from .sums import SumsInFloat32

__all__ = ["load_module", "passes", "template_context"]


def passes(
    takes_numbers: Callable[[Op, Dtype], bool],
    sums: tuple[type[Op], ...],
    scalars_keep_dtype: bool = False,
    own: Sequence[Pass] = (),
    one_product: bool = False,
    chooses_layouts: bool = False,
) -> tuple[Pass, ...]:
    """Return the passes for a library, given the operations that accept Python numbers as operands, and the
    `sums` that lose accuracy with 16-bit numbers.

    With `scalars_keep_dtype` a number does not widen a scalar operand. The library's `own` passes run
    before broadcasts are left to operators, while shapes agree with types. With `one_product` a batch of one
    operand is multiplied in one product. A library that `chooses_layouts` has no strided arrays.
    """
    return (
        SumsInFloat32(sums),
        MatmulForms(one_product, chooses_layouts),
        *own,
        BroadcastByOperators(takes_numbers, scalars_keep_dtype),
    )
