"""Complex arrays, as pairs of real ones."""

from __future__ import annotations

from functools import partial
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.aten import (  # noqa: F401  # each registers functions of real arrays
    creation,
    cumulative,
    diagonals,
    indexing,
    rearranging,
    reductions,
    scattering,
    shapes,
)
from catgrad.frontends.torch.aten.contractions import linear, matmul
from catgrad.frontends.torch.aten.elementwise import add, multiply
from catgrad.frontends.torch.aten.operands import TorchDtype, together
from catgrad.frontends.torch.aten.pairs import Complex, Pair, bilinear, conjugate, in_parts
from catgrad.frontends.torch.aten.parts import select
from catgrad.frontends.torch.registry import aten, of_pairs, real
from catgrad.terms.var import Var

LINEAR: dict[str, str] = {
    "view.default _unsafe_view.default permute.default transpose.int t.default": "",
    "squeeze.default squeeze.dim squeeze.dims unsqueeze.default expand.default repeat.default": "",
    "flip.default roll.default rot90.default unfold.default narrow_copy.default": "",
    "slice.Tensor select.int split.Tensor split_with_sizes.default unbind.int": "",
    "repeat_interleave.self_int trace.default": "",
    "index.Tensor _unsafe_index.Tensor index_select.default gather.default embedding.default": "",
    "tril.default triu.default diagonal.default diag_embed.default": "",
    "clone.default alias.default detach.default neg.default zeros_like.default": "",
    "sum.default sum.dim_IntList mean.default mean.dim cumsum.default": "",
    "reflection_pad1d.default reflection_pad2d.default replication_pad1d.default": "",
    "add.Tensor add.Scalar sub.Tensor sub.Scalar rsub.Tensor rsub.Scalar": "x y",
    "cat.default stack.default": "tensors",
    "slice_scatter.default select_scatter.default diagonal_scatter.default": "x part",
    "scatter.src scatter_add.default index_add.default index_copy.default": "x source",
    "index_put.default _unsafe_index_put.default": "x values",
    "where.self where.ScalarSelf where.ScalarOther": "x y",
    "masked_fill.Scalar masked_fill.Tensor constant_pad_nd.default full_like.default": "x value",
    "full.default fill.Scalar scalar_tensor.default": "value",
    "copy.default": "other",
}
"""Overloads that are linear in the arrays together, with the names of arguments that are real elsewhere."""

for _names, _arrays in LINEAR.items():
    for _name in _names.split():
        of_pairs(_name)(in_parts(real(_name), _arrays.split()))


@aten("complex.default")
def pair(real: Var, imag: Var) -> Pair:
    """Complex array with these parts."""
    return Pair(*together(real, imag))


@aten("polar.default")
def polar(size: Var, angle: Var) -> Pair:
    """Complex array by its absolute value and its angle: r · (cos θ + i sin θ)."""
    size, angle = together(size, angle)
    return Pair(size * ops.cos(angle), size * ops.sin(angle))


@aten("view_as_complex.default")
def view_as_complex(x: Var) -> Pair:
    """Complex array whose parts are those along the last axis."""
    return Pair(select(x, -1, 0), select(x, -1, 1))


@of_pairs("view_as_real.default")
def view_as_real(x: Pair) -> Var:
    """Stack the parts along a new last axis."""
    return ops.stack([x.real, x.imag], x.type.rank)


of_pairs("_conj.default", "_conj_physical.default", "conj_physical.default")(conjugate)
aten("resolve_conj.default", "resolve_neg.default")(lambda x: x)
of_pairs("resolve_conj.default", "resolve_neg.default")(lambda x: x)

sum_of = in_parts(add, ["x", "y"])
scaled = partial(bilinear, multiply)


@of_pairs("ones_like.default")
def ones_like(x: Complex, dtype: TorchDtype | None = None) -> Any:
    """Return ones of the shape of x."""
    return in_parts(creation.full_like, ["x", "value"])(x, 1, dtype)


of_pairs("mul.Tensor", "mul.Scalar")(scaled)
of_pairs("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default")(
    partial(bilinear, matmul)
)
of_pairs("vdot.default")(lambda x, y: bilinear(matmul, conjugate(x), y))


@of_pairs("linear.default")
def linear_map(x: Complex, weight: Complex, bias: Complex | None = None) -> Any:
    """Linear map: x · Wᵀ + b."""
    product = bilinear(linear, x, weight)
    return product if bias is None else sum_of(product, bias)


@of_pairs("addmm.default", "baddbmm.default", "addmv.default")
def add_product(bias: Complex, x: Complex, y: Complex, beta: float = 1, alpha: float = 1) -> Any:
    """Product and sum: beta · b + alpha · x · y."""
    return sum_of(scaled(bilinear(matmul, x, y), alpha), scaled(bias, beta))
