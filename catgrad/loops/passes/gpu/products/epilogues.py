"""Epilogues: recognise nests that add to the elements of a matrix product, or rectify them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.loops.ir.index import ZERO, Index, Variable
from catgrad.loops.ir.nest import Indices, Kernel, Store, Substituted, perfect_nest
from catgrad.loops.ir.scalar import Compute, Load, Scalar, is_zero, operands_of
from catgrad.loops.passes.gpu.products.roles import MatrixProduct
from catgrad.ops.arithmetic import Add, Maximum


@dataclass(frozen=True)
class Tail:
    """A nest that stores target = relu(element + Σ terms), or without relu, for each element of a product.

    Indices are in the variables of the product.
    """

    target: Load
    terms: tuple[Load, ...]
    relu: bool


def tail(kernel: Kernel, found: MatrixProduct) -> Tail | None:
    """Recognise a nest that is such a tail, and overwrites no argument."""
    variables, body = perfect_nest(kernel.body, lambda loop: not loop.begins)
    store = body[0]
    if len(body) != 1 or not isinstance(store, Store) or store.buffer.alias is not None:
        return None
    relu, scalar = _rectified(store.scalar)
    terms = [*operands_of(Add, scalar)]
    loads = [term for term in terms if isinstance(term, Load) and term.dtype is store.buffer.type.dtype]
    own = [load for load in loads if load.buffer is found.reduce.buffer]
    values = _matched(own[0].indices, found.reduce.indices) if len(own) == 1 else None
    if len(loads) < len(terms) or values is None or values.keys() != set(variables):
        return None
    change = Substituted(values)
    others = tuple(change.load(load) for load in loads if load is not own[0])
    return Tail(change.load(Load(store.buffer, store.indices)), others, relu)


def _rectified(scalar: Scalar) -> tuple[bool, Scalar]:
    """Return the operand of relu(x) = max(x, 0), or else the scalar itself."""
    if isinstance(scalar, Compute) and isinstance(scalar.op, Maximum):
        rest = [x for x in scalar.operands if not is_zero(x)]
        if len(rest) == 1:
            return True, rest[0]
    return False, scalar


def _matched(here: Indices, there: Sequence[Index]) -> dict[Variable, Index] | None:
    """Match the indices of the element that a nest reads with those that the product writes, axis by axis."""
    values: dict[Variable, Index] = {}
    for mine, other in zip(here, there, strict=True):
        if mine == other == ZERO:
            continue
        if mine.variable is None or other.variable is None or mine.variable in values:
            return None
        if mine.variable.extent != other.variable.extent:
            return None
        values[mine.variable] = other
    return values
