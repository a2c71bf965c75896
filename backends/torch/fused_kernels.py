"""Several operations that PyTorch computes in one pass over memory."""

from __future__ import annotations

from catgrad.op import Op
from catgrad.ops.arithmetic import Add
from catgrad.ops.reduce import Broadcast
from catgrad.passes.rewrite import Rewriter, Values
from catgrad.program import Apply, Function

from ..python.matmul import MatMul

name = "fused-kernels"


class Affine(Op, register=False):
    """x · W + b, for a matrix W and a vector b."""

    result = "affine"


def apply(function: Function) -> Function:
    """With Affine for a product and a sum whose terms nobody else reads."""
    uses = function.uses()

    def fuse(rewriter: Rewriter, apply: Apply) -> Values | None:
        if not isinstance(apply.op, Add):
            return None
        for product, shift in (apply.inputs, apply.inputs[::-1]):
            single = product < len(uses) and uses[product] == 1 and product not in rewriter.names
            if single and _is_affine(rewriter, product, shift):
                x, w = rewriter.producer[product].inputs
                (b,) = rewriter.producer[shift].inputs
                return (rewriter.apply_as(rewriter.types[apply.outputs[0]], Affine(), x, w, b),)
        return None

    return Rewriter(function).sweep(fuse)


def _is_affine(rewriter: Rewriter, product: int, shift: int) -> bool:
    matmul, copies = rewriter.op(product), rewriter.op(shift)
    if not (isinstance(matmul, MatMul) and isinstance(copies, Broadcast)):
        return False
    matrix = rewriter.types[rewriter.producer[product].inputs[1]]
    leading = tuple(range(len(copies.shape) - 1))
    return matrix.rank == 2 and copies.axes == leading
