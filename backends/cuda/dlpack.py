"""DLPack, the exchange of arrays between libraries without copies: version 0, by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p, py_object
from typing import Any, NamedTuple

CPU, GPU = 1, 2
"""Kinds of devices, by DLPack's numbers."""

CODES = {"float": 2, "int": 0, "uint": 1, "bfloat": 4, "bool": 6}
"""Kinds of elements, by DLPack's numbers."""

NAME = b"dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device", c_int32 * 2),
        ("axes", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("offset", c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


def _python(name: str, result: Any, *takes: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *takes)((name, ctypes.pythonapi))


_pointer = _python("PyCapsule_GetPointer", c_void_p, py_object, c_char_p)
_new = _python("PyCapsule_New", py_object, c_void_p, c_char_p, c_void_p)
# Of a capsule that is being deleted, no reference may be taken.
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, c_void_p, c_char_p)
_pointer_of_deleted = _python("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)

_exported: dict[int, object] = {}
"""Exported arrays by the addresses of their descriptions, until their users delete them."""


class Description(NamedTuple):
    """An array by its address, its shape and its elements; `is_dense` if it lies row by row without gaps."""

    address: int
    shape: tuple[int, ...]
    elements: tuple[int, int]
    is_dense: bool


def imported(capsule: object) -> Description:
    """Read a capsule, which keeps the array alive."""
    tensor = ctypes.cast(_pointer(capsule, NAME), ctypes.POINTER(_Managed)).contents.tensor
    shape = tuple(tensor.shape[axis] for axis in range(tensor.axes))
    strides = tuple(tensor.strides[: tensor.axes]) if tensor.strides else _strides(shape)
    pairs = zip(strides, _strides(shape), shape, strict=True)
    is_dense = 0 in shape or all(found == dense or n == 1 for found, dense, n in pairs)
    address = (tensor.data or 0) + tensor.offset
    return Description(address, shape, (tensor.code, tensor.bits), is_dense and tensor.lanes == 1)


def exported(owner: object, address: int, shape: Sequence[int], name: str, device: tuple[int, int]) -> Any:
    """Return a capsule of the array at an address, with the dtype of this name; it keeps the owner alive."""
    axes = len(shape)
    sizes, strides = (c_int64 * axes)(*shape), (c_int64 * axes)(*_strides(shape))
    code, bits = elements(name)
    tensor = _Tensor(address, device, axes, code, bits, 1, sizes, strides, 0)
    managed = _Managed(tensor, None, _DELETE)
    place = ctypes.addressof(managed)
    _exported[place] = managed, sizes, strides, owner
    return _new(place, NAME, _DELETE_UNUSED)


def elements(name: str) -> tuple[int, int]:
    """Return DLPack's code and the bits of the elements of a NumPy dtype, by its name."""
    kind = name.rstrip("0123456789")
    return CODES[kind], int(name.removeprefix(kind) or 8)


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def _delete(place: int) -> None:
    """Let go of an array, for a library that took it."""
    _exported.pop(place, None)


def _delete_unused(capsule: int) -> None:
    """Let go of the array of a capsule that no library has taken."""
    if _is_valid(capsule, NAME):
        _exported.pop(_pointer_of_deleted(capsule, NAME), None)


_callbacks = ctypes.CFUNCTYPE(None, c_void_p)(_delete), ctypes.PYFUNCTYPE(None, c_void_p)(_delete_unused)
_DELETE, _DELETE_UNUSED = (ctypes.cast(callback, c_void_p) for callback in _callbacks)
