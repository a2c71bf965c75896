"""Batches of data: arrays, shuffled in each epoch, or an iterable in its own order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import length_hint
from typing import Any

import numpy as np

from catgrad.errors import OptionError
from catgrad.learn.fit.examples import Arrays, Batches, Examples, Share
from catgrad.learn.options import check_integer

Batch = tuple[Any, ...]
Data = tuple[Any, ...] | Examples | Iterable[Batch] | Callable[[int], Iterable[Batch]]
"""Arrays with equal first axes, inputs before labels; or shards of them in files; or batches of them; or a
function from the number of the epoch, starting at 1, to batches. A tuple is always arrays.
"""

Source = Callable[[int], Iterator[Batch]]
"""A function from the number of an epoch to its batches; epoch 0 is the order of evaluation."""

WHOLE = Share()


def batches(
    data: Data, batch_size: int = 64, seed: int | None = 0, drop_last: bool = False, share: Share = WHOLE
) -> Source:
    """Yield the batches of an epoch: each example once, in an order that depends on seed and epoch.

    There is no shuffling in epoch 0, with `seed` None, or with all examples in one batch. The last batch
    is smaller if the size does not divide the number of examples, unless `drop_last` omits it. Of several
    processes, each gets its `share` of every batch. An iterable is iterated over in each epoch, and
    determines sizes and order.

    Raises: ShapeError if the arrays differ in their first axis, or are empty; OptionError if a size
            or seed is out of its range
    """
    check_integer("a batch size", batch_size, 1)
    if seed is not None:
        check_integer("a seed", seed, 0)
    found = examples(data)
    return _stream(data) if found is None else Batches(found, batch_size, seed, drop_last, share)


def examples(data: Data) -> Examples | None:
    """Return data as examples, of which batches are made; None if they are batches already."""
    return data if isinstance(data, Examples) else Arrays(data) if isinstance(data, tuple) else None


def batch_count(data: Data, source: Source) -> int | None:
    """Return the number of batches of an epoch, if it is known in advance."""
    # A loader of a stream has a length which raises TypeError.
    return length_hint(source if isinstance(source, Batches) else data) or None


def examples_in(batch: Batch) -> int:
    """Return the number of examples in a batch: the size of its first axis."""
    shape = np.shape(batch[0])
    return int(shape[0]) if shape else 1


def _stream(data: object) -> Source:
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
