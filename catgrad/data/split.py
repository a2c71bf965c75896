"""Train and validation split of examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad.errors import OptionError, ShapeError
from catgrad.learn.options import check_integer, fraction

Arrays = tuple[Any, ...]


def split(arrays: Arrays, validation: float = 0.2, seed: int | None = 0) -> tuple[Arrays, Arrays]:
    """Split examples, the rows of several arrays, into those for training and those for validation.

    A share `validation` of the examples, rounded, is drawn by the seed; without one, it is the last of them,
    as for time series. Each example is in one part.

    Raises: OptionError if the share is not in (0, 1), or leaves a part empty; ShapeError if arrays differ in
            length
    """
    rows = [np.asarray(array) for array in arrays]
    lengths = {len(array) if array.ndim else 0 for array in rows}
    if len(lengths) != 1:
        raise ShapeError(
            "arrays must have a row for each example",
            f"their shapes are {[array.shape for array in rows]}",
            "give for example split((x, y))",
        )
    (count,) = lengths
    held_out = round(fraction("the share of the validation data", validation) * count)
    if not 0 < held_out < count:
        raise OptionError(
            "both parts of a split must have examples",
            f"{held_out} of {count} would be held out",
            "choose another share, or more data",
        )
    if seed is not None:
        check_integer("a seed", seed, 0)
    order = np.arange(count) if seed is None else np.random.default_rng(seed).permutation(count)
    parts = order[: count - held_out], order[count - held_out :]
    training, held = (tuple(array[part] for array in rows) for part in parts)
    return training, held
