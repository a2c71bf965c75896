"""The safetensors format: named arrays behind a JSON header, and no code.

The package `safetensors` parses and checks files. This module also checks that names are unique, returns
arrays in the order of the header, and raises errors of catgrad. It writes files itself, because the package
sorts arrays by dtype and writes metadata in a random order; here equal arrays give equal bytes.

Source: the format's specification, github.com/huggingface/safetensors, README, "Format".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open

from catgrad.errors import ArtifactError, brief, translated
from catgrad.files import write_atomically
from catgrad.formats.elements import format_name, from_bytes, to_bytes
from catgrad.formats.json_objects import parse_object
from catgrad.paths import readable, writable
from catgrad.types import Array, as_numpy

MAX_HEADER_BYTES = 100_000_000
"""The maximum size of a header in bytes; readers refuse larger ones."""

METADATA = "__metadata__"
"""The key of the metadata in a header, which no array may have."""

INDEX = ".index.json"
"""The suffix of an index, which maps arrays to files."""


def write(path: str | Path, arrays: Mapping[str, object], metadata: Mapping[str, str] | None = None) -> None:
    """Write named arrays; an old file is replaced only when the new one is complete.

    Raises: ArtifactError if the format lacks the dtype or the name of an array, if metadata are not texts by
            name, or the file cannot be written
    """
    blocks = {name: as_numpy(array) for name, array in arrays.items()}
    header = _header(path, blocks, metadata or {})
    content = chain([len(header).to_bytes(8, "little"), header], map(to_bytes, blocks.values()))
    with writable("the file of weights", path):
        write_atomically(Path(path), content)


def read(path: str | Path) -> dict[str, Array]:
    """Read the named arrays of a file, or of all files that a `….index.json` lists.

    Elements of dtypes that neither NumPy nor an installed ml_dtypes has are returned as raw bytes, with
    the dtype numpy.void, which prevents accidental arithmetic.

    Raises: ArtifactError if the file cannot be read or violates the format, or if a file of an index has
            other arrays than the index lists
    """
    path = Path(path)
    return _read_shards(path) if path.name.endswith(INDEX) else _read_file(path)


def mapped(path: str | Path) -> dict[str, Array]:
    """Map the named arrays of a file into memory: pages are read when elements are.

    The file must not shrink meanwhile, or the process is killed. Only arrays of bool are read at once.

    Raises: ArtifactError if the file cannot be read or violates the format
    """
    with readable("the file of weights", path):
        content: Array = np.memmap(path, np.uint8, "r")
    with translated(lambda error: _malformed(path, error)):
        with safe_open(path, framework="np"):  # the package checks the header, and the length of the file
            begin = 8 + int.from_bytes(content[:8], "little")
        header = parse_object(bytes(content[8:begin]))
        return {
            name: from_bytes(content[begin:][slice(*e["data_offsets"])], e["dtype"], e["shape"])
            for name, e in header.items()
            if name != METADATA
        }


def read_metadata(path: str | Path) -> dict[str, str]:
    """Read the metadata of a file: texts by name.

    Raises: ArtifactError if the file cannot be read or violates the format.
    """
    try:
        # Open it first, for an error that gives the reason.
        with (
            readable("the file of weights", path),
            Path(path).open("rb"),
            safe_open(path, framework="np") as file,
        ):
            return file.metadata() or {}
    except SafetensorError as error:
        raise _malformed(path, error) from None


def _header(path: str | Path, blocks: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Return the header of consecutive arrays. Raises: ArtifactError if readers would refuse it."""
    _check_texts("the name of an array", blocks)
    _check_texts("metadata", chain.from_iterable(metadata.items()))
    if METADATA in blocks:
        raise ArtifactError(f"an array must not be called {METADATA}", "one is", "choose another name")
    header: dict[str, object] = {METADATA: dict(metadata)} if metadata else {}
    place = 0
    for name, block in blocks.items():
        offsets = [place, place + block.nbytes]
        header[name] = {"dtype": format_name(name, block), "shape": block.shape, "data_offsets": offsets}
        place += block.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise ArtifactError(
            f"names and metadata must have {MAX_HEADER_BYTES:,} bytes at most",
            f"those of {path} have {len(text):,}",
            "store long texts in a separate file",
        )
    return text


def _check_texts(what: str, texts: Iterable[Any]) -> None:
    """Raise ArtifactError unless all are texts that UTF-8 can encode."""
    for text in texts:
        try:
            str.encode(text)
        except (TypeError, UnicodeEncodeError):
            raise ArtifactError(f"{what} must be Unicode text", f"it is {text!r}", "convert it") from None


def _read_file(path: Path) -> dict[str, Array]:
    # Read, not mapped: if a mapped file shrinks, the process is killed.
    content = _content(path)
    with translated(lambda error: _malformed(path, error)):
        found = dict(deserialize(content))  # type: ignore[no-untyped-call]
        header = parse_object(content[8 : 8 + int.from_bytes(content[:8], "little")])
        entries = {name: found[name] for name in header if name in found}
        return {name: from_bytes(e["data"], e["dtype"], e["shape"]) for name, e in entries.items()}


def _read_shards(index: Path) -> dict[str, Array]:
    places = _places(index)
    arrays: dict[str, Array] = {}
    for shard in dict.fromkeys(places.values()):
        found = _read_file(index.parent / shard)
        expected = {name for name, place in places.items() if place == shard}
        if found.keys() != expected:
            raise ArtifactError(
                f"{shard} must hold the arrays that {index} lists",
                f"it differs in {', '.join(sorted(found.keys() ^ expected)[:5])}",
                "use files that were saved together",
            )
        arrays |= found
    return arrays


def _places(index: Path) -> dict[str, str]:
    """Read an index: the file of each array, in the folder of the index."""
    try:
        places = parse_object(_content(index))["weight_map"]
        if not all(PurePath(shard).name == shard for shard in places.values()):
            raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ArtifactError(
            f"{index} must have a table `weight_map` of the names of arrays and of files beside it",
            "it has none",
            "check that it is complete",
        ) from None
    return dict(places)


def _content(path: Path) -> bytes:
    with readable("the file of weights", path):
        return path.read_bytes()


def _malformed(path: str | Path, error: Exception) -> ArtifactError:
    # The error may quote the file, so it is shortened to a sentence.
    return ArtifactError(f"{path} must be a safetensors file", brief(error), "check that it is complete")
