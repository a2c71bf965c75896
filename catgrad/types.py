"""Objects of the category: array types, which are a shape and a dtype."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from catgrad.dims import Dim, Size, product
from catgrad.errors import DtypeError, OptionError, ToolError, TypeMismatch

Array = NDArray[Any]
"""A NumPy array of any dtype."""


class Dtype(Enum):
    """The type of an array's elements; the value is its short name in comments and messages."""

    float32 = "f32"
    float64 = "f64"
    float16 = "f16"
    bfloat16 = "bf16"
    int32 = "i32"
    int64 = "i64"
    uint32 = "u32"
    int8 = "i8"
    uint8 = "u8"
    bool = "bool"

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype. Raises: ToolError for bfloat16 without ml_dtypes."""
        return np.dtype(_ml_dtypes().bfloat16 if self is Dtype.bfloat16 else self.name)

    @property
    def itemsize(self) -> int:
        """The size of an element in bytes."""
        return 1 if self is Dtype.bool else int(self.value.strip("bfiu")) // 8

    @property
    def is_floating(self) -> bool:  # type: ignore[valid-type]  # `bool` is a member here
        """Return whether its elements are approximations of real numbers."""
        return self in (Dtype.float32, Dtype.float64, Dtype.float16, Dtype.bfloat16)

    @property
    def is_integer(self) -> bool:  # type: ignore[valid-type]
        """Return whether its elements are whole numbers of a fixed number of bits."""
        return not self.is_floating and self is not Dtype.bool

    @property
    def is_numeric(self) -> bool:  # type: ignore[valid-type]
        """Return whether there is arithmetic on its elements; those of 8 bits are stored, moved and cast."""
        return self.itemsize > 1

    @property
    def wide(self) -> Dtype:
        """The dtype in which operations on its elements compute: float32 for 16 bits, else itself."""
        return Dtype.float32 if self in (Dtype.float16, Dtype.bfloat16) else self

    @cached_property
    def limits(self) -> Any:
        """The limits of the dtype, as `np.finfo` or `np.iinfo` describes them."""
        if self is Dtype.bfloat16:
            return _ml_dtypes().finfo(self.numpy)
        return np.finfo(self.name) if self.is_floating else np.iinfo(self.name)


class NdArrayType:
    """An array type: a shape of integers and symbolic dimensions, and a dtype.

    Equal types are one object, so comparing the wires of two large terms costs no more than
    comparing pointers. `A + B` has the axes of `A`, then those of `B`.

    Raises: OptionError if a dimension is not an integer ≥ 0 or a `Dim`; DtypeError, TypeMismatch from `+`.
    """

    __slots__ = ("__weakref__", "dtype", "shape")
    shape: tuple[Size, ...]
    dtype: Dtype
    _interned: ClassVar[WeakValueDictionary[tuple[tuple[Size, ...], Dtype], NdArrayType]] = (
        WeakValueDictionary()
    )

    def __new__(cls, shape: tuple[Size, ...], dtype: Dtype = Dtype.float32) -> NdArrayType:
        if not isinstance(shape, (tuple, list)):
            raise OptionError("a shape must be a tuple", f"it is {shape!r}", f"write NdArrayType(({shape},))")
        sizes = tuple(size if type(size) in (int, Dim) else _integer(size, shape) for size in shape)
        key = (sizes, dtype)
        found = cls._interned.get(key)
        if found is None:
            if not isinstance(dtype, Dtype):
                raise OptionError(
                    f"a dtype must be one of {', '.join(f'Dtype.{d.name}' for d in Dtype)}",
                    f"it is {dtype!r}",
                    "write for example Dtype.float32",
                )
            if any(isinstance(size, int) and size < 0 for size in sizes):
                raise _no_size(shape)
            found = object.__new__(cls)
            found.shape, found.dtype = sizes, dtype
            found = cls._interned.setdefault(key, found)
        return found

    def __reduce__(self) -> tuple[type[NdArrayType], tuple[tuple[Size, ...], Dtype]]:
        return NdArrayType, (self.shape, self.dtype)

    def __add__(self, other: NdArrayType) -> NdArrayType:
        if not isinstance(other, NdArrayType):
            raise TypeMismatch(
                "+ must join the axes of two array types",
                f"{self} is followed by {other!r}",
                "write for example batch + NdArrayType((4,))",
            )
        if self.dtype is not other.dtype:
            raise DtypeError(
                "types joined by + must have one dtype",
                f"they are {self} and {other}",
                "give both the same dtype",
            )
        return NdArrayType(self.shape + other.shape, self.dtype)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Size:
        """The number of elements."""
        return product(self.shape)

    @property
    def bytes(self) -> Size:
        """The number of bytes."""
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: tuple[Size, ...]) -> NdArrayType:
        """Return the type of the same dtype with another shape."""
        return NdArrayType(shape, self.dtype)

    def substitute(self, sizes: Mapping[str, Size]) -> NdArrayType:
        """Substitute `sizes[name]` for each symbolic dimension."""
        return NdArrayType(substitute(self.shape, sizes), self.dtype)

    def __repr__(self) -> str:
        return f"{self.dtype.value}[{','.join(str(size).replace(' ', '') for size in self.shape)}]"


def substitute(shape: tuple[Size, ...], sizes: Mapping[str, Size]) -> tuple[Size, ...]:
    """Substitute `sizes[name]` for each symbolic dimension of a shape."""
    return tuple(size.substitute(sizes) if isinstance(size, Dim) else size for size in shape)


def widened(array: Array) -> Array:
    """Widen an array to float32 if its elements have 16 bits."""
    dtype = array.dtype  # by its kind, as its name takes long to find; bfloat16 has one of its own
    has_16_bits = dtype.itemsize == 2 and dtype.kind not in "iu"
    return array.astype(np.float32) if has_16_bits else array


def as_numpy(array: Any) -> Array:
    """Convert an array of any library to NumPy; PyTorch itself does not for bfloat16, or from a GPU."""
    if hasattr(array, "cpu"):
        array = array.detach().cpu()
    if str(getattr(array, "dtype", "")) == "torch.bfloat16":
        return np.asarray(array.float()).astype(Dtype.bfloat16.numpy)
    return np.asarray(array)


def symbols(types: tuple[NdArrayType, ...]) -> list[str]:
    """Return the names of all symbolic dimensions, sorted."""
    sizes = (size for type in types for size in type.shape)
    return sorted({name for size in sizes if isinstance(size, Dim) for name in size.symbols})


def _ml_dtypes() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise ToolError(
            "the package ml_dtypes must be installed for bfloat16, which NumPy lacks",
            "it is not installed",
            "pip install ml_dtypes",
        ) from None
    return ml_dtypes


def _integer(size: object, shape: tuple[Size, ...]) -> int:
    """Convert an integer of NumPy to Python's. A float or bool may equal an integer, but is not a size."""
    if not isinstance(size, np.integer):
        raise _no_size(shape)
    return int(size)


def _no_size(shape: tuple[Size, ...]) -> OptionError:
    return OptionError(
        "a dimension must be an integer of at least 0 or a Dim",
        f"the shape is {shape!r}",
        "write for example NdArrayType((Dim('batch'), 4))",
    )
