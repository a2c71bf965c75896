"""Examples in parts, of which one at a time is read: a shuffle of two levels, cut into batches and shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catgrad.errors import OptionError, ShapeError
from catgrad.types import Array

Rows = tuple[Any, ...]
"""Arrays with the same first axis, inputs before labels."""


class Examples(ABC):
    """Examples in parts. Arrays in memory are one part; `catgrad.data.Shards` are files."""

    sizes: Sequence[int]
    """The number of examples in each part."""

    @abstractmethod
    def read(self, part: int) -> Rows:
        """Return the arrays of a part."""


class Arrays(Examples):
    """Arrays in memory. Raises: ShapeError if they differ in their first axis, or are empty"""

    def __init__(self, data: Rows) -> None:
        # Tensors keep their type and device; tables and lists become arrays.
        self._arrays = tuple(
            array if hasattr(array, "shape") and hasattr(array, "reshape") else np.asarray(array)
            for array in data
        )
        self.sizes = (_check_arrays(self._arrays),)

    def read(self, part: int) -> Rows:
        """Return the arrays."""
        return self._arrays


@dataclass(frozen=True)
class Share:
    """The consecutive rows of each batch that one process of several trains on; the first have one more."""

    rank: int = 0
    world: int = 1

    def of(self, start: int, stop: int) -> tuple[int, int]:
        """Return the share of the rows from `start` to `stop`."""
        if self.world == 1:
            return start, stop
        each, more = divmod(stop - start, self.world)
        first, last = (start + rank * each + min(rank, more) for rank in (self.rank, self.rank + 1))
        return first, last


@dataclass(frozen=True)
class Batches:
    """The batches of an epoch: in each, the share of one process.

    An epoch visits the parts in an order drawn from `seed` and the number of the epoch, and the rows of each
    in another; this stream is cut into batches. There is no shuffling in epoch 0, with `seed` None, or with
    all examples in one batch. A batch joins rows of two parts where one ends within it.
    """

    examples: Examples
    size: int
    seed: int | None
    drop_last: bool
    share: Share

    def __post_init__(self) -> None:
        if self.drop_last and self.count < self.size:
            raise OptionError(
                "an epoch must have a full batch if incomplete ones are dropped",
                f"there are {self.count} examples and the batch size is {self.size}",
                "reduce the batch size",
            )

    @property
    def count(self) -> int:
        """The number of examples."""
        return sum(self.examples.sizes)

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return self.count // self.size if self.drop_last else -(-self.count // self.size)

    def __call__(self, epoch: int) -> Iterator[Rows]:
        """Yield the batches of an epoch."""
        sizes, begin, pieces = self.examples.sizes, 0, list[Rows]()
        for part, order in self._parts(epoch):
            end, arrays = begin + sizes[part], None
            for first, last, stop in self._shares(begin, end):
                # A share without rows still has arrays, as every process takes part in each step.
                if first < last or (stop <= end and not pieces):
                    arrays = arrays or self.examples.read(part)
                    pieces.append(_taken(arrays, order, first - begin, last - begin))
                if stop <= end:
                    yield _joined(pieces)
                    pieces = []
            begin = end

    def _parts(self, epoch: int) -> Iterator[tuple[int, Any]]:
        """Yield each part, with the order of its rows; None is the order that they have."""
        sizes = self.examples.sizes
        if self.seed is None or epoch == 0 or self.size >= self.count:
            yield from ((part, None) for part in range(len(sizes)))
            return
        rng = np.random.default_rng((self.seed, epoch))
        for part in rng.permutation(len(sizes)).tolist():
            yield part, rng.permutation(sizes[part])

    def _shares(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield, for each batch with rows between two places of the stream, the share of it, and its end."""
        total = len(self) * self.size if self.drop_last else self.count
        for start in range(begin - begin % self.size, min(end, total), self.size):
            stop = min(start + self.size, total)
            first, last = self.share.of(start, stop)
            first = min(max(first, begin), end)
            yield first, max(first, min(last, end)), stop


def _taken(arrays: Rows, order: Array | None, first: int, last: int) -> Rows:
    if order is not None:
        chosen = order[first:last]
        return tuple([array[chosen] for array in arrays])
    return tuple([_writable(array[first:last]) for array in arrays])


def _writable(rows: object) -> Any:
    """Copy the rows of a mapped file, as some libraries warn of arrays that they must not write to."""
    return rows.copy() if isinstance(rows, np.ndarray) and not rows.flags.writeable else rows


def _joined(pieces: list[Rows]) -> Rows:
    if len(pieces) == 1:
        return pieces[0]
    return tuple(np.concatenate(columns) for columns in zip(*pieces, strict=True))


def _check_arrays(arrays: Rows) -> int:
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
