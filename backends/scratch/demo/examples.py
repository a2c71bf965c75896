"""Training examples in a sprite."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from catgrad.backend import Backend
from catgrad.errors import DtypeError, OptionError, ShapeError
from catgrad.programs.ports import Role
from catgrad.types import Array, NdArrayType

from ..compile.interface import Interface

AT_ONCE = 16
"""The maximum size of a row that is copied without a loop."""


@dataclass(frozen=True)
class Column:
    """A list of rows, one for each example, and the shared list to which a row is copied."""

    name: str
    shared: str
    array: Array

    @property
    def width(self) -> int:
        """The size of a row."""
        return int(self.array[0].size)

    @property
    def in_a_loop(self) -> bool:
        """Return whether a row is copied in a loop."""
        return self.width > AT_ONCE

    @property
    def is_one_hot(self) -> bool:
        """Return whether each row is one-hot."""
        rows = self.array.reshape(len(self.array), -1)
        return self.width > 1 and bool(np.isin(rows, (0, 1)).all() and (rows.sum(axis=1) == 1).all())


@dataclass(frozen=True)
class Examples:
    """The columns of inputs and targets."""

    inputs: tuple[Column, ...]
    targets: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns."""
        return self.inputs + self.targets

    @property
    def rows(self) -> int:
        """The number of examples."""
        return len(self.columns[0].array)


def examples(backend: Backend, interface: Interface | None) -> Examples | None:
    """Return the option `data` as lists, if it is given.

    Raises: OptionError without a step of training; ShapeError or DtypeError if an array does not fit
    """
    data = backend.options.data
    if data is None:
        return None
    step = interface.step if interface else None
    if step is None:
        raise OptionError("data must be for a task that trains", "this one does not", "leave data out")
    names = [name for name, _ in step.inputs]
    if len(data) != len(names):
        raise ShapeError(
            f"data must be {len(names)} arrays, one each for {', '.join(names)}",
            f"they are {len(data)}",
            "pass these",
        )
    batch = backend.options.batch
    columns = [
        Column(f"data {name}", name, _fitting(f"data {name}", array, value.type, batch))
        for array, (name, value) in zip(data, step.inputs, strict=True)
    ]
    inputs = sum(value.role is Role.INPUT for _, value in step.inputs)
    found = Examples(tuple(columns[:inputs]), tuple(columns[inputs:]))
    if len(counts := {len(column.array) for column in columns}) > 1 or found.rows == 0:
        raise ShapeError(
            "the arrays of data must have a row for each example",
            f"they have {' and '.join(map(str, sorted(counts)))} rows",
            "pass equally many rows, at least one",
        )
    return found


def _fitting(name: str, values: object, type: NdArrayType, batch: int) -> Array:
    """Convert rows to the dtype of a type."""
    array, dtype = np.asarray(values), type.dtype.numpy
    row = type.shape[1:] if type.shape[:1] == (batch,) else type.shape if batch == 1 else None
    if row is None or not array.ndim or array.shape[1:] != row:
        wanted = (
            f"shape ({', '.join(map(str, ('rows', *row)))})"
            if row is not None
            else f"the batch as first axis of {type}"
        )
        raise ShapeError(f"{name} must have {wanted}", f"it has shape {array.shape}", "reshape it")
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise DtypeError(
            f"{name} must hold finite numbers", "it holds others", "correct or remove the others"
        )
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    if not (np.isfinite(cast).all() if type.dtype.is_floating else (cast == array).all()):
        raise DtypeError(f"{name} must fit {type.dtype.value}", "it has values that do not", "rescale it")
    return cast if type.dtype.is_floating else cast.astype(np.int64)
