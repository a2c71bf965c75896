"""Samples that a page trains on, as text in it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from catgrad.dims import Dim
from catgrad.errors import DtypeError, OptionError, ShapeError
from catgrad.learn.task import Task
from catgrad.types import Array, Dtype, NdArrayType, symbols

MAX_BYTES = 4_000_000
"""The maximum of bytes in the samples of a page, which phones load quickly."""

ARRAYS = {Dtype.float32: "Float32Array", Dtype.float64: "Float64Array", Dtype.int64: "Float64Array"}
"""The array of JavaScript, by dtype: the emitted module has int64 in float64."""


class View(StrEnum):
    """The picture beside the loss: regions of classes, a digit to draw, a series, a text, or none."""

    REGIONS = "regions"
    DIGIT = "digit"
    SERIES = "series"
    TEXT = "text"
    NONE = "none"


CLASSIFIES = (View.REGIONS, View.DIGIT)
"""The views of models with one score for each class of a row, whose accuracy is shown."""


@dataclass(frozen=True)
class Samples:
    """Inputs `x` and targets `y`, one a row, the size of a batch, and names of features and classes.

    Scores are `logits` if the loss takes their softmax. `title` heads the page,
    and `note` says where the samples come from.

    Raises: ShapeError unless x and y have equally many rows; OptionError if there are too many bytes, or the
            batch is larger
    """

    x: Array
    y: Array
    batch: int
    view: View = View.NONE
    features: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    logits: bool = False
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.y) > 0:
            raise ShapeError(
                "samples must have as many targets as inputs, and some",
                f"there are {len(self.x)} inputs and {len(self.y)} targets",
                "give one row of x and of y for each",
            )
        if (size := self.x.nbytes + self.y.nbytes) > MAX_BYTES:
            raise OptionError(
                f"samples must have {MAX_BYTES} bytes at most", f"they have {size}", "give fewer rows"
            )
        if not 0 < self.batch <= len(self.x):
            raise OptionError(
                f"a batch must be from 1 to {len(self.x)} samples", f"it is {self.batch}", "choose another"
            )

    def shuffled(self, seed: int = 0) -> tuple[Array, Array]:
        """Return x and y in the order of the page, which takes batches in turn, over and over."""
        order = self._order(seed)
        return self.x[order], self.y[order]

    def _order(self, seed: int = 0) -> Array:
        return np.random.default_rng(seed).permutation(len(self.x))

    def described(self, task: Task) -> Mapping[str, object]:
        """Return the samples as JSON for a page of this task.

        Raises: OptionError unless the task has one input, one target and one size, of the batch;
                ShapeError for rows of other shapes
        """
        types = (*task.inputs, *task.targets)
        if len(types) != 2 or len(symbols(types)) != 1 or any(not isinstance(t.shape[0], Dim) for t in types):
            raise OptionError(
                "a task that trains in a page must have one input and one target, of any number of rows",
                f"those of {task.name} are {', '.join(map(str, types))}",
                "give them Dim('batch') as the first size",
            )
        arrays = [_array(*each) for each in zip(("x", "y"), self.shuffled(), types, strict=True)]
        return {
            "x": arrays[0],
            "y": arrays[1],
            "count": len(self.x),
            "batch": self.batch,
            "view": self.view,
            "features": self.features,
            "classes": self.classes,
            "classifies": self.view in CLASSIFIES,
            "logits": self.logits,
            "note": self.note,
            "order": np.argsort(self._order()).tolist(),  # the places of the rows as they were given
        }


def _array(name: str, value: Array, type: NdArrayType) -> Mapping[str, object]:
    """Encode an array as bytes in base64. Raises: ShapeError, DtypeError if it does not have this type"""
    row = type.shape[1:]
    if value.shape[1:] != row:
        raise ShapeError(f"rows of {name} must be {row}", f"they are {value.shape[1:]}", "reshape them")
    if type.dtype not in ARRAYS or not np.can_cast(value.dtype, type.dtype.name, "same_kind"):
        raise DtypeError(
            f"{name} must be {type.dtype.name}, and that one of {', '.join(d.name for d in ARRAYS)}",
            f"it is {value.dtype}",
            "convert it, or give the model another type",
        )
    kind = ARRAYS[type.dtype]
    stored = np.ascontiguousarray(value, "<f4" if kind == "Float32Array" else "<f8")
    return {"type": kind, "row": row, "base64": b64encode(stored.tobytes()).decode()}
