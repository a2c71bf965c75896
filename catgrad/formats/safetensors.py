"""The safetensors format: named arrays behind a JSON header, and no code.

A file is the length of the header as eight bytes, little-endian; the header, which gives each
array's dtype, shape and place; then the arrays, row-major, one after the other. What a file says is
checked before anything is read from where it points.

Source: the format's specification, github.com/huggingface/safetensors, README, "Format".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.errors import ArtifactError
from catgrad.files import write_whole
from catgrad.types import Array, Dtype, as_numpy

DTYPES = {
    "F32": Dtype.float32, "F64": Dtype.float64, "F16": Dtype.float16, "BF16": Dtype.bfloat16,
    "I32": Dtype.int32, "I64": Dtype.int64, "U32": Dtype.uint32, "BOOL": Dtype.bool,
}  # fmt: skip
"""The dtypes that are read and written, by their names in the format."""

LONGEST_HEADER = 100_000_000


def write(path: str | Path, arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write named arrays; an older file is replaced only once the new one is whole.

    Raises: ArtifactError if an array has a dtype the format lacks, or the file cannot be written.
    """
    path, place = Path(path), 0
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    blocks = {name: np.ascontiguousarray(as_numpy(array)) for name, array in arrays.items()}
    for name, block in blocks.items():
        header[name] = {
            "dtype": _format_name(name, block),
            "shape": np.shape(arrays[name]),
            "data_offsets": [place, place + block.nbytes],
        }
        place += block.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    little_endian = (b.astype(b.dtype.newbyteorder("<"), copy=False).tobytes() for b in blocks.values())
    try:
        write_whole(path, chain([len(text).to_bytes(8, "little"), text], little_endian))
    except OSError as error:
        raise ArtifactError(
            "the file of weights must be writable", f"{path} is not: {error.strerror}", "choose another path"
        ) from None


def read(path: str | Path) -> dict[str, Array]:
    """The named arrays of a file, in the order of their places.

    Raises: ArtifactError if the file cannot be read or is not what the format says.
    """
    content = _content(path)
    start, entries, _ = _header(path, content)
    data = memoryview(content)[start:]
    arrays, place = {}, 0
    for name, entry in sorted(entries.items(), key=lambda item: _offsets(path, *item)):
        dtype, shape, (begin, end) = _entry(path, name, entry)
        if begin != place or end > len(data) or end - begin != prod(shape) * dtype.itemsize:
            raise _malformed(
                path, f"{name!r} of {dtype} {shape} lies at {begin} … {end} of {len(data)} bytes"
            )
        arrays[name] = np.frombuffer(data[begin:end], dtype).reshape(shape).copy()
        place = end
    if place != len(data):
        raise _malformed(path, f"its arrays end at {place} of {len(data)} bytes")
    return arrays


def read_metadata(path: str | Path) -> dict[str, str]:
    """The texts that go with the arrays of a file, by name.

    Raises: ArtifactError if the file cannot be read or is not what the format says.
    """
    _, _, metadata = _header(path, _content(path))
    return metadata


def _content(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ArtifactError(
            "the file of weights must be readable", f"{path} is not: {error.strerror}", "check the path"
        ) from None


def _header(path: str | Path, content: bytes) -> tuple[int, dict[str, Any], dict[str, str]]:
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(LONGEST_HEADER, len(content) - 8):
        raise _malformed(path, f"its header would be {length} bytes long in a file of {len(content)}")
    try:
        header = json.loads(content[8 : 8 + length], object_pairs_hook=_without_repeats)
    except ValueError as error:
        raise _malformed(path, f"its header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise _malformed(path, "its header is no table")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise _malformed(path, "its metadata are no texts by name")
    return 8 + length, header, metadata


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _offsets(path: str | Path, name: str, entry: Any) -> tuple[int, int]:
    _, _, offsets = _entry(path, name, entry)
    return offsets


def _entry(path: str | Path, name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], tuple[int, int]]:
    try:
        format, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise _malformed(path, f"{name!r} has no dtype, shape and two offsets") from None
    if not all(type(n) is int and n >= 0 for n in (*shape, begin, end)):
        raise _malformed(path, f"{name!r} has sizes that are no sizes")
    if format not in DTYPES:
        raise ArtifactError(
            f"an array must have one of the dtypes {', '.join(DTYPES)}",
            f"{name!r} in {path} has {format!r}",
            "convert it before",
        )
    return DTYPES[format].numpy.newbyteorder("<"), shape, (begin, end)


def _format_name(name: str, array: Array) -> str:
    for format, dtype in DTYPES.items():
        if array.dtype.name == dtype.name:
            return format
    raise ArtifactError(
        f"an array must have one of the dtypes {', '.join(DTYPES)}",
        f"{name!r} is {array.dtype}",
        "convert it before",
    )


def _malformed(path: str | Path, found: str) -> ArtifactError:
    return ArtifactError(f"{path} must be a safetensors file", found, "check that it is whole")
