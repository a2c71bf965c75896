"""Instruction selection: fused kernels of PyTorch (addmm, add, addcmul, lerp)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import UnionType

from catgrad.ops.arithmetic import Add, Multiply, Square, Subtract
from catgrad.ops.conv import Conv
from catgrad.ops.reduce import Broadcast
from catgrad.printing.dialect import Literal
from catgrad.programs.passes.prune import prune
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op
from catgrad.types import Dtype

from ..python.matmul import MatMul

ROUNDED_TWICE = (Dtype.float32, Dtype.float64)
"""Dtypes for which it does not matter whether a product is rounded before the addition."""


class Affine(Op, register=False):
    """x · W + b, for a matrix W and a vector b."""

    result = "affine"


class AffineConv(Op, register=False):
    """The convolution of x with W, plus a vector b of channels."""

    op: Conv
    result = "affine"


class AddScaled(Op, register=False):
    """x + c · y, for a number c."""

    digits: str
    elementwise = True
    result = "total"


class AddProduct(Op, register=False):
    """x + c · (y · z), for a number c."""

    digits: str = "1"
    elementwise = True
    result = "total"


class Lerp(Op, register=False):
    """x + c · (y - x), for a number c: (1 - c) · x + c · y."""

    digits: str
    elementwise = True
    result = "mean"


def affine_maps(function: Function) -> Function:
    """Fuse products and convolutions with the addition of a vector, where they have no other reader."""
    return prune(Rewriter(function).sweep(partial(_affine, function.uses())))


def scaled_sums(function: Function) -> Function:
    """Fuse sums and differences with products, as in optimisers, where the product has no other reader."""
    return prune(Rewriter(function).sweep(partial(_scaled, function.uses())))


def _affine(uses: Sequence[int], rewriter: Rewriter, apply: Apply) -> Values | None:
    if not isinstance(apply.op, Add):
        return None
    for product, shift in (apply.inputs, apply.inputs[::-1]):
        copies = rewriter.op(shift)
        if isinstance(copies, Broadcast) and _only_here(uses, rewriter, product, MatMul | Conv):
            (x, w), (b,) = rewriter.producer[product].inputs, rewriter.producer[shift].inputs
            op, axis = rewriter.op(product), [k for k in range(len(copies.shape)) if k not in copies.axes]
            if isinstance(op, Conv) and axis == [1]:
                return (rewriter.apply_as(rewriter.types[apply.outputs[0]], AffineConv(op), x, w, b),)
            if isinstance(op, MatMul) and rewriter.types[w].rank == 2 and axis == [len(copies.shape) - 1]:
                return (rewriter.apply_as(rewriter.types[apply.outputs[0]], Affine(), x, w, b),)
    return None


def _scaled(uses: Sequence[int], rewriter: Rewriter, apply: Apply) -> Values | None:
    op, inputs, outputs = apply
    type = rewriter.types[outputs[0]]
    if not isinstance(op, (Add, Subtract)) or not type.rank or type.dtype not in ROUNDED_TWICE:
        return None
    if isinstance(op, Add) and (mean := _mean(uses, rewriter, *inputs)) is not None:
        return (rewriter.apply_as(type, mean[0], *mean[1:]),)
    sign = "-" if isinstance(op, Subtract) else ""
    for x, product in (inputs, inputs[::-1]) if isinstance(op, Add) else (inputs,):
        if _only_here(uses, rewriter, product, Multiply) and not isinstance(rewriter.op(x), Literal):
            fused = _fused(uses, rewriter, product, sign)
            return fused and (rewriter.apply_as(type, fused[0], x, *fused[1:]),)
    return None


def _mean(uses: Sequence[int], rewriter: Rewriter, x: int, y: int) -> tuple[Op, int, int] | None:
    """Return the operation and operands of a weighted mean, or None if the sum is not one."""
    parts = []
    for term in (x, y):
        if not _only_here(uses, rewriter, term, Multiply):
            return None
        number, other = rewriter.producer[term].inputs
        literal = rewriter.op(number)
        if not isinstance(literal, Literal) or not literal.weak or rewriter.types[other].rank == 0:
            return None
        parts.append((literal, other))
    (first, a), (second, b) = parts
    if abs(first.constant.value + second.constant.value - 1) > 1e-7 or not 0 < second.constant.value < 1:
        return None
    return Lerp(second.digits), a, b


def _fused(
    uses: Sequence[int], rewriter: Rewriter, product: int, sign: str
) -> tuple[Op, *tuple[int, ...]] | None:
    """Return the operation that adds a product, with its operands after the first; not for factors ≤ 0."""
    y, z = rewriter.producer[product].inputs
    for number, other in ((y, z), (z, y)):
        literal = rewriter.op(number)
        if isinstance(literal, Literal):
            if not literal.weak or not literal.constant.value > 0:
                return None
            digits = f"{sign}{literal.digits}"
            if _only_here(uses, rewriter, other, Square):
                (root,) = rewriter.producer[other].inputs
                return AddProduct(digits), root, root
            return AddScaled(digits), other
    return AddProduct(f"{sign}1"), y, z


def _only_here(uses: Sequence[int], rewriter: Rewriter, value: int, kind: type[Op] | UnionType) -> bool:
    """Return whether a value is computed by such an operation and has neither name nor other reader."""
    once = value < len(uses) and uses[value] == 1 and value not in rewriter.names
    return once and isinstance(rewriter.op(value), kind)
