"""Checks of arguments before an emitted function is called.

The errors are those of the targets in Python, word for word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from catgrad.dims import Size, numbers
from catgrad.programs.program import bind_symbols, symbol_sources
from catgrad.terms.check import Requirement
from catgrad.types import Array, Dtype, NdArrayType, substitute


@dataclass(frozen=True)
class Expected:
    """The arrays a function takes, by the names users know them by, and the symbols their shapes tell.

    The first ones of a call may be `bound`: a learner passes them, and errors do not count them.
    """

    function: str
    names: tuple[str, ...]
    types: tuple[NdArrayType, ...]
    requirements: tuple[Requirement, ...] = ()

    def sizes(self, arrays: Sequence[Any]) -> dict[str, int]:
        """The value of each symbol."""
        return bind_symbols(self.types, [array.shape for array in arrays])

    def checked(self, values: Sequence[ArrayLike], bound: int = 0) -> list[Array]:
        """The values as arrays in the right dtypes that lie as C has them.

        Raises: TypeError for another number of arrays, or for a dtype that does not fit; ValueError
        for a shape, or a size that is too small.
        """
        self.check_number(values, bound)
        arrays = [self.as_array(value, values, bound) for value in values]
        self.check_shapes(arrays, values)
        return [
            as_in_c(array, type, f"{self.function}: {name}")
            for array, name, type in zip(arrays, self.names, self.types, strict=True)
        ]

    def as_array(self, value: ArrayLike, values: Sequence[ArrayLike], bound: int = 0) -> Array:
        """Return one of the values of a call as an array. Raises: TypeError if it is none"""
        try:
            return np.asarray(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{self.function} must get arrays, but one is none: {error}; {self._told(values, bound)}"
            ) from None

    def check_number(self, values: Sequence[ArrayLike], bound: int = 0) -> None:
        """Check the number of arguments. Raises: TypeError"""
        if len(values) != len(self.types):
            wanted, found = len(self.types) - bound, len(values) - bound
            raise TypeError(
                f"{self.function} must get {wanted} arrays, but it got {found}; {self._told(values, bound)}"
            )

    def check_shapes(self, arrays: Sequence[Any], given: Sequence[ArrayLike]) -> None:
        """Check the shapes of arrays of any library, made of those given. Raises: as `checked`"""
        places = symbol_sources(self.types).items()
        sizes = {s: arrays[i].shape[axis] if axis < len(arrays[i].shape) else 0 for s, (i, axis) in places}
        for array, value, name, type in zip(arrays, given, self.names, self.types, strict=True):
            shape = substitute(type.shape, sizes)
            if array.shape != shape:
                advice = "put a star before the list of arrays" if _is_list(value) else "reshape it"
                raise ValueError(
                    f"{self.function}: {name} must have shape {shape}{_where(sizes)}, "
                    f"but it is {array.shape}; {_about_labels(array, shape, type.dtype) or advice}"
                )
        for size, least in self.requirements:
            (value,) = numbers((size.substitute(sizes),))
            if value < least:
                raise ValueError(
                    f"{self.function}: {size} must be at least {least}, but it is {value}{_where(sizes)}; "
                    "give larger arrays"
                )

    def _told(self, values: Sequence[ArrayLike], bound: int) -> str:
        """Say what to pass in place of these values."""
        star = ", with a star before a list of arrays" if any(map(_is_list, values)) else ""
        return f"pass {', '.join(self.names[bound:])}{star}"


def _is_list(value: Any) -> bool:
    """Tell whether an argument is a list of arrays, or a table of them."""
    items = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, (Mapping, list, tuple)) and any(hasattr(item, "shape") for item in items)


def _about_labels(array: Array, shape: tuple[Size, ...], dtype: Dtype) -> str:
    """Return the advice for labels; empty if it is about something else."""
    if array.shape[:-1] == shape and dtype.is_integer:
        return "take argmax(-1) of one-hot labels"
    if array.shape == shape[:-1] and "int" in str(array.dtype):
        return "make labels one-hot"
    return ""


def _where(sizes: Mapping[str, int]) -> str:
    return f" where {', '.join(f'{name} = {size}' for name, size in sizes.items())}" if sizes else ""


def as_in_c(array: Array, type: NdArrayType, what: str) -> Array:
    """The array in a type's dtype, row-major and aligned; itself if it is that already.

    Raises: TypeError if its values do not fit.
    """
    dtype = type.dtype.numpy
    return np.require(array if array.dtype == dtype else converted(array, dtype, what), None, ["C", "A"])


def converted(array: Array, dtype: np.dtype[Any], what: str) -> Array:
    """The array in another dtype. Floats may lose digits, but nothing else may change."""
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(f"{what} must be {dtype}, but it is {array.dtype}; use astype")
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    kept = np.isfinite(cast) == np.isfinite(array) if cast.dtype.kind in "fV" else cast == array
    if not np.all(kept):
        raise TypeError(f"{what} must fit {dtype}, but it has values outside; rescale it")
    return cast


def in_dtype(numbers: Array, dtype: Dtype) -> Array:
    """Convert numbers of float64 to a dtype: one may overflow a float32, and 2⁶³ an int64."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not dtype.is_integer:
            return numbers.astype(dtype.numpy)
        greatest = dtype.limits.max
        return np.where(numbers < greatest, numbers.astype(dtype.numpy), dtype.numpy.type(greatest))


def signature(values: Sequence[Array]) -> tuple[object, ...]:
    """A key of arrays that determines whether they fit; equal keys need only one check."""
    return tuple(
        [isinstance(v, np.ndarray) and (v.shape, v.dtype, v.strides, v.flags.aligned) for v in values]
    )
