"""Static Python on JAX: pure functions that `jax.jit` takes as they are, without `jax.grad`.

Compiled functions cannot raise, so an index out of range gives NaN, or the integer farthest from 0, where
other targets raise IndexError.
"""

from __future__ import annotations

from collections.abc import Iterator

from catgrad.artifact import Artifact
from catgrad.backend import Backend
from catgrad.ops.activations import Gelu, GeluTanh, Sigmoid, Silu
from catgrad.ops.cumulative import CumSum
from catgrad.ops.gather import ScatterAdd
from catgrad.ops.softmax import LogSoftmax, LogSumExp, Softmax
from catgrad.ops.take import ScatterAddAlongAxis
from catgrad.ops.transcendental import Expm1, Log1p, Rsqrt
from catgrad.ops.window import Fold
from catgrad.programs.program import Function, Nested, Program
from catgrad.tools import Package
from catgrad.types import Dtype, NdArrayType

from .. import templates
from ..python import load_module, passes
from ..python.division import division_by_numbers
from ..python.modules import Unforked
from .partition import Options, partitioned, template_context

SUMS = CumSum, ScatterAdd, ScatterAddAlongAxis, Fold
"""Operations for which JAX rounds after every term."""

SEVERAL = Sigmoid, Silu, Gelu, GeluTanh, Softmax, LogSoftmax, LogSumExp, Expm1, Log1p, Rsqrt
"""Operations that JAX composes of several, rounding after each."""


class JaxBackend(Backend):
    """The target for JAX, which truncates 64-bit numbers to 32 unless a module enables them."""

    def needs_64_bits(self, program: Program) -> bool:
        """Return whether a value of the program has 64 bits."""
        types = (type for function in program.functions for type in _types(function))
        return any(type.dtype in (Dtype.float64, Dtype.int64) for type in types)


def _types(function: Function) -> Iterator[NdArrayType]:
    """Yield the types of a function's values, including those in loops and branches."""
    yield from function.argument_types
    for op, _, outputs in function.body:
        yield from (function.types[value] for value in outputs)
        if isinstance(op, Nested):
            for inside in op.functions:
                yield from _types(inside)


JAX = Package(
    name="JAX",
    module="jax",
    install="pip install jax==0.7.1, the last beside NumPy 1.26, or run the emitted file on a newer one",
)


def load(artifact: Artifact) -> type:
    """Return the class `CompiledModel` of the artifact. Raises: ToolError without JAX."""
    JAX.require("the target jax")
    return load_module(artifact, base=Unforked)


BACKEND = JaxBackend(
    name="jax",
    summary="one Python module of pure functions for jax.jit, which needs JAX 0.7 or newer and nothing else",
    folders=(templates("jax"), templates("python")),
    files={"{name}.py": "module.py.j2", "README.md": "README.md.j2"},
    load=load,
    needs=(JAX,),
    options=Options(),
    required=lambda options: options.required,
    prepare=partitioned,
    template_context=template_context,
    known_gaps={"errors": "compiled functions cannot raise an error that depends on an array's elements"},
    passes=(
        division_by_numbers,
        *passes(lambda op, dtype: True, SUMS + SEVERAL, scalars_keep_dtype=True, chooses_layouts=True),
    ),
)
