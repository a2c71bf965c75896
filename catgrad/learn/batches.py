"""Batches of data: arrays, shuffled in each epoch, or an iterable in its own order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import numpy as np

from catgrad.errors import OptionError, ShapeError
from catgrad.learn.options import check_integer

Batch = tuple[Any, ...]
Data = tuple[Any, ...] | Iterable[Batch] | Callable[[int], Iterable[Batch]]
"""Arrays with equal first axes, inputs before labels; or batches of them; or a function from the
number of the epoch, starting at 1, to batches. A tuple is always arrays.
"""

Source = Callable[[int], Iterator[Batch]]
"""A function from the number of an epoch to its batches; epoch 0 is the order of evaluation."""


def batches(data: Data, batch_size: int = 64, seed: int | None = 0, drop_last: bool = False) -> Source:
    """Yield the batches of an epoch: each example once, in an order that depends on seed and epoch.

    There is no shuffling in epoch 0, with `seed` None, or with all examples in one batch. The last batch
    is smaller if the size does not divide the number of examples, unless `drop_last` omits it. An
    iterable is iterated over in each epoch, and determines sizes and order.

    Raises: ShapeError if the arrays differ in their first axis, or are empty; OptionError if a size
            or seed is out of its range
    """
    check_integer("a batch size", batch_size, 1)
    if seed is not None:
        check_integer("a seed", seed, 0)
    if not isinstance(data, tuple):
        return _stream(data)
    arrays = tuple(map(_indexable, data))
    count = _check_arrays(arrays)
    if drop_last and count < batch_size:
        raise OptionError(
            "an epoch must have a full batch if incomplete ones are dropped",
            f"there are {count} examples and the batch size is {batch_size}",
            "reduce the batch size",
        )

    def epoch_of_arrays(epoch: int) -> Iterator[Batch]:
        stop = count - count % batch_size if drop_last else count
        if seed is None or epoch == 0 or batch_size >= count:
            for start in range(0, stop, batch_size):
                yield tuple(array[start : start + batch_size] for array in arrays)
            return
        order = np.random.default_rng((seed, epoch)).permutation(count)
        for start in range(0, stop, batch_size):
            chosen = order[start : start + batch_size]
            yield tuple(array[chosen] for array in arrays)

    return epoch_of_arrays


def batch_count(data: Data, batch_size: int, drop_last: bool = False) -> int | None:
    """Return the number of batches of an epoch, if it is known in advance."""
    if not isinstance(data, tuple):
        return len(data) if isinstance(data, Sized) else None
    count = len(data[0])
    return count // batch_size if drop_last else -(-count // batch_size)


def examples_in(batch: Batch) -> int:
    """Return the number of examples in a batch: the size of its first axis."""
    shape = np.shape(batch[0])
    return int(shape[0]) if shape else 1


def _stream(data: Any) -> Source:
    if not callable(data) and not isinstance(data, Iterable):
        raise OptionError(
            "data must be a tuple of arrays, or batches, or a function from the epoch to batches",
            f"it is {type(data).__name__}",
            "write for example (x, y)",
        )

    def epoch_of_stream(epoch: int) -> Iterator[Batch]:
        empty = True
        for batch in data(epoch) if callable(data) else data:
            if not isinstance(batch, (tuple, list)) or not batch:
                raise OptionError(
                    "a batch must be a tuple of arrays",
                    f"it is {type(batch).__name__}",
                    "pass arrays as a tuple (x, y), or an iterable of batches (x, y)",
                )
            empty = False
            yield tuple(batch)
        if empty:
            raise OptionError(
                "an iterable of batches must have some in each epoch",
                f"it has none in epoch {epoch}" if epoch else "it has none",
                "pass a list, or a function from the epoch to batches: an iterator is exhausted after one",
            )

    return epoch_of_stream


def _indexable(array: Any) -> Any:
    # Tensors keep their type and device; tables and lists become arrays.
    return array if hasattr(array, "shape") and hasattr(array, "reshape") else np.asarray(array)


def _check_arrays(arrays: tuple[Any, ...]) -> int:
    shapes = [tuple(array.shape) for array in arrays]
    found = f"the shapes are {', '.join(map(str, shapes))}" if shapes else "there are none"
    if not shapes or () in shapes or len({shape[0] for shape in shapes}) > 1:
        raise ShapeError(
            "the arrays must have the same first axis, that of the examples",
            found,
            "give as many labels as inputs",
        )
    if not shapes[0][0]:
        raise ShapeError("there must be at least one example", found, "check how the data are read")
    return int(shapes[0][0])
