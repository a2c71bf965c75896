"""Shards: examples in several files, larger than memory, of which a part is read at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from catgrad.data.columns import Columns, columns
from catgrad.data.files import SEPARATORS, npy, npy_type, npz_types, read, read_npz, unreadable
from catgrad.errors import ArtifactError, DtypeError, OptionError, ShapeError, nearest, translated
from catgrad.formats import safetensors
from catgrad.learn.fit.examples import Examples, Rows
from catgrad.learn.options import check_integer
from catgrad.types import Array

Select = Sequence[str] | Callable[[Columns], Rows]
Types = Mapping[str, tuple[tuple[int, ...], str]]
"""The shape and the dtype of each column; that of text is "text"."""

MAPPED = ".safetensors"
SUFFIXES = (*SEPARATORS, ".npz", MAPPED)


class Shards(Examples):
    """Examples in files that have the same columns, for `fit` and `evaluate` in place of arrays.

        shards = Shards("train/*.npz", ("x", "y"))
        shards = Shards("train/*.csv", lambda rows: (rows.numbers("height"), rows.labels("kind", KINDS)))

    `files` are a path, a pattern, whose files are sorted by name, or a list of paths. Each is .csv, .tsv,
    .npz, .safetensors, or a folder of files .npy, which are columns named as they. `select` names the arrays
    of a batch, inputs before labels, or computes them from the columns of a part.

    Files .safetensors and .npy are mapped into memory, and a part is `rows` consecutive rows of them. Others
    are read as a whole, and are a part each; so one of them must fit in memory. In an epoch, parts are
    visited in an order drawn by the seed, and so are the rows of a part: neighbours come from the same part.

    Raises: ArtifactError if there are no files, or one cannot be read, or lacks a column; ShapeError or
            DtypeError if columns differ between files, or have no rows; OptionError for another suffix
    """

    def __init__(self, files: str | Path | Sequence[str | Path], select: Select, rows: int = 2**16) -> None:
        check_integer("the rows of a part", rows, 1)
        self.files = _found(files)
        names = None if callable(select) else (select,) if isinstance(select, str) else tuple(select)
        self.select: Select = select if names is None or callable(select) else names
        first: Types = {}
        self._parts: list[tuple[Path, int, int]] = []
        for file in self.files:
            types = _chosen(file, _types(file), names)
            first = first or types
            _check_alike(file, types, self.files[0], first)
            count = _count(file, types)
            each = rows if file.is_dir() or file.suffix == MAPPED else count
            self._parts += [(file, k, min(k + each, count)) for k in range(0, count, each)]
        self.sizes = tuple(stop - start for _, start, stop in self._parts)

    def read(self, part: int) -> Rows:
        """Return the arrays of a part. Raises: ArtifactError if the file has changed; others as `select`"""
        file, start, stop = self._parts[part]
        found = _arrays(file)
        if callable(self.select):
            try:
                with translated(lambda error: unreadable(file, error)):
                    rows = columns({name: array[start:stop] for name, array in found.items()})
                arrays = tuple(self.select(rows))
            except (ShapeError, DtypeError, OptionError) as error:
                raise error.about(where=f"rows {start + 1:,} to {stop:,} of {file}") from None
        else:
            chosen = _chosen(file, found, self.select)
            arrays = tuple(chosen[name][start:stop] for name in self.select)
        if any(len(array) != stop - start for array in arrays):
            raise ArtifactError(
                f"the arrays of {file} must have a row for each of its examples",
                f"there are {[len(array) for array in arrays]} for {stop - start}",
                "do not change the file during training, and select all rows of the columns",
            )
        return arrays

    def __repr__(self) -> str:
        return f"Shards({len(self.files):,} files, {len(self.sizes):,} parts, {sum(self.sizes):,} examples)"


def _found(files: str | Path | Sequence[str | Path]) -> list[Path]:
    if isinstance(files, (str, Path)):
        paths = [Path(files)] if Path(files).exists() else [Path(name) for name in sorted(glob(str(files)))]
    else:
        paths = [Path(file) for file in files]
    if not paths:
        raise ArtifactError("there must be files of examples", f"none is {files}", "check the path")
    for path in paths:
        if path.suffix not in SUFFIXES and not path.is_dir():
            raise OptionError(
                f"a shard must end in {', '.join(SUFFIXES)}, or be a folder of files .npy",
                f"it is {path}",
                f"{nearest(path.suffix, SUFFIXES)}convert it",
            )
    return paths


def _arrays(file: Path) -> Mapping[str, Array]:
    """Read the columns of a file, or map them into memory."""
    if file.is_dir():
        return {path.stem: _map(path) for path in sorted(file.glob("*.npy"))}
    if file.suffix == MAPPED:
        return safetensors.mapped(file)
    return read_npz(file) if file.suffix == ".npz" else read(file)


def _map(path: Path) -> Array:
    with translated(lambda error: unreadable(path, error)):
        with path.open("rb") as stream:
            npy_type(stream, path.stat().st_size)
        array: Array = npy.open_memmap(path, mode="r")
        return array


def _types(file: Path) -> Types:
    """Read the shapes and dtypes of the columns, without the elements where the format has a header."""
    if file.suffix == ".npz":
        return npz_types(file)
    found = _arrays(file).items()
    return {name: (a.shape, "text" if a.dtype.kind in "US" else a.dtype.name) for name, a in found}


def _chosen(file: Path, table: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    """Return the columns of these names, or all."""
    chosen = tuple(table) if names is None else names
    for name in chosen:
        if name not in table:
            raise ArtifactError(
                f"{file} must have the columns {', '.join(chosen)}",
                f"it has {', '.join(table) or 'none'}",
                f"{nearest(name, table)}name columns that all files have",
            )
    return {name: table[name] for name in chosen}


def _check_alike(file: Path, types: Types, first_file: Path, first: Types) -> None:
    """Raise ArtifactError, ShapeError or DtypeError unless columns are those of the first file."""
    do = "convert the files so that they are alike"
    if types.keys() != first.keys():
        raise ArtifactError(
            f"all files must have the columns of {first_file}, {', '.join(first)}",
            f"{file} has {', '.join(types)}",
            do,
        )
    for name, (shape, dtype) in types.items():
        expected, kind = first[name]
        if shape[1:] != expected[1:]:
            raise ShapeError(
                f"a row of {name!r} must have one shape in all files",
                f"it is {expected[1:]} in {first_file} and {shape[1:]} in {file}",
                do,
            )
        if dtype != kind:
            raise DtypeError(
                f"{name!r} must have one dtype in all files",
                f"it is {kind} in {first_file} and {dtype} in {file}",
                do,
            )


def _count(file: Path, types: Types) -> int:
    """Return the number of rows. Raises: ShapeError if there are none, or columns differ in it"""
    counts = {shape[0] if shape else 0 for shape, _ in types.values()}
    if len(counts) != 1 or not min(counts):
        raise ShapeError(
            f"the columns of {file} must have one length, of at least one row",
            f"their shapes are {[shape for shape, _ in types.values()]}",
            "leave the file out, or select columns with a row for each example",
        )
    return counts.pop()
