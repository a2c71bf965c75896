"""The cases of `benchmarks.scratch`, and their targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.workloads import named

VMS = ("vanilla", "turbowarp")


@dataclass(frozen=True)
class Case:
    """A custom block of a sprite of catgrad, and the target of its time by virtual machine.

    That is a ratio to the peer's prediction, or nanoseconds for each multiplication with its addition.
    """

    block: str = "predict"
    unroll: str = "auto"
    ratio: Mapping[str, float] = field(default_factory=dict)
    each: Mapping[str, float] = field(default_factory=dict)

    @property
    def sprite(self) -> str:
        """The label of the sprite among those of the model."""
        unroll = [] if self.unroll == "auto" else [f"unroll={self.unroll}"]
        return ", ".join(["catgrad", *([] if self.block == "predict" else ["also learns"]), *unroll])


@dataclass(frozen=True)
class Net:
    """A model of `benchmarks.peers.sprite_nets` with its cases."""

    name: str
    title: str
    cases: tuple[Case, ...]


def both(vanilla: float, turbowarp: float) -> dict[str, float]:
    """Return a number for each virtual machine."""
    return dict(zip(VMS, (vanilla, turbowarp), strict=True))


DENSE = (Case(each=both(310, 3)),)
NETS = (
    Net(
        "iris",
        "MLP 4-20-3",
        (
            Case(ratio=both(0.45, 0.45)),
            Case(unroll="max", ratio={"vanilla": 0.33}),
            Case("train step", ratio=both(1.5, 1.6)),
        ),
    ),
    Net("digits", "MLP 784-64-10", (Case(ratio=both(0.5, 0.45)),)),
    Net("cnn", "CNN of 12 × 12", (Case(ratio=both(0.4, 0.35)),)),
    Net("gpt", "transformer, 2 layers", (Case(ratio=both(0.5, 0.35)),)),
    Net("dense-16x16", "dense 16 × 16", DENSE),
    Net("dense-64x64", "dense 64 × 64", DENSE),
    Net("dense-784x64", "dense 784 × 64", DENSE),
)


def chosen(names: str) -> tuple[Net, ...]:
    """Return the models of these names, with commas between; all for no name. Raises: UnknownName."""
    return named(NETS, names, "python -m benchmarks.scratch")
