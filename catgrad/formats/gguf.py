"""GGUF, the format of ggml and llama.cpp: named tensors behind typed keys and values.

The package `gguf` parses files and dequantises blocks. A tensor has one to four axes, a name of 63 bytes at
most, and neither unsigned nor boolean elements, so `file_shape`, `file_name` and `FILE_DTYPES` say how other
arrays are stored. The emitted programs of the target ggml read and write the same files.

Source: the format's specification, github.com/ggml-org/ggml, docs/gguf.md
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from catgrad.errors import ArtifactError, brief, translated
from catgrad.files import write_atomically
from catgrad.formats.elements import DTYPES, FORMAT_NAMES, from_bytes, to_bytes
from catgrad.paths import readable, writable
from catgrad.tools import Package
from catgrad.types import Array, as_numpy

T = TypeVar("T")
Type = tuple[tuple[int, ...], np.dtype[Any]]
"""The shape and the dtype of an array."""

PACKAGE = Package(name="gguf", module="gguf", install="pip install gguf")

MAX_NAME_BYTES = 63
"""The maximum length of a tensor's name (GGML_MAX_NAME - 1)."""

MAX_AXES = 4
"""The maximum rank of a tensor (GGML_MAX_DIMS)."""

ARCHITECTURE = "general.architecture"
"""The key by which readers choose a model."""

FULL_NAME = "catgrad.name."
"""The prefix of the key with the whole name of a tensor whose name is shortened."""

TRANSPOSED = "catgrad.transposed."
"""The prefix of the key of a matrix that is stored transposed."""

FILE_DTYPES = {
    "uint32": np.dtype("int32"),
    "bool": np.dtype("float32"),
    "int8": np.dtype("float32"),
    "uint8": np.dtype("float32"),
}
"""Dtypes that are stored as others: with the same bits, and as numbers."""


def file_name(name: str) -> str:
    """Return the name of an array's tensor: a long name is cut, and gets 64 bits of its hash.

    Names of parameters have no `~`, so different arrays have different tensors.
    """
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    code = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name.encode()[: MAX_NAME_BYTES - 17].decode(errors='ignore')}~{code}"


def file_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of an array's tensor: axes before the last three are merged, leading 1s left out."""
    first = max(0, len(shape) - MAX_AXES + 1)
    axes = [prod(shape[:first]), *shape[first:]]
    while len(axes) > 1 and axes[0] == 1:
        axes.pop(0)
    return tuple(axes)


def write(
    path: str | Path, arrays: Mapping[str, ArrayLike], metadata: Mapping[str, Any] | None = None
) -> None:
    """Write named arrays; an old file is replaced only when the new one is complete.

    `metadata` are texts and floats by key; `general.architecture` is catgrad unless they have it.

    Raises: ArtifactError if GGUF lacks the dtype of an array, if one has no elements, if metadata are neither
            texts nor floats, or the file cannot be written; ToolError without the package gguf
    """
    PACKAGE.require("writing GGUF files")
    blocks = {name: _to_file(name, as_numpy(array)) for name, array in arrays.items()}
    pairs = {FULL_NAME + file_name(name): name for name in blocks if file_name(name) != name}
    pairs |= metadata or {}
    for key, value in pairs.items():
        if not isinstance(value, str | float):
            raise ArtifactError("metadata must be texts and floats", f"{key!r} is {value!r}", "convert it")
    with writable("the file of weights", path):
        with TemporaryDirectory() as folder:
            header = _header(Path(folder) / "header", blocks, pairs)
        write_atomically(Path(path), chain([header], map(_padded, map(to_bytes, blocks.values()))))


def read(path: str | Path, types: Mapping[str, Type] | None = None) -> dict[str, Array]:
    """Read the named arrays of a file; quantised ones become float32.

    An array that `types` names gets that type, if this one is stored so, or if it is float32 and the file has
    it in 16 bits.

    Raises: ArtifactError if the file cannot be read or violates the format; ToolError without the package
    """
    return _parsed(path, partial(_arrays, types=types or {}))


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Read the values of a file by key: texts, numbers, truth and lists of them.

    Raises: ArtifactError if the file cannot be read or violates the format; ToolError without the package
    """
    return _parsed(path, _metadata)


def _to_file(name: str, array: Array) -> Array:
    """Return an array as it is stored."""
    stored = array.astype(FILE_DTYPES.get(array.dtype.name, array.dtype), copy=False)
    if not array.size or FORMAT_NAMES.get(stored.dtype.name) not in _types():
        known = [DTYPES[t] for t in DTYPES if t in _types()] + [*FILE_DTYPES]
        raise ArtifactError(
            f"an array in a GGUF file must have elements of {', '.join(known)}",
            f"{name!r} is {array.dtype}{list(array.shape)}",
            "save it as safetensors",
        )
    return stored.reshape(file_shape(array.shape))


def _types() -> Mapping[str, Any]:
    """Return GGUF's types of elements, by their names in safetensors too."""
    from gguf import GGMLQuantizationType as Types

    return {t.name: t for t in Types if t.name in DTYPES}


def _header(path: Path, blocks: Mapping[str, Array], metadata: Mapping[str, Any]) -> bytes:
    """Return what comes before the data, by the package's writer, which wants a file for it."""
    from gguf import GGUFValueType, GGUFWriter

    writer = GGUFWriter(path, metadata.get(ARCHITECTURE, "catgrad"))
    for key, value in metadata.items():
        if key != ARCHITECTURE:
            writer.add_key_value(key, value, GGUFValueType.get_type(value))
    for name, block in blocks.items():
        kind = _types()[FORMAT_NAMES[block.dtype.name]]
        writer.add_tensor_info(file_name(name), block.shape, block.dtype, block.nbytes, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    return _padded(path.read_bytes())


def _padded(block: bytes) -> bytes:
    from gguf import GGUF_DEFAULT_ALIGNMENT

    return block + bytes(-len(block) % GGUF_DEFAULT_ALIGNMENT)


def _arrays(reader: Any, types: Mapping[str, Type]) -> dict[str, Array]:
    from gguf import dequantize

    full, arrays = _metadata(reader), {}
    for tensor in reader.tensors:
        name, shape = tensor.name, [int(size) for size in reversed(tensor.shape)]
        if tensor.tensor_type.name in DTYPES:
            array = from_bytes(bytearray(tensor.data.tobytes()), tensor.tensor_type.name, shape)
        else:
            array = np.array(dequantize(tensor.data, tensor.tensor_type), np.float32)
        array = array.T if TRANSPOSED + name in full else array
        name = full.get(FULL_NAME + name, name)
        arrays[name] = _from_file(array, types[name]) if name in types else array
    return arrays


def _from_file(array: Array, type: Type) -> Array:
    """Return an array with the type that is stored as its own, or as it is."""
    shape, dtype = type
    widens = dtype == np.float32 and array.dtype.name in ("float16", "bfloat16")
    is_same = array.dtype == FILE_DTYPES.get(dtype.name, dtype) or widens
    is_same = is_same and file_shape(array.shape) == file_shape(shape)
    return array.astype(dtype).reshape(shape) if is_same else array


def _metadata(reader: Any) -> dict[str, Any]:
    return {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}


def _parsed(path: str | Path, view: Callable[[Any], T]) -> T:
    """Return what is read from the package's reader. Raises: ArtifactError, ToolError"""
    PACKAGE.require("reading GGUF files")
    from gguf import GGUFEndian, GGUFReader

    class Reader(GGUFReader):
        def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> Any:
            """Refuse what is beyond the end, where the package reads fewer elements than there must be."""
            if offset + int(count) * np.dtype(dtype).itemsize > len(self.data):
                raise ValueError("it ends too early")
            return super()._get(offset, dtype, count, override_order)

    with readable("the file of weights", path), Path(path).open("rb") as file:
        file.read(1)
    must, do = f"{path} must be a GGUF file", "check that it is complete"
    with translated(lambda error: ArtifactError(must, brief(error), do)):
        reader = Reader(path)
        if reader.endianess is not GGUFEndian.LITTLE:
            raise ValueError("it is big-endian")
        return view(reader)
