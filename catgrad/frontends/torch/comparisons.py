"""Comparisons, logical operations, and selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.operands import at, common_shape, promoted, spread, together
from catgrad.frontends.torch.registry import aten, require
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
    """Logical negation of x."""
    return ~_truth_only(x)


def _connective(name: str, operation: Callable[[Any, Any], Any]) -> None:
    aten(f"logical_{name}.default")(lambda x, y: operation(*map(truth, together(x, y))))
    aten(f"bitwise_{name}.Tensor", f"bitwise_{name}.Scalar")(
        lambda x, y: operation(*map(_truth_only, together(x, y)))
    )


_connective("and", ops.logical_and)
_connective("or", ops.logical_or)
_connective("xor", ops.not_equal)


def _truth_only(x: Any) -> Any:
    require(
        x.dtype is Dtype.bool,
        "bitwise operations must have boolean operands",
        f"an operand is {x.type}",
        "compare it with a number first",
    )
    return x


@aten("where.self")
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
