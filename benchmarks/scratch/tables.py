"""Tables and JSON of `benchmarks.scratch`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from catgrad.backends.scratch.machine.node import PACKAGES
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import records
from benchmarks.harness import RESULTS, ROOT, duration, processor
from benchmarks.scratch.cases import VMS
from benchmarks.scratch.timing import Sprite


@dataclass(frozen=True)
class Row:
    """Seconds of a custom block of catgrad, and of the peer's prediction.

    `products` counts the multiply-adds of a prediction, for times per multiply-add of predictions. Errors are
    the maxima over the outputs, against PyTorch in float64.
    """

    net: str
    block: str
    unroll: str
    vm: str
    products: int
    seconds: float
    peer_seconds: float
    error: float
    peer_error: float
    goal_ratio: float | None
    goal_each: float | None

    @property
    def ratio(self) -> float:
        """The time of catgrad over that of the peer."""
        return self.seconds / self.peer_seconds

    @property
    def each(self) -> tuple[float, float] | None:
        """Nanoseconds for each multiply-add, of catgrad and of the peer."""
        if self.block != "predict":
            return None
        return self.seconds / self.products * 1e9, self.peer_seconds / self.products * 1e9

    @property
    def title(self) -> str:
        """The function that was measured."""
        more = "" if self.unroll == "auto" else f", unroll={self.unroll}"
        return f"{self.net}, {self.block}{more}"

    @property
    def goal(self) -> str:
        """The target."""
        found = [f"≤ {self.goal_ratio:g}"] if self.goal_ratio else []
        return ", ".join(found + ([f"≤ {self.goal_each:g} ns each"] if self.goal_each else []))

    def line(self) -> str:
        """Return the row as a short line."""
        return f"{self.title}, {self.vm}: {duration(self.seconds)}, ratio {self.ratio:.3f}"


@dataclass(frozen=True)
class Size:
    """The size of a sprite: blocks, and bytes of its JSON and of its file."""

    net: str
    sprite: str
    blocks: int
    json: int
    file: int

    @classmethod
    def of(cls, net: str, sprite: Sprite) -> Self:
        """Return the size of a sprite."""
        return cls(net, sprite.name, sprite.blocks, len(sprite.json), len(sprite.file))


def show(console: Console, rows: Sequence[Row], sizes: Sequence[Size], peer: str) -> None:
    """Print all tables."""
    for vm in VMS:
        console.print(times([row for row in rows if row.vm == vm], f"times on {vm}", peer))
    table = Table("model", "sprite", "blocks", "JSON, kB", "file, kB", title="sizes", box=box.SIMPLE_HEAD)
    for size in sizes:
        table.add_row(
            size.net, size.sprite, f"{size.blocks:,}", f"{size.json / 1e3:.1f}", f"{size.file / 1e3:.1f}"
        )
    console.print(table)


def times(rows: Sequence[Row], title: str, peer: str) -> Table:
    """Compare with the peer on one virtual machine."""
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in ("what", "ours", peer, "ratio", "goal", "ns each", "peer's", "error", "peer's"):
        table.add_column(heading)
    for row in rows:
        each = [f"{time:.3g}" for time in row.each or ()] or ["–", "–"]
        table.add_row(
            row.title, duration(row.seconds), duration(row.peer_seconds), f"{row.ratio:.3f}", row.goal,
            *each, f"{row.error:.1e}", f"{row.peer_error:.1e}",
        )  # fmt: skip
    return table


def keep(rows: Sequence[Row], sizes: Sequence[Size], peers: Sequence[str], busy: float | None) -> Path:
    """Write the figures as JSON; return the path."""
    whole = {
        "command": "python -m benchmarks.scratch",
        "machine": described(busy),
        "peers": list(peers),
        "rows": [asdict(row) | {"ratio": row.ratio} for row in rows],
        "sizes": [asdict(size) for size in sizes],
    }
    return written("scratch", whole)


def described(busy: float | None) -> dict[str, Any]:
    """Describe the machine, and the virtual machines on it."""
    node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    machines = {vm: "@".join(PACKAGES[vm]) for vm in VMS}
    return {
        "processor": processor(), "cores": os.cpu_count(), "node": node, **machines,
        "share that others used": busy,
    }  # fmt: skip


def written(name: str, whole: Mapping[str, Any]) -> Path:
    """Write figures as JSON; return the path."""
    path = RESULTS / f"{name}.json"
    records.keep(path, whole)
    return path.relative_to(ROOT)
