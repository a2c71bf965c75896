"""Structural operations: copy, discard, constants and sizes, labels, barriers."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from catgrad.dims import Dim, Size, numbers
from catgrad.errors import DtypeError
from catgrad.naming import require_name_of_array
from catgrad.terms.op import NOTHING, Examples, Op, Types, same
from catgrad.types import Array, Dtype, NdArrayType

if TYPE_CHECKING:
    from catgrad.terms.var import Var


def is_differentiable(type: NdArrayType) -> bool:
    """Return whether a wire of this type has a cotangent; booleans and integers of 8 bits have none."""
    return bool(type.dtype.is_numeric)


class Copy(Op):
    """Two copies of one array: y, z = x.

    Type:     (T) -> (T, T)
    Gradient: dx = dy + dz
    """

    saves = NOTHING
    structural = True

    def type(self, x: NdArrayType) -> Types:
        return x, x

    def ref(self, x: Array) -> Any:
        return x, x

    def rev(self, dy: Var, dz: Var) -> Var:
        return dy + dz


class Discard(Op):
    """Discard an array that is not used.

    Type:     (T) -> ()
    Gradient: dx = 0
    """

    array_type: NdArrayType
    saves = NOTHING
    structural = True

    def type(self, x: NdArrayType) -> Types:
        same(self.array_type, x)
        return ()

    def ref(self, x: Array) -> Any:
        return ()

    @classmethod
    def examples(cls) -> Examples:
        type = NdArrayType((2, 3))
        return [(Discard(type), (type,))]


class Constant(Op):
    """An array filled with one number: y = c.

    Type:     () -> T
    Gradient: none, for there is no input
    """

    array_type: NdArrayType
    value: float = field(compare=False)
    # Floats are compared by their digits: NaN equals NaN, and -0.0 differs from 0.0.
    digits: str = field(default="", init=False, repr=False)
    saves = NOTHING

    def __post_init__(self) -> None:
        # A symbolic size is no number, which its conversion says.
        value = int(self.value) if isinstance(self.value, Dim) else self.value
        stored = _stored(value, self.array_type.dtype)
        if stored is None:
            raise DtypeError(
                f"a number must fit the dtype {self.array_type.dtype.name}",
                f"it is {self.value!r}",
                "use another number, or another dtype for the other operand",
            ).about("Constant")
        # One NaN object for all: a NaN hashes by identity, and equal constants need equal hashes.
        object.__setattr__(self, "value", math.nan if stored != stored else stored.item())
        object.__setattr__(self, "digits", _digits(stored, self.array_type.dtype))

    def type(self) -> Types:
        return self.array_type

    def ref(self) -> Any:
        return np.full(numbers(self.array_type.shape), self.value, self.array_type.dtype.numpy)

    def rev(self, dy: Var) -> Any:
        return ()

    @classmethod
    def examples(cls) -> Examples:
        return [(Constant(NdArrayType((2, 3)), 0.1), ()), (Constant(NdArrayType(()), -1e30), ())]


class NumberOf(Op):
    """A size as a number: y = n, read at run time where n is symbolic.

    Type:     () -> T[] for the dtype T
    Gradient: none, for there is no input
    """

    size: Size
    dtype: Dtype = Dtype.float32
    saves = NOTHING
    result = "count"

    def type(self) -> Types:
        return NdArrayType((), self.dtype)

    def ref(self) -> Any:
        return np.full((), numbers((self.size,))[0], self.dtype.numpy)

    def rev(self, dy: Var) -> Any:
        return ()

    @classmethod
    def examples(cls) -> Examples:
        return [(NumberOf(6), ())]


class Named(Op, register=False):
    """An operation with a dotted name."""

    name: str

    def __post_init__(self) -> None:
        require_name_of_array(self.name)


PART, RESULT = ".", ".."
"""Prefixes of names that the layer completes: of what reads a value, and of what it is computed from."""


class Label(Named):
    """The identity, with a name for messages, diagrams and emitted code: y = x.

    A name that begins with a dot is relative to the layer of what reads the value, and one with two dots to
    that of what the value is computed from: definitions name their parts so, and their results.

    Type:     (T) -> T
    Gradient: dx = dy, and is named d_<name>, but for results
    """

    saves = NOTHING
    structural = True

    def type(self, x: NdArrayType) -> Types:
        return x

    def ref(self, x: Array) -> Any:
        return x

    def __post_init__(self) -> None:
        require_name_of_array(self.name.removeprefix(RESULT).removeprefix(PART))

    def rev(self, dy: Var) -> Var:
        if self.name.startswith(RESULT):
            return dy
        return Label(f".d_{self.name[1:]}" if self.is_relative else f"d_{self.name}")(dy)

    @property
    def is_relative(self) -> bool:
        """Tell whether the name is completed by the layer of the value."""
        return self.name.startswith(PART)

    @classmethod
    def examples(cls) -> Examples:
        return [(Label("x"), (NdArrayType((2, 3)),))]


def part(name: str, x: Var) -> Var:
    """Name a part of a definition, within the layer that computes it."""
    return Label(PART + name)(x)


def result(name: str, x: Var) -> Var:
    """Name the result of a definition, within the layer of what it is computed from."""
    return Label(RESULT + name)(x)


class StopGradient(Op):
    """The identity, with gradient 0: y = x.

    Type:     (T) -> T
    Gradient: 0 by definition; as that of `FakeQuantise`, the reverse is not the derivative of `ref`
    """

    saves = NOTHING
    structural = True

    def type(self, x: NdArrayType) -> Types:
        return x

    def ref(self, x: Array) -> Any:
        return x

    def rev(self, dy: Var) -> Var:
        return zeros_like(dy)

    @classmethod
    def examples(cls) -> Examples:
        return []


stop_gradient = StopGradient()


class Barrier(Op):
    """The identity on several arrays, none of which is read before all are computed.

    Common subexpressions are not shared across it. A pass removes it before printing.

    Type:     (T…) -> (T…)
    Gradient: the identity
    """

    count: int
    saves = NOTHING
    structural = True

    def type(self, *types: NdArrayType) -> Types:
        return types

    def ref(self, *arrays: Array) -> Any:
        return arrays

    def rev(self, *cotangents: Var) -> Any:
        return cotangents

    @classmethod
    def examples(cls) -> Examples:
        return [(cls(2), (NdArrayType((2, 3)), NdArrayType((2,))))]


class Assume(Barrier):
    """The identity, which requires that each of these sizes is at least a number."""

    sizes: tuple[tuple[Size, int], ...] = ()

    def minimum_sizes(self, *types: NdArrayType, **_: Any) -> tuple[tuple[Size, int], ...]:
        """Return the requirements."""
        return self.sizes

    @classmethod
    def examples(cls) -> Examples:
        return [(cls(1, ((2, 1),)), (NdArrayType((2, 3)),))]


def zeros_like(x: Var) -> Var:
    """Return zeros of the type of x."""
    return Constant(x.type, 0)()


def _digits(stored: Any, dtype: Dtype) -> str:
    """Return the shortest digits that parse to the same number."""
    if dtype is Dtype.bfloat16 and stored == stored:
        # The text of an ml_dtypes scalar has more digits than necessary.
        tries = (f"{float(stored):.{count}g}" for count in range(1, 10))
        return repr(float(next(text for text in tries if dtype.numpy.type(float(text)) == stored)))
    return repr(float(str(stored))) if dtype.is_floating else str(stored)


def _stored(value: float, dtype: Dtype) -> Any:
    """Return the number as the dtype stores it; None if it overflows or must be an integer and is not."""
    if not isinstance(value, (int, float, np.number)):
        return None
    try:
        with np.errstate(over="ignore"):
            stored = dtype.numpy.type(value)
    except (OverflowError, ValueError):
        return None
    kept = np.isfinite(stored) == np.isfinite(float(value)) if dtype.is_floating else stored == value
    return stored if kept else None
