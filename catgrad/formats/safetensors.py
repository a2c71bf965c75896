"""The safetensors format: named arrays behind a JSON header, and no code.

The package `safetensors` parses files and checks them. What it leaves open is decided here: no name occurs
twice, arrays come in the order of the header, and errors are ours. Files are written here, for the package
sorts arrays by dtype and gives metadata in another order on each run; ours are the same bytes for the same
arrays.

Source: the format's specification, github.com/huggingface/safetensors, README, "Format".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from safetensors import SafetensorError, deserialize, safe_open

from catgrad.errors import ArtifactError
from catgrad.files import reason, write_whole
from catgrad.formats.elements import format_name, from_bytes, to_bytes
from catgrad.types import Array, as_numpy

LONGEST_HEADER = 100_000_000
"""In bytes; readers refuse more."""

METADATA = "__metadata__"
"""The name of the texts in a header, so that no array has it."""

INDEX = ".index.json"
"""The end of the name of a file that says which arrays are in which of several files."""


def write(path: str | Path, arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write named arrays; an older file is replaced only once the new one is whole.

    Raises: ArtifactError if the format lacks the dtype or the name of an array, if metadata are no texts by
            name, or the file cannot be written
    """
    blocks = {name: as_numpy(array) for name, array in arrays.items()}
    header = _header(path, blocks, metadata or {})
    content = chain([len(header).to_bytes(8, "little"), header], map(to_bytes, blocks.values()))
    try:
        write_whole(Path(path), content)
    except OSError as error:
        raise ArtifactError(
            "the file of weights must be writable", f"{path} is not: {reason(error)}", "choose another path"
        ) from None


def read(path: str | Path) -> dict[str, Array]:
    """Read the named arrays of a file, or of all files that a `….index.json` lists.

    Elements of dtypes that NumPy and ml_dtypes lack, or of those of ml_dtypes where it is not installed,
    come as raw bytes: of the dtype numpy.void, with which nothing computes by mistake.

    Raises: ArtifactError if the file cannot be read or is not what the format says, or if a file of an
            index has other arrays than the index says
    """
    path = Path(path)
    return _read_shards(path) if path.name.endswith(INDEX) else _read_file(path)


def read_metadata(path: str | Path) -> dict[str, str]:
    """Read the texts that go with the arrays of a file, by name.

    Raises: ArtifactError if the file cannot be read or is not what the format says.
    """
    try:
        # Opened first, for an error that says why it cannot be.
        with Path(path).open("rb"), safe_open(path, framework="np") as file:
            return file.metadata() or {}
    except SafetensorError as error:
        raise _malformed(path, error) from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _header(path: str | Path, blocks: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Describe arrays that lie one after the other. Raises: ArtifactError if no reader would take it."""
    _check_texts("the name of an array", blocks)
    _check_texts("metadata", chain.from_iterable(metadata.items()))
    if METADATA in blocks:
        raise ArtifactError(f"an array must not be called {METADATA}", "one is", "choose another name")
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    place = 0
    for name, block in blocks.items():
        offsets = [place, place + block.nbytes]
        header[name] = {"dtype": format_name(name, block), "shape": block.shape, "data_offsets": offsets}
        place += block.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LONGEST_HEADER:
        raise ArtifactError(
            f"names and metadata must have {LONGEST_HEADER:,} bytes at most",
            f"those of {path} have {len(text):,}",
            "keep long texts in a file of their own",
        )
    return text


def _check_texts(what: str, texts: Iterable[Any]) -> None:
    """Raises: ArtifactError unless all are texts that UTF-8 can express."""
    for text in texts:
        try:
            str.encode(text)
        except (TypeError, UnicodeEncodeError):
            raise ArtifactError(f"{what} must be Unicode text", f"it is {text!r}", "convert it") from None


def _read_file(path: Path) -> dict[str, Array]:
    # Read at once, not mapped: a file that shrinks while it is mapped ends the process.
    content = _content(path)
    try:
        found = dict(deserialize(content))  # type: ignore[no-untyped-call]
        header = _table(content[8 : 8 + int.from_bytes(content[:8], "little")])
        entries = {name: found[name] for name in header if name in found}
        return {name: from_bytes(e["data"], e["dtype"], e["shape"]) for name, e in entries.items()}
    except (SafetensorError, ValueError, OverflowError) as error:
        raise _malformed(path, error) from None


def _read_shards(index: Path) -> dict[str, Array]:
    places = _places(index)
    arrays: dict[str, Array] = {}
    for shard in dict.fromkeys(places.values()):
        found = _read_file(index.parent / shard)
        expected = {name for name, place in places.items() if place == shard}
        if found.keys() != expected:
            raise ArtifactError(
                f"{shard} must hold the arrays that {index} says",
                f"it differs in {', '.join(sorted(found.keys() ^ expected)[:5])}",
                "take all files from one place",
            )
        arrays |= found
    return arrays


def _places(index: Path) -> dict[str, str]:
    """Read the name of the file that each array is in, which lies beside the index."""
    try:
        places = _table(_content(index))["weight_map"]
        if not all(PurePath(shard).name == shard for shard in places.values()):
            raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ArtifactError(
            f"{index} must have a table `weight_map` of the names of arrays and of files beside it",
            "it has none",
            "check that it is whole",
        ) from None
    return dict(places)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _table(text: bytes) -> dict[str, Any]:
    """Parse a JSON table. Raises: ValueError if it is none, or a name occurs twice; RecursionError."""
    table = json.loads(text.decode(), object_pairs_hook=_without_repeats)
    if not isinstance(table, dict):
        raise ValueError("its JSON is no table")
    return table


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _unreadable(path: str | Path, error: OSError | ValueError) -> ArtifactError:
    return ArtifactError(
        "the file of weights must be readable", f"{path} is not: {reason(error)}", "check the path"
    )


def _malformed(path: str | Path, error: Exception) -> ArtifactError:
    # Of what the error repeats from the file, as much as fits in a sentence.
    found = " ".join(str(error).split())[:200]
    return ArtifactError(f"{path} must be a safetensors file", found, "check that it is whole")
