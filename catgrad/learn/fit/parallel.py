"""Training by several processes or devices: the protocol of engines, and the agreement of processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol
from zlib import crc32

import numpy as np

from catgrad.errors import OptionError
from catgrad.learn.fit.batches import Batch, Data, Source, examples, examples_in
from catgrad.learn.fit.checkpoint import tables
from catgrad.learn.fit.examples import Batches
from catgrad.learn.fit.history import History
from catgrad.learn.learner import Learner
from catgrad.types import as_numpy


class Parallel(Protocol):
    """An engine by which `fit` trains: one of `world` processes, which all call its methods alike."""

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""

    @property
    def world(self) -> int:
        """The number of processes."""

    def start(self, learner: Learner) -> None:
        """Prepare a learner for training. Raises: OptionError for one that the engine cannot train"""

    def place(self, batch: Batch) -> Batch:
        """Place the arrays of a batch where the learner's are."""

    def step(self, learner: Learner, batch: Batch, rows: Sequence[int]) -> Any:
        """Train on the rows of all processes; returns the loss over them. Each process has so many `rows`."""

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return the numbers of each process, to all."""


class Alone:
    """One process, on one device."""

    rank, world = 0, 1

    def start(self, learner: Learner) -> None:
        """Prepare nothing."""

    def place(self, batch: Batch) -> Batch:
        """Return the batch."""
        return batch

    def step(self, learner: Learner, batch: Batch, rows: Sequence[int]) -> Any:
        """Train on the batch."""
        return learner.step(*batch)

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return the numbers of this process."""
        return [list(numbers)]


ALONE = Alone()


def summed(parallel: Parallel, numbers: Sequence[float]) -> list[float]:
    """Return the sums over the processes, in their order, so that all get the same bits."""
    return [sum(column) for column in zip(*parallel.gather(numbers), strict=True)]


def together(parallel: Parallel, source: Source, epoch: int) -> Iterator[tuple[Batch, list[int]]]:
    """Yield the batches of an epoch, with the rows of each process, until the last process has no more.

    A process without a batch takes part with none of its rows.

    Raises: OptionError if batches of an iterable, of which each process has its own, begin alike in all
    """
    if parallel.world == 1:
        yield from ((batch, [examples_in(batch)]) for batch in source(epoch))
        return
    batches, is_unchecked = source(epoch), not isinstance(source, Batches)
    while True:
        batch = next(batches, ())
        size = examples_in(batch) if batch else 0
        found = parallel.gather([size, _digest(batch) if is_unchecked else 0])
        if is_unchecked and len({digest for _, digest in found}) == 1:
            raise OptionError(
                "each process must have batches of its own",
                "all of them begin with the same",
                "give arrays or catgrad.data.Shards, which are shared out, or split them by rank",
            )
        is_unchecked = False
        rows = [int(count) for count, _ in found]
        if not any(rows):
            return
        yield batch, rows


def check_agreement(parallel: Parallel, learner: Learner, history: History, data: Data) -> None:
    """Raise OptionError unless all processes begin with the same arrays, history and examples."""
    if parallel.world == 1:
        return
    own = examples(data)
    arrays = [array for table in tables(learner).values() for array in table.values()]
    begun = [_digest(arrays), crc32(history.to_json().encode())]
    shared = [0] if own is None else [crc32(str(own.sizes).encode()), _digest(_ends(own.read(0)))]
    for what, numbers, do in (
        ("arrays of the learner", begun, "draw them from one seed, and let all read the same checkpoint"),
        ("examples, which are shared out", shared, "give the whole data to each"),
    ):
        found = parallel.gather(numbers)
        if any(each != found[0] for each in found):
            raise OptionError(f"all processes must begin with the same {what}", "they differ", do)


def _ends(arrays: Sequence[Any]) -> list[Any]:
    """Return the first and the last row of each array."""
    return [array[row] for array in arrays for row in (0, len(array) - 1)]


def _digest(arrays: Sequence[object]) -> int:
    """Compute a checksum (CRC-32) of arrays, their shapes and dtypes."""
    found = 0
    for array in map(as_numpy, arrays):
        found = crc32(f"{array.dtype}{array.shape}".encode(), found)
        found = crc32(np.ascontiguousarray(array).tobytes(), found)
    return found
