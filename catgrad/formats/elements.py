"""Elements of arrays in safetensors files: dtypes of NumPy and of ml_dtypes, and raw bytes for others."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from catgrad.errors import ArtifactError
from catgrad.types import Array

DTYPES = {
    "F32": "float32", "F64": "float64", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "BOOL": "bool",
}  # fmt: skip
"""The names of dtypes in the format, and in NumPy or ml_dtypes."""

FORMAT_NAMES = {name: format for format, name in DTYPES.items()}
"""The names in the format, by those in NumPy or ml_dtypes."""


def format_name(name: str, array: Array) -> str:
    """Return the format's name of an array's dtype. Raises: ArtifactError if it has none."""
    if array.dtype.name not in FORMAT_NAMES:
        raise ArtifactError(
            f"an array must have one of the dtypes {', '.join(FORMAT_NAMES)}",
            f"{name!r} is {array.dtype}",
            "convert it before",
        )
    return FORMAT_NAMES[array.dtype.name]


def to_bytes(array: Array) -> bytes:
    """Serialise the elements, row-major and little-endian."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def from_bytes(data: bytearray | Array, dtype: str, shape: list[int]) -> Array:
    """Deserialise an array. Raises: ValueError or OverflowError if NumPy has no such shape."""
    if dtype == "BOOL":
        # Any byte other than 0 is true, as in C; NumPy would distinguish a 2 from a 1.
        truths: Array = np.frombuffer(data, np.uint8) != 0
        return truths.reshape(shape)
    element = _numpy(DTYPES.get(dtype))
    if element is not None:
        return np.frombuffer(data, element.newbyteorder("<")).reshape(shape)
    bytes_each, rest = divmod(len(data), prod(shape) or 1)
    if rest:  # elements share bytes
        return np.frombuffer(data, "V1")
    return np.frombuffer(data, f"V{bytes_each or 1}").reshape(shape)


def _numpy(name: str | None) -> np.dtype[Any] | None:
    """Return a dtype by name, or None if neither NumPy nor an installed ml_dtypes has it."""
    if name is None:
        return None
    try:
        return np.dtype(name)
    except TypeError:  # not a dtype of NumPy
        pass
    try:
        import ml_dtypes
    except ImportError:
        return None
    return np.dtype(getattr(ml_dtypes, name))
