"""Integers of 8 and 16 bits: a term has them in 32 bits, and wraps results to their range."""

from __future__ import annotations

from typing import Any

from catgrad.frontends.torch.registry import require
from catgrad.terms.var import Var

LEAST = {"uint8": 0, "int8": -(2**7), "int16": -(2**15)}
"""The least numbers of short dtypes, by their names in PyTorch."""


def is_short(tensor: Any) -> bool:
    """Return whether a tensor of PyTorch, real or fake, has short integers."""
    return _name(tensor) in LEAST


def wrapped(node: Any, result: Any) -> Any:
    """Wrap the result of an operation to its range in PyTorch, where it has short integers.

    Sums and products in 32 bits have the same last bits. Views have the elements of their arguments.
    """
    value = node.meta.get("val")
    if not isinstance(result, Var) or not is_short(value) or _is_view(node):
        return result
    low, bits = LEAST[_name(value)], 8 * value.dtype.itemsize
    return ((result - low) & (2**bits - 1)) + low if low else result & (2**bits - 1)


def check_operands(node: Any) -> None:
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


def _name(tensor: Any) -> str:
    return str(getattr(tensor, "dtype", "")).removeprefix("torch.")


def _is_view(node: Any) -> bool:
    """Return whether the elements are those of the first argument: a cast may be a view in name only."""
    read = [_name(n.meta.get("val")) for n in node.all_input_nodes[:1]]
    is_alias = any(each.alias_info for each in node.target._schema.returns)
    return is_alias and read == [_name(node.meta["val"])]
