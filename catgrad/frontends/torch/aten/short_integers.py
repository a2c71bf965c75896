"""Integers of 8 and 16 bits: a term computes on them in 32 bits, and wraps results to their range.

It stores and moves those of 8 bits as they are.
"""

from __future__ import annotations

from typing import Any

from catgrad import ops
from catgrad.frontends.torch.registry import require
from catgrad.frontends.torch.types import Node, Tensor
from catgrad.terms.var import Var
from catgrad.types import Dtype

LEAST = {"uint8": 0, "int8": -(2**7), "int16": -(2**15)}
"""The least numbers of short dtypes, by their names in PyTorch."""


MOVING = (
    "_assert_tensor_metadata", "_to_copy", "cat", "clone", "contiguous", "detach", "flip", "gather", "index",
    "index_select", "repeat", "roll", "stack", "to", "where",
)  # fmt: skip
"""Operations that store, move or cast elements; so do views."""


def stored_dtype(name: str) -> Dtype:
    """Return the dtype in which a term stores integers that have this short dtype in PyTorch."""
    return Dtype.__members__.get(name, Dtype.int32)


def is_widened(tensor: Tensor) -> bool:
    """Return whether a term stores a tensor in more bits than PyTorch."""
    return _name(tensor) not in Dtype.__members__ and is_short(tensor)


def operand(node: Node, value: Any) -> Any:
    """Widen an operand of 8 bits to 32, unless its operation moves it."""
    if not isinstance(value, Var) or value.dtype.is_numeric or value.dtype is Dtype.bool:
        return value
    name = str(node.target).split(".")[1]
    return value if name in MOVING or _is_view(node) else ops.cast(value, Dtype.int32)


def is_short(tensor: object) -> bool:
    """Return whether a tensor of PyTorch, real or fake, has short integers."""
    return _name(tensor) in LEAST


def wrapped(node: Node, result: Any) -> Any:
    """Wrap the results of an operation to their ranges in PyTorch, where they are short integers.

    Sums and products in 32 bits have the same last bits. Views have the elements of their arguments.
    """
    values = node.meta.get("val")
    if isinstance(result, (tuple, list)) and isinstance(values, (tuple, list)):
        return [*map(_wrapped, values, result)]
    return result if _name(values) == "int16" and _is_view(node) else _wrapped(values, result)


def _wrapped(value: object, result: Any) -> Any:
    if not isinstance(result, Var) or not is_short(value):
        return result
    dtype, low = stored_dtype(_name(value)), LEAST[_name(value)]
    if dtype is not Dtype.int32:
        return ops.cast(result, dtype)
    return ((result - low) & (2**16 - 1)) + low


def check_operands(node: Node) -> None:
    """Refuse numbers that do not fit the short integers beside them, and arrays that stand for one number.

    PyTorch wraps these before it compares or divides.
    """
    import torch

    values = [n.meta.get("val") for n in node.all_input_nodes]
    arrays = [value for value in values if is_short(value)]
    is_whole = is_short(node.meta.get("val")) or _name(node.meta.get("val")) == "bool"
    if not arrays or not is_whole or torch.Tag.pointwise not in getattr(node.target, "tags", ()):
        return
    name, bits = _name(arrays[0]), 8 * arrays[0].dtype.itemsize
    must = f"the operands beside an array of {name} must fit this dtype"
    for operand in node.args:
        fits = type(operand) is not int or 0 <= operand - LEAST[name] < 2**bits
        require(fits, must, f"one is {operand}", "cast the array with .int()")
    for value in values:
        is_number = value is not None and not is_short(value) and not getattr(value, "shape", None)
        is_narrowed = is_number and any(array.ndim for array in arrays) and _name(value) in ("int32", "int64")
        require(not is_narrowed, must, f"one has the dtype {_name(value)}", "cast the array with .int()")


def _name(tensor: object) -> str:
    return str(getattr(tensor, "dtype", "")).removeprefix("torch.")


def _is_view(node: Node) -> bool:
    """Return whether the elements are those of the first argument: a cast may be a view in name only."""
    read = [_name(n.meta.get("val")) for n in node.all_input_nodes[:1]]
    is_alias = any(each.alias_info for each in node.target._schema.returns)
    return is_alias and read == [_name(node.meta["val"])]
