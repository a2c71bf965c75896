"""Files of data: CSV and npz as named columns."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.lib.format

from catgrad.data.columns import Columns, columns, texts
from catgrad.errors import ArtifactError, OptionError, ShapeError, brief, nearest, translated
from catgrad.paths import reason
from catgrad.types import Array

npy: Any = numpy.lib.format  # its functions have no types

SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*SEPARATORS, ".npz")

MOST_TIMES, MOST_BYTES = 100, 2**28
"""The most bytes that a file may unpack to: a multiple of its own, or as many as do no harm."""


def read(path: str | Path, names: Sequence[str] | None = None) -> Columns:
    """Read the columns of a file: .csv, .tsv or .npz.

    The first row of a text file has the names, unless they are given. A column whose cells are all numbers is
    numbers, and others are text. A file .npz of NumPy has an array for each column.

    Raises: ArtifactError if the file cannot be read; ShapeError if rows differ in length, or there are none;
            OptionError for another suffix, or names that are not distinct
    """
    file = Path(path)
    if file.suffix not in SUFFIXES:
        raise OptionError(
            f"a file of data must end in {', '.join(SUFFIXES)}",
            f"it is {file.name}",
            f"{nearest(file.suffix, SUFFIXES)}read it yourself, and give the arrays to columns(...)",
        )
    with translated(lambda error: unreadable(file, error)):
        if file.suffix == ".npz":
            return columns(read_npz(file))
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = [row for row in csv.reader(lines, delimiter=SEPARATORS[file.suffix], strict=True) if row]
        return _parsed(file, rows, names)


def read_npz(file: Path) -> dict[str, Array]:
    """Read the arrays of a file .npz by name. Raises: ArtifactError if it cannot be read, or is too large"""
    with translated(lambda error: unreadable(file, error)):
        npz_types(file)
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            return dict(arrays)


def npz_types(file: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Read the shape and the dtype of each array of a file .npz, from the headers alone.

    Raises: ArtifactError if it cannot be read, or would unpack to far more than it has
    """
    with translated(lambda error: unreadable(file, error)), zipfile.ZipFile(file) as archive:
        unpacked = sum(each.file_size for each in archive.infolist())
        most = max(MOST_TIMES * file.stat().st_size, MOST_BYTES)
        if unpacked > most:
            raise ArtifactError(
                f"{file} must unpack to {most:,} bytes at most, {MOST_TIMES} times its own",
                f"its arrays have {unpacked:,}",
                "if you trust it, read it with numpy.load, and give the arrays to columns(...)",
            )
        return {name.removesuffix(".npy"): _type_in(archive, name) for name in archive.namelist()}


def _type_in(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], str]:
    with archive.open(name) as stream:
        return npy_type(stream, archive.getinfo(name).file_size)


def npy_type(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], str]:
    """Read the type of an array from its header in a file of this size, which the elements must fill.

    NumPy divides by the size of an element when it maps a file, and a 0 ends the process.

    Raises: ValueError unless they do
    """
    major, _ = npy.read_magic(stream)
    shape, _, dtype = (npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0)(stream)
    rest = size - stream.tell()
    if dtype.hasobject or not dtype.itemsize or prod(shape) * dtype.itemsize != rest:
        raise ValueError(f"{rest} bytes follow the header of an array of {dtype} and shape {shape}")
    return shape, "text" if dtype.kind in "US" else dtype.name


def unreadable(file: Path, error: Exception) -> ArtifactError:
    """Return the error for a file that cannot be read."""
    found = reason(error) if isinstance(error, OSError) else brief(error)
    return ArtifactError(
        "a file of data must be readable", f"{file} is not: {found}", "check the path, and the file"
    )


def _parsed(file: Path, rows: list[list[str]], given: Sequence[str] | None) -> Columns:
    names, cells = (rows[0], rows[1:]) if rows and given is None else (list(given or ()), rows)
    names = [name.strip() for name in names]
    if len(set(names)) < len(names):
        raise OptionError(
            "columns must have distinct names", f"those of {file.name} are {names}", "give names=(...)"
        )
    for number, row in enumerate(cells, 1):
        if len(row) != len(names):
            raise ShapeError(
                f"each row of {file.name} must have {len(names)} cells: {', '.join(names)}",
                f"row {number} has {len(row)}",
                "correct the row",
            )
    stripped = [[cell.strip() for cell in row] for row in cells]
    return columns(
        {name: texts(name, values) for name, values in zip(names, zip(*stripped, strict=True), strict=False)}
    )
