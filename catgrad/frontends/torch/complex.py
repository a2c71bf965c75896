"""Complex arrays, as pairs of real ones."""

from __future__ import annotations

from functools import partial, reduce
from math import pi
from typing import Any

from catgrad import ops
from catgrad.frontends.torch import (  # noqa: F401  # each registers functions of real arrays
    creation,
    diagonals,
    indexing,
    rearranging,
    reductions,
    scattering,
    shapes,
)
from catgrad.frontends.torch.contractions import matmul
from catgrad.frontends.torch.creation import to
from catgrad.frontends.torch.elementwise import divide, multiply
from catgrad.frontends.torch.operands import as_floating, together
from catgrad.frontends.torch.pairs import (
    Pair,
    bilinear,
    conjugate,
    imaginary_of,
    in_parts,
    is_complex,
    real_of,
)
from catgrad.frontends.torch.parts import select
from catgrad.frontends.torch.registry import REGISTRY, aten, of_pairs, require
from catgrad.frontends.torch.statistics import norm
from catgrad.frontends.torch.transcendental import angle, common_scale, hypotenuse
from catgrad.ops.trigonometric import is_negative
from catgrad.terms.structural import Constant, zeros_like

MAX_PRODUCTS = 8
"""The greatest exponent of a power by repeated products."""

LINEAR: dict[str, str] = {
    "view.default _unsafe_view.default permute.default transpose.int t.default": "",
    "squeeze.default squeeze.dim squeeze.dims unsqueeze.default expand.default repeat.default": "",
    "flip.default roll.default rot90.default unfold.default narrow_copy.default": "",
    "repeat_interleave.self_int": "",
    "slice.Tensor select.int split.Tensor split_with_sizes.default unbind.int": "",
    "index.Tensor _unsafe_index.Tensor index_select.default gather.default": "",
    "tril.default triu.default diagonal.default diag_embed.default trace.default": "",
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
        of_pairs(_name)(in_parts(REGISTRY[f"aten.{_name}"], _arrays.split()))


@aten("complex.default")
def pair(real: Any, imag: Any) -> Pair:
    """Complex array with these parts."""
    return Pair(*together(real, imag))


@aten("polar.default")
def polar(size: Any, angle: Any) -> Pair:
    """Complex array by its absolute value and its angle: r · (cos θ + i sin θ)."""
    size, angle = together(size, angle)
    return Pair(size * ops.cos(angle), size * ops.sin(angle))


@aten("view_as_complex.default")
def view_as_complex(x: Any) -> Pair:
    """Complex array whose parts are those along the last axis."""
    return Pair(select(x, -1, 0), select(x, -1, 1))


@of_pairs("view_as_real.default")
def view_as_real(x: Pair) -> Any:
    """Stack the parts along a new last axis."""
    return ops.stack([x.real, x.imag], x.type.rank)


of_pairs("_conj.default", "_conj_physical.default", "conj_physical.default")(conjugate)
aten("resolve_conj.default", "resolve_neg.default")(lambda x: x)
of_pairs("resolve_conj.default", "resolve_neg.default")(lambda x: x)


@of_pairs("_to_copy.default")
def cast(x: Any, dtype: Any = None) -> Any:
    """Cast to another complex dtype, or a complex array to a real dtype: its real part."""
    if dtype is None or is_complex(dtype):
        return in_parts(to, ["x"])(x, dtype)
    return to(x.real, dtype)


@of_pairs("ones_like.default")
def ones_like(x: Any, dtype: Any = None) -> Pair:
    """Return ones of the shape of x."""
    return in_parts(creation.full_like, ["x", "value"])(x, 1, dtype)  # type: ignore[no-any-return]


of_pairs("mul.Tensor", "mul.Scalar")(partial(bilinear, multiply))
of_pairs("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default")(partial(bilinear, matmul))
of_pairs("vdot.default")(lambda x, y: bilinear(matmul, conjugate(x), y))


@of_pairs("reciprocal.default")
def reciprocal(x: Any) -> Any:
    """Reciprocal: 1 / z = conj z / |z|², without overflow of the square."""
    scale = common_scale(x.real, x.imag)
    a, b = x.real / scale, x.imag / scale
    square = (a * a + b * b) * scale
    return Pair(a / square, -b / square)


@of_pairs("div.Tensor", "div.Scalar")
def quotient(x: Any, y: Any) -> Any:
    """Quotient: x / y."""
    if not isinstance(y, (Pair, complex)):
        return Pair(divide(x.real, y), divide(x.imag, y))
    return bilinear(multiply, x, 1 / y if isinstance(y, complex) else reciprocal(y))


def _is_zero(x: Pair) -> Any:
    return (x.real == 0) & (x.imag == 0)


@of_pairs("abs.default")
def absolute(x: Pair) -> Any:
    """Absolute value: √(x² + y²), with gradient 0 at 0."""
    is_zero = _is_zero(x)
    size = hypotenuse(ops.select(is_zero, Constant(x.type, 1)(), x.real), x.imag)
    return ops.select(is_zero, zeros_like(size), size)


@of_pairs("angle.default")
def angle_of(x: Pair) -> Any:
    """Angle of a complex number, with gradient 0 at 0."""
    is_zero, scale = _is_zero(x), common_scale(x.real, x.imag)
    one = Constant(x.type, 1)()
    beside = ops.select(is_negative(x.real), -one, one)  # for zeros too, the sign decides on 0 or π
    theta = angle(x.imag / scale, ops.select(is_zero, beside, x.real / scale))
    return ops.select(is_zero, ops.stop_gradient(theta), theta)


@aten("angle.default")
def angle_of_real(x: Any) -> Any:
    """Angle of a real number: π below 0, else 0, and NaN at NaN."""
    x = as_floating(x)
    turned = ops.select(x < 0, Constant(x.type, pi)(), zeros_like(x))
    return ops.stop_gradient(ops.select(x == x, turned, x))


@of_pairs("sgn.default")
def direction(x: Pair) -> Pair:
    """Direction: z / |z|, which is 0 at 0, with gradient 0."""
    is_zero = _is_zero(x)
    size = ops.select(is_zero, Constant(x.type, 1)(), absolute(x))
    return in_parts(lambda part: ops.select(is_zero, zeros_like(part), part / size))(x)  # type: ignore[no-any-return]


@of_pairs("exp.default")
def exponential(x: Pair) -> Pair:
    """Exponential: e^x (cos y + i sin y)."""
    return polar(ops.exp(x.real), x.imag)


@of_pairs("log.default")
def logarithm(x: Pair) -> Pair:
    """Principal logarithm: ln |z| + i arg z."""
    return Pair(ops.log(absolute(x)), angle_of(x))


@of_pairs("pow.Tensor_Scalar")
def power(x: Pair, exponent: Any) -> Any:
    """Power with a real exponent: repeated products, or by the angle."""
    require(not is_complex(exponent), "an exponent must be real", f"it is {exponent}", "use torch.exp")
    if exponent < 0:
        return power(reciprocal(x), -exponent)
    if exponent in range(1, MAX_PRODUCTS + 1):
        return reduce(partial(bilinear, multiply), [x] * int(exponent))
    return polar(ops.power(absolute(x), Constant(x.type, exponent)()), angle_of(x) * exponent)


of_pairs("sqrt.default")(lambda x: power(x, 0.5))


@of_pairs("linalg_vector_norm.default")
def norm_of_pair(x: Pair, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Norm of the absolute values."""
    return norm(absolute(x), ord, dim, keepdim, dtype)


@of_pairs("eq.Tensor", "eq.Scalar")
def equal(x: Any, y: Any) -> Any:
    """Return whether both parts are equal."""
    same = REGISTRY["aten.eq.Tensor"]
    return same(real_of(x), real_of(y)) & same(imaginary_of(x), imaginary_of(y))


of_pairs("ne.Tensor", "ne.Scalar")(lambda x, y: ~equal(x, y))
of_pairs("isfinite.default")(lambda x: ops.is_finite(x.real) & ops.is_finite(x.imag))
of_pairs("isnan.default")(lambda x: ops.is_nan(x.real) | ops.is_nan(x.imag))
