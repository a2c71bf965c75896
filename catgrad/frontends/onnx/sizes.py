"""Arithmetic of symbolic sizes: operators on constants some of whose elements are polynomials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.dims import Dim, Size, exact_quotient
from catgrad.errors import UnsupportedOp
from catgrad.frontends.onnx.operators.operands import numbers_in
from catgrad.frontends.onnx.types import Value
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype


def is_symbolic(value: Value | None) -> bool:
    """Return whether a constant has symbolic sizes."""
    return isinstance(value, np.ndarray) and value.dtype == object


def as_variable(value: Array) -> Var:
    """Return symbolic sizes as an array of int64."""
    numbers = [ops.number_of(n, Dtype.int64) for n in numbers_in(value)]
    return ops.reshape(ops.stack(numbers), *value.shape) if numbers else ops.array(value.astype(np.int64))


def _slice(x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Any = None) -> Array:
    chosen = range(len(starts)) if axes is None else map(int, axes)
    every = [1] * len(starts) if steps is None else steps
    index: list[Any] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(chosen, starts, ends, every, strict=True):
        index[axis] = slice(int(start), int(end), int(step))
    part: Array = x[tuple(index)]
    return part


def _equal(x: Array, y: Array) -> Array:
    """Compare sizes, of which a symbolic one equals no negative number."""

    def compare(a: Size, b: Size) -> bool:
        if isinstance(a, Dim) != isinstance(b, Dim) and not any(isinstance(n, int) and n < 0 for n in (a, b)):
            raise UnsupportedOp(
                "a comparison must not depend on a symbolic size", f"{a} is compared with {b}", "fix it"
            )
        return bool(a == b)

    result: Array = np.frompyfunc(compare, 2, 1)(x, y).astype(bool)
    return result


def _objects(value: Array | Size) -> Array:
    """Return elements as a constant: of int64, unless one is symbolic."""
    array = np.asarray(value, object)
    is_known = not any(isinstance(n, Dim) for n in array.reshape(-1))
    return array.astype(np.int64) if is_known else array


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Add": lambda x, y: x + y,
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "Div": lambda x, y: _objects(np.frompyfunc(exact_quotient, 2, 1)(x, y)),
    "Neg": lambda x: -x,
    "Identity": lambda x: x,
    "Equal": _equal,
    "Slice": _slice,
    "Squeeze": lambda x, axes=None: np.squeeze(x, None if axes is None else tuple(map(int, axes))),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(map(int, axes))),
    "Gather": lambda x, index, *, axis=0: np.take(x, index, axis),
    "Concat": lambda *arrays, axis: np.concatenate(arrays, axis),
    "Reshape": lambda x, shape, **_: np.reshape(x, [int(n) for n in shape]),
    "Where": lambda condition, x, y: np.where(condition, x, y),
    "Cast": lambda x, *, to, **_: x,
    "ReduceProd": lambda x, axes=None, *, keepdims=1, **_: np.prod(x, keepdims=bool(keepdims)),
}
"""Functions of constants by operator."""


def computed(operator: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> Array | None:
    """Apply an operator to constants, one of which is symbolic; None if that needs an array."""
    if operator not in FUNCTIONS or (operator == "Cast" and attributes.get("to") not in (6, 7)):
        return None
    return _objects(FUNCTIONS[operator](*inputs, **attributes)) if operator != "Equal" else _equal(*inputs)
