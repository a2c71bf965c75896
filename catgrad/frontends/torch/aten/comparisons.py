"""Comparisons, logical operations, and selection."""

from __future__ import annotations

from math import inf

from catgrad import ops
from catgrad.frontends.torch.aten.operands import Operand, at, common_shape, of_two, promoted, together
from catgrad.frontends.torch.registry import aten
from catgrad.terms.var import Var
from catgrad.types import Dtype

for _name, _operation in {
    "eq": ops.equal,
    "ne": ops.not_equal,
    "lt": ops.less,
    "le": ops.less_equal,
    "gt": ops.greater,
    "ge": ops.greater_equal,
}.items():
    of_two(f"{_name}.Tensor", f"{_name}.Scalar")(_operation)


def truth(x: Var) -> Var:
    """Cast to bool: x ≠ 0."""
    return ops.cast(x, Dtype.bool)


aten("logical_not.default")(lambda x: ~truth(x))
aten("bitwise_not.default")(lambda x: ~x)


def _truths(x: Operand, y: Operand) -> tuple[Var, Var]:
    x, y = together(x, y)
    return truth(x), truth(y)


for _name, _connective, _bits in (
    ("and", ops.logical_and, ops.bitwise_and),
    ("or", ops.logical_or, ops.bitwise_or),
    ("xor", ops.not_equal, ops.bitwise_xor),
):
    of_two(f"logical_{_name}.default", convert=_truths)(_connective)
    of_two(*(f"bitwise_{_name}.{kind}" for kind in ("Tensor", "Scalar", "Scalar_Tensor")))(_bits)


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(condition: Var, x: Operand, y: Operand) -> Var:
    """Select x where the condition holds, y elsewhere."""
    dtype = promoted(x, y)
    shape = common_shape(*(v.shape for v in (condition, x, y) if isinstance(v, Var)))
    return ops.select(ops.broadcast_to(truth(condition), shape), at(x, shape, dtype), at(y, shape, dtype))


aten("isnan.default")(ops.is_nan)
aten("isinf.default")(lambda x: ops.absolute(x) == inf)
