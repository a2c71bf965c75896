"""Static Python on PyTorch: functions on tensors of any device, with the kernels it has for layers."""

from __future__ import annotations

from catgrad.artifact import Artifact
from catgrad.backend import Backend
from catgrad.ops.arithmetic import Add, Divide, Multiply, Subtract
from catgrad.ops.compare import Comparison, Select
from catgrad.ops.gather import ScatterAdd
from catgrad.ops.power import Power
from catgrad.ops.take import ScatterAddAlongAxis
from catgrad.ops.window import Fold
from catgrad.programs.passes import Pass
from catgrad.terms.op import Op
from catgrad.tools import Package
from catgrad.types import Dtype

from .. import templates
from ..python import load_module, passes, template_context
from ..python.division import QuotientByNumber, RemainderByNumber, division_by_numbers
from ..python.modules import Unforked
from .fused_kernels import affine_maps, scaled_sums
from .pullbacks import pullbacks
from .unsigned import uint32_in_int64

OPERATORS = (
    Add, Subtract, Multiply, Divide, Power, QuotientByNumber, RemainderByNumber, Comparison, Select,
)  # fmt: skip
"""Operations of PyTorch that accept a Python number as operand: operators and `where`, but few functions."""


SUMS = (ScatterAdd, ScatterAddAlongAxis, Fold)
"""Operations for which PyTorch rounds after every term."""


PYTORCH = Package(name="PyTorch", module="torch", install="pip install torch")


def load(artifact: Artifact) -> type:
    """Return the class `CompiledModel` of the artifact. Raises: ToolError without PyTorch."""
    PYTORCH.require(artifact.program.name)
    return load_module(artifact, base=Unforked)


def takes_numbers(op: Op, dtype: Dtype) -> bool:
    """Return whether PyTorch accepts a Python number as operand."""
    return isinstance(op, OPERATORS)


PASSES: tuple[Pass, ...] = (
    uint32_in_int64,
    division_by_numbers,
    *passes(takes_numbers, SUMS, scalars_keep_dtype=True, own=(affine_maps, pullbacks)),
    scaled_sums,
)
"""The passes of the target."""

KNOWN_GAPS = {
    "norms": "PyTorch's kernels compute x · a + b, which cancels where x is large beside its deviation, and"
    " variances in the dtype itself, where those of numbers beyond 1e19 overflow",
    "attention": "PyTorch's kernel returns 0 for a query all of whose scores are -∞, as if it were masked",
}

BACKEND = Backend(
    name="torch",
    summary="one Python module of functions on tensors, which needs PyTorch 2.6 or newer and nothing else",
    folders=(templates("torch"), templates("python")),
    files={"{name}.py": "module.py.j2", "README.md": "README.md.j2"},
    load=load,
    needs=(PYTORCH,),
    passes=PASSES,
    template_context=template_context,
    known_gaps=KNOWN_GAPS,
)
