"""Static Python on NumPy: one module that needs nothing else."""

from __future__ import annotations

from catgrad.backend import Backend
from catgrad.ops.contract import Contract
from catgrad.ops.convolution import Convolution
from catgrad.ops.cumulative import CumSum
from catgrad.ops.gather import ScatterAdd
from catgrad.ops.reduce import Sum
from catgrad.ops.sort import ArgSort
from catgrad.ops.take import ScatterAddAlongAxis
from catgrad.ops.window import Fold
from catgrad.programs.passes.share import share
from catgrad.terms.op import Op
from catgrad.tools import Package
from catgrad.types import Dtype

from .. import templates
from ..python import load_module, passes, template_context
from .convolutions import CONVOLUTIONS, lowered_convolutions
from .masks import masks
from .parts import parts_as_slices

SUMS = (Sum, CumSum, Contract, Convolution, ScatterAdd, ScatterAddAlongAxis, Fold, ArgSort)
"""Operations for which NumPy rounds after every term, and sorting, which fails for a bfloat16 NaN."""

OWN = (lowered_convolutions, masks, parts_as_slices, share)
"""The passes of the target that no other has; the windows of an image, and permuted operands, are shared."""


def takes_numbers(op: Op, dtype: Dtype) -> bool:
    """Return whether a Python number adopts the dtype of an array; NumPy does not do so for bfloat16."""
    return dtype is not Dtype.bfloat16


BACKEND = Backend(
    name="numpy",
    summary="one Python module, which needs NumPy 1.26 or newer and nothing else",
    folders=(templates("numpy"), templates("python")),
    files={"{name}.py": "module.py.j2", "README.md": "README.md.j2"},
    load=load_module,
    needs=(Package(name="ml_dtypes", module="ml_dtypes", install="pip install ml_dtypes", use="bfloat16"),),
    passes=passes(takes_numbers, SUMS, own=OWN, one_product=True),
    lowers_to_loops=CONVOLUTIONS,
    template_context=template_context,
)
