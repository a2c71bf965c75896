"""Races of the steps of several workloads, whose competitors are all built at once and then timed in turn."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from benchmarks.cuda import tables
from benchmarks.cuda.workloads import TRAINKERNEL, GpuWorkload
from benchmarks.processes import Competitor
from benchmarks.race import DEVICE, TOLERANCE, Race, Result, disagreement
from benchmarks.records import OURS, Row
from benchmarks.workloads import STEP, written

BF16_TOLERANCE = 2e-2
"""The relative tolerance of losses where the operands of products are rounded to 8 or 11 bits."""

MEMORY = 120e9
"""The bytes of a GPU that holds all competitors of the largest workload; on others they train alone."""

NAMES = {
    "launches": "launches",
    "graph": "CUDA graph",
    "many": "many steps a call",
    "eager": "eager",
    "tf32": "TF32",
    "cublaslt": "cuBLASLt",
    "channels_last": "channels_last",
}
"""The names in tables of the parts of a word."""


def competitors(workload: GpuWorkload, only: Collection[str] = ()) -> tuple[Competitor, ...]:
    """Return catgrad and the peers of a workload, or `only` those of some words.

    Those of a lower precision come first: the last is judged by.
    """
    peers = (word for word in workload.peers if not only or word in only)
    every = [*map(ours, workload.ours), *map(peer, peers)]
    return tuple(sorted(every, key=lambda each: each.tolerance is None))


def ours(word: str) -> Competitor:
    """Return the competitor of catgrad of a word."""
    return Competitor(f"{OURS}, {_named(word)}", "cuda_emitted", word, tolerance=_tolerance(word))


def peer(word: str) -> Competitor:
    """Return the competitor of a word: `parts` compile the model with its loss, `whole` the whole step."""
    if word == TRAINKERNEL:
        missing = "" if find_spec("trainkernel") else "not installed: pip install trainkernel==0.2.0"
        return Competitor("trainkernel", "trainkernel_step", missing=missing)
    form, _, rest = word.partition("/")
    name = f"torch.compile {_named(rest)}" if form in ("whole", "parts") else f"PyTorch {_named(word)}"
    return Competitor(name, "torch_gpu", word, tolerance=_tolerance(word))


def _named(word: str) -> str:
    return ", ".join(NAMES.get(part, part) for part in word.split("/"))


def _tolerance(word: str) -> float | None:
    return BF16_TOLERANCE if "tf32" in word.split("/") else None


class Turns:
    """Lets races be timed one after the other, once all have built what they time or no time is `left`."""

    def __init__(self, races: int, left: Callable[[], float]) -> None:
        self.built, self.device, self.left = threading.Barrier(races), threading.Lock(), left

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for all races to be built, and then for the device."""
        with suppress(threading.BrokenBarrierError):  # one took too long, so that none waits for it any more
            self.built.wait(min(max(self.left(), 0), threading.TIMEOUT_MAX))
        with self.device:
            yield


def raced(every: Sequence[Competitor], place: Path, race: Race, alone: bool) -> dict[str, Result]:
    """Race competitors, all in turn, or one after the other if memory does not hold them all."""
    results: dict[str, Result] = {}
    for group in [[each] for each in every] if alone else [list(every)]:
        results |= race.run(group, place, os.cpu_count() or 1, (STEP,))[STEP]
    known = next((r.losses for r in reversed(list(results.values())) if r.losses), [])
    for each in every:
        result = results[each.name]
        tolerance = each.tolerance or race.tolerance
        if found := disagreement(result.losses, known, tolerance) if result.losses else "":
            result.rounds, result.seconds, result.reason = [], None, found
    return results


def step_rows(
    workloads: Sequence[GpuWorkload],
    left: Callable[[], float],
    say: Callable[[str], None],
    memory: float,
    only: Collection[str] = (),
) -> Iterator[Row]:
    """Measure the steps of workloads; those that do not fit the memory beside others are measured last."""
    alone = [each for each in workloads if each.alone and memory < MEMORY]
    together = [each for each in workloads if each not in alone]
    with tempfile.TemporaryDirectory() as folder:
        for group in (together, *([each] for each in alone)):
            if left() <= 0 or not group:
                continue
            turns = Turns(len(group), left)
            with ThreadPoolExecutor(len(group)) as pool:
                rows = [
                    pool.submit(step_row, each, Path(folder), turns, say, only, each in alone)
                    for each in group
                ]
                yield from (row.result() for row in as_completed(rows))


def step_row(
    workload: GpuWorkload,
    folder: Path,
    turns: Turns,
    say: Callable[[str], None],
    only: Collection[str],
    alone: bool,
) -> Row:
    """Measure the step of a workload in its turn, perhaps with one competitor `alone` after the other."""
    from benchmarks.cuda.clock import ROUNDS, SAMPLE_SECONDS

    race = Race(
        ROUNDS,
        SAMPLE_SECONDS,
        lambda text: say(f"{workload.name}: {text}"),
        DEVICE,
        TOLERANCE if workload.precision == "float32" else BF16_TOLERANCE,
        at_once=True,
        kernels=True,
        left=turns.left,
        turn=turns.turn,
    )
    place = written(workload, folder)
    return tables.step_row(workload, raced(competitors(workload, only), place, race, alone))
