"""Dense networks in AIfES 2.2 and as emitted C: the same steps, their time, memory and instructions.

AIfES is a library of Fraunhofer IMS under the AGPL: `git clone
https://github.com/Fraunhofer-IMS/AIfES_for_Arduino`. Nothing of it is part of this project.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path

from benchmarks.nets import perceptron
from benchmarks.records import OURS, Row
from benchmarks.tiny import build
from catgrad import Task, mse
from catgrad.errors import VerificationError
from catgrad.learn.optimisers import sgd

RATE = 1.0
ROUNDS = 5
PARTS = ("core", "basic/base", "basic/default")
"""The folders of AIfES that are built."""


@dataclass(frozen=True)
class Net:
    """Dense layers with sigmoids, mean squared error and SGD; `steps` are timed at once."""

    sizes: tuple[int, ...]
    batch: int
    bound: float
    steps: int

    @property
    def name(self) -> str:
        """The sizes of layers and the batch."""
        return f"{'-'.join(map(str, self.sizes))}, batch {self.batch}"


NETS = (Net((4, 20, 3), 150, 0.5, 400), Net((784, 128, 10), 64, 0.05, 8))


def rows(aifes: Path | None, folder: Path) -> list[Row]:
    """Measure emitted C, and AIfES in this folder, on all networks in turns."""
    return [_row_of(net, aifes, folder / f"net_{number}") for number, net in enumerate(NETS)]


def dense(net: Net) -> Task:
    """Return the task of a network."""
    return Task(perceptron(net.batch, net.sizes, "sigmoid", "sigmoid"), sgd(RATE), mse, "tiny")


def _row_of(net: Net, aifes: Path | None, folder: Path) -> Row:
    folder.mkdir()
    build.write(folder, dense(net), net.bound)
    sources: dict[str, tuple[Path, list[Path | str]]] = {OURS: (folder, ["trainer.c", "tiny.c"])}
    for name, count in (("AIfES, whole batch", net.batch), ("AIfES, one by one", 1)) if aifes else ():
        sources[name] = (folder / str(count), ["aifes.c", *_library(aifes)])
        _write(net, count, folder / str(count))
    options = ["-I", str(aifes / "src")] if aifes else []
    binaries = {name: build.hosted(place, files, *options) for name, (place, files) in sources.items()}
    times: dict[str, list[build.Hosted]] = {name: [] for name in binaries}
    for _ in range(ROUNDS):
        for name, binary in binaries.items():
            times[name].append(build.trained(binary, net.steps))
    boards = {name: build.on_board(place, files, *options) for name, (place, files) in sources.items()}
    require_agreement({name: [*(t.total for t in times[name]), boards[name].total] for name in sources})
    figures = {
        name: {
            "parameter_bytes": each[0].parameter_bytes,
            "training_bytes": each[0].training_bytes,
            "seconds": min(t.seconds for t in each),
            "code_bytes": boards[name].code,
            "stack_bytes": boards[name].stack,
            "instructions": boards[name].instructions,
        }
        for name, each in times.items()
    }
    return Row(net.name, figures)


def _library(aifes: Path | None) -> Sequence[Path]:
    return [path for part in PARTS for path in sorted((aifes / "src" / part).rglob("*.c"))] if aifes else []


def _write(net: Net, count: int, folder: Path) -> None:
    """Write the trainer around AIfES, which processes so many examples at once."""
    folder.mkdir()
    text = build.rendered(
        "aifes.c.j2",
        sizes=net.sizes,
        batch=net.batch,
        slice=count,
        bound=net.bound,
        rate=RATE,
        inputs=net.batch * net.sizes[0],
        outputs=net.batch * net.sizes[-1],
    )
    (folder / "aifes.c").write_text(text)


def require_agreement(totals: Mapping[str, Sequence[float | None]]) -> None:
    """Raise VerificationError unless all programs have the same outputs after a step."""
    first = totals[OURS][0]
    for name, every in totals.items():
        for total in every:
            if total is not None and not isclose(total, first or 0.0, rel_tol=1e-5):
                raise VerificationError(
                    "all programs must compute the same step",
                    f"the outputs of {name} sum to {total}, those of catgrad to {first}",
                    "check its learning rate and its loss",
                )
