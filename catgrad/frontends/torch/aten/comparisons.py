"""Comparisons, logical operations, and selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.aten.operands import at, common_shape, promoted, together
from catgrad.frontends.torch.registry import aten
from catgrad.frontends.translation import spread
from catgrad.terms.var import Var
from catgrad.types import Dtype


def _comparison(name: str, operation: Callable[[Any, Any], Any]) -> None:
    aten(f"{name}.Tensor", f"{name}.Scalar")(lambda x, y: operation(*together(x, y)))


for _name, _operation in {
    "eq": ops.equal, "ne": ops.not_equal, "lt": ops.less, "le": ops.less_equal,
    "gt": ops.greater, "ge": ops.greater_equal,
}.items():  # fmt: skip
    _comparison(_name, _operation)


def truth(x: Any) -> Any:
    """Cast to bool: x ≠ 0."""
    return ops.cast(x, Dtype.bool)


@aten("logical_not.default")
def logical_not(x: Any) -> Any:
    """Logical not: x = 0."""
    return ~truth(x)


@aten("bitwise_not.default")
def bitwise_not(x: Any) -> Any:
    """Negation of x, or of its bits."""
    return ~x


def _connective(name: str, operation: Callable[[Any, Any], Any], bits: Callable[[Any, Any], Any]) -> None:
    aten(f"logical_{name}.default")(lambda x, y: operation(*map(truth, together(x, y))))
    aten(f"bitwise_{name}.Tensor", f"bitwise_{name}.Scalar", f"bitwise_{name}.Scalar_Tensor")(
        lambda x, y: bits(*together(x, y))
    )


_connective("and", ops.logical_and, ops.bitwise_and)
_connective("or", ops.logical_or, ops.bitwise_or)
_connective("xor", ops.not_equal, ops.bitwise_xor)


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(condition: Any, x: Any, y: Any) -> Any:
    """Select x where the condition holds, y elsewhere."""
    dtype = promoted(x, y)
    shape = common_shape(*(v.shape for v in (condition, x, y) if isinstance(v, Var)))
    return ops.select(spread(truth(condition), shape), at(x, shape, dtype), at(y, shape, dtype))


aten("isnan.default")(lambda x: ops.is_nan(x))


@aten("isinf.default")
def is_infinite(x: Any) -> Any:
    """Test for infinities of either sign."""
    return ops.absolute(x) == float("inf")
