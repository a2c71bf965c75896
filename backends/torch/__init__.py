"""Static Python on PyTorch: functions on tensors of any device, with the kernels it has for layers."""

from __future__ import annotations

from typing import Any

from catgrad.backend import Artifact, Backend
from catgrad.op import Op
from catgrad.ops.arithmetic import Add, Divide, Multiply, Power, Subtract
from catgrad.ops.compare import Comparison, Select
from catgrad.ops.gather import ScatterAdd
from catgrad.ops.take import ScatterAddAlongAxis
from catgrad.ops.window import Fold
from catgrad.tools import Package
from catgrad.types import Dtype

from .. import templates
from ..python import load_module, passes
from ..python.division import DivisionByNumbers, QuotientByNumber, RemainderByNumber
from . import pullbacks
from .fused_kernels import AffineMaps, ScaledSums

OPERATORS = (
    Add, Subtract, Multiply, Divide, Power, QuotientByNumber, RemainderByNumber, Comparison, Select,
)  # fmt: skip
"""What PyTorch lets a Python number be an operand of: operators and `where`, but few functions."""


SUMS = (ScatterAdd, ScatterAddAlongAxis, Fold)
"""What PyTorch rounds after every term."""


PYTORCH = Package(name="PyTorch", module="torch", install="pip install torch")


def load(artifact: Artifact) -> Any:
    """The class `CompiledModel` of the artifact. Raises: ToolError without PyTorch."""
    PYTORCH.require(artifact.program.name)
    return load_module(artifact)


def takes_numbers(op: Op, dtype: Dtype) -> bool:
    """Whether PyTorch lets a Python number stand for an operand."""
    return isinstance(op, OPERATORS)


PASSES = (
    DivisionByNumbers(),
    *passes(takes_numbers, SUMS, scalars_keep_dtype=True, own=(AffineMaps(), pullbacks)),
    ScaledSums(),
)
"""What suits a function to PyTorch."""

BACKEND = Backend(
    name="torch",
    summary="one Python module of functions on tensors, which needs PyTorch 2.6 or newer and nothing else",
    folders=(templates("torch"), templates("python")),
    files={"{name}.py": "module.py.j2"},
    load=load,
    needs=(PYTORCH,),
    passes=PASSES,
)
