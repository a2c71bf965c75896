"""Columns: named arrays with one row for each example, as numbers, labels or one-hot rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from catgrad.errors import DtypeError, OptionError, ShapeError, nearest
from catgrad.learn.options import check_integer
from catgrad.tables import Table, Tabular, spelled
from catgrad.types import Array

NUMBERS = "iufb"
"""The kinds of NumPy's dtypes whose columns are numbers; other columns are text."""

MOST_TIMES, MOST_BYTES = 64, 2**28
"""The most bytes of a column of texts: a multiple of its characters, or as many as do no harm."""

SHOWN_CLASSES = 4
"""Classes that the short table of a text column names."""


class Columns(Tabular, Mapping[str, Array]):
    """Named columns of equal length: numbers, or text. `columns` and `read` make them.

    Raises: ShapeError if there are no columns or no rows, or columns differ in length
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise ShapeError(
                "columns must have one length, of at least one row",
                f"the lengths are {lengths}",
                "check the file, and select arrays with a row for each example",
            )
        self._arrays = dict(arrays)
        (self.rows,) = set(lengths.values())

    def __getitem__(self, name: str) -> Array:
        if name not in self._arrays:
            raise KeyError(
                f"a column must be one of {', '.join(self)}, but it is {name!r}; choose one of them"
            )
        return self._arrays[name]

    def __iter__(self) -> Any:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def table(self) -> Table:
        """The kind and the values of each column."""
        rows = [(name, *_described(array)) for name, array in self.items()]
        return Table(("column", "kind", "values"), rows, notes=[f"{self.rows:,} rows"], texts=3)

    def numbers(self, *names: str) -> Array:
        """Return columns side by side as float32 [rows, columns], by default all that are numbers.

        One column of arrays, such as images, keeps its axes.

        Raises: DtypeError for a column of text, or a number that is not finite, with its row; ShapeError for
                several columns of arrays
        """
        chosen = names or tuple(name for name, array in self.items() if array.dtype.kind in NUMBERS)
        found = [self._finite(name) for name in chosen]
        if len(found) == 1 and found[0].ndim > 1:
            return found[0]
        if not found or any(array.ndim > 1 for array in found):
            raise ShapeError(
                "columns side by side must be numbers, at least one",
                f"their shapes are {[array.shape for array in found]}",
                "name columns of numbers, or one of arrays",
            )
        return np.stack(found, axis=1)

    def classes(self, name: str) -> tuple[str, ...]:
        """Return the distinct values of a column in ascending order, as text."""
        return tuple(map(str, np.unique(self[name]).tolist()))

    def labels(self, name: str, classes: Sequence[str] | None = None) -> Array:
        """Return the values of a column as indices of `classes`, by default all of its own, as int64 [rows].

        Raises: OptionError for a value that is not among the classes, with its row
        """
        known = self.classes(name) if classes is None else tuple(map(str, classes))
        index = {label: k for k, label in enumerate(known)}
        values = [str(value) for value in self[name].tolist()]
        for row, value in enumerate(values, 1):
            if value not in index:
                raise OptionError(
                    f"a value of the column {name!r} must be one of {', '.join(known)}",
                    f"that of row {row} is {value!r}",
                    f"{nearest(value, known)}give all classes",
                )
        return np.array([index[value] for value in values], np.int64)

    def one_hot(self, name: str, classes: Sequence[str] | None = None) -> Array:
        """Return the values of a column as float32 [rows, classes]: 1 at the class, else 0.

        Raises: as `labels`
        """
        count = len(self.classes(name) if classes is None else classes)
        return one_hot(self.labels(name, classes), count)

    def _finite(self, name: str) -> Array:
        array = self[name]
        wrong = _not_numbers(array)
        if wrong is not None:
            raise DtypeError(
                f"the column {name!r} must be finite numbers",
                f"row {wrong + 1} is {str(array[wrong])!r}",
                "correct the row or leave it out, or take the column as labels",
            )
        return np.ascontiguousarray(array, np.float32)


def one_hot(labels: ArrayLike, classes: int) -> Array:
    """Return labels as one-hot rows, float32 [labels, classes].

    Raises: DtypeError unless they are integers; OptionError for one outside 0 … classes - 1
    """
    check_integer("the number of classes", classes, 1)
    array = np.asarray(labels)
    if array.dtype.kind not in "iu":
        raise DtypeError("labels must be integers", f"they are {array.dtype}", "use columns.labels(name)")
    if array.size and not 0 <= array.min() <= array.max() < classes:
        raise OptionError(
            f"labels must lie in 0 … {classes - 1}", f"they reach {array.min()} … {array.max()}", "count them"
        )
    rows: Array = np.eye(classes, dtype=np.float32)[array]
    return rows


def columns(table: Any) -> Columns:
    """Return the columns of a mapping from names to arrays, or of a DataFrame of pandas or polars.

    Texts that are all numbers are numbers. Raises: as `Columns`; OptionError if it is no table
    """
    if not (hasattr(table, "columns") or isinstance(table, Mapping)):
        raise OptionError(
            "a table must be a DataFrame, or a mapping from names to arrays",
            f"it is {type(table).__name__}",
            "write for example columns({'x': x, 'y': y})",
        )
    names = list(table.columns if hasattr(table, "columns") else table)
    return Columns({str(name): _column(str(name), table[name]) for name in names})


def texts(name: str, values: Sequence[str]) -> Array:
    """Return texts as an array, in which each takes the place of the longest. Raises: ShapeError"""
    longest = max(map(len, values), default=0)
    if 4 * longest * len(values) > max(MOST_TIMES * sum(map(len, values)), MOST_BYTES):
        row = next(k for k, value in enumerate(values, 1) if len(value) == longest)
        raise ShapeError(
            f"the texts of the column {name!r} must be of similar lengths, as each takes equal space",
            f"that of row {row:,} has {longest:,} characters",
            "shorten it, or leave it out",
        )
    return np.array(values, str)


def _column(name: str, values: object) -> Array:
    given = values.to_numpy() if hasattr(values, "to_numpy") else values
    if isinstance(given, list | tuple) and all(isinstance(value, str) for value in given):
        given = texts(name, given)
    array = np.asarray(given)
    if array.dtype.kind in NUMBERS:
        return array
    found = texts(name, ["" if value is None or value != value else str(value) for value in array.tolist()])
    try:
        return found.astype(np.float64) if array.ndim == 1 else found
    except ValueError:
        return found


def _not_numbers(array: Array) -> int | None:
    """Find the first row with an element that is not a finite number."""
    if array.dtype.kind in NUMBERS:
        with np.errstate(over="ignore"):
            wrong = ~np.isfinite(array.astype(np.float32)).reshape(len(array), -1).all(axis=1)
    else:
        wrong = np.array([not _is_number(str(value)) for value in array.tolist()])
    return int(wrong.argmax()) if wrong.any() else None


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _described(array: Array) -> tuple[str, str]:
    """Describe a column: its kind, and its range or classes."""
    shape = f"{list(array.shape[1:])}" if array.ndim > 1 else ""
    if array.dtype.kind in NUMBERS:
        return f"numbers{shape}", f"{array.min():g} … {array.max():g}" if array.size else ""
    known = np.unique(array).tolist()
    more = f" and {spelled(len(known) - SHOWN_CLASSES)} more" if len(known) > SHOWN_CLASSES else ""
    return f"text{shape}", ", ".join(map(str, known[:SHOWN_CLASSES])) + more
