"""What `benchmarks.scratch` prints and keeps."""

from __future__ import annotations

import json
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

from benchmarks.harness import RESULTS, ROOT, duration, processor
from benchmarks.sprite_cases import VMS
from benchmarks.sprites import Sprite
from catgrad.files import write_whole


@dataclass(frozen=True)
class Row:
    """Seconds of one of our custom blocks beside those of the peer's prediction.

    `products` counts the multiplications with their additions of a prediction; times of each are told of
    predictions only. Errors are the greatest of the outputs, against PyTorch in float64.
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
    wanted_ratio: float | None
    wanted_each: float | None

    @property
    def ratio(self) -> float:
        """Ours over the peer's."""
        return self.seconds / self.peer_seconds

    @property
    def each(self) -> tuple[float, float] | None:
        """Nanoseconds for each multiplication with its addition, ours and the peer's."""
        if self.block != "predict":
            return None
        return self.seconds / self.products * 1e9, self.peer_seconds / self.products * 1e9

    @property
    def title(self) -> str:
        """What was done."""
        more = "" if self.unroll == "auto" else f", unroll={self.unroll}"
        return f"{self.net}, {self.block}{more}"

    @property
    def wanted(self) -> str:
        """What is asked for."""
        found = [f"≤ {self.wanted_ratio:g}"] if self.wanted_ratio else []
        return ", ".join(found + ([f"≤ {self.wanted_each:g} ns each"] if self.wanted_each else []))

    def line(self) -> str:
        """The row in short, as soon as it is measured."""
        return f"{self.title}, {self.vm}: {duration(self.seconds)}, ratio {self.ratio:.3f}"


@dataclass(frozen=True)
class Size:
    """How large a sprite is: its blocks, and bytes of its description and of its file."""

    net: str
    sprite: str
    blocks: int
    json: int
    file: int

    @classmethod
    def of(cls, net: str, sprite: Sprite) -> Self:
        """Those of a sprite."""
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
    """Ours beside the peer, on one virtual machine."""
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in ("what", "ours", peer, "ratio", "wanted", "ns each", "peer's", "error", "peer's"):
        table.add_column(heading)
    for row in rows:
        each = [f"{time:.3g}" for time in row.each or ()] or ["–", "–"]
        table.add_row(
            row.title, duration(row.seconds), duration(row.peer_seconds), f"{row.ratio:.3f}", row.wanted,
            *each, f"{row.error:.1e}", f"{row.peer_error:.1e}",
        )  # fmt: skip
    return table


def keep(rows: Sequence[Row], sizes: Sequence[Size], peers: Sequence[str], busy: float | None) -> Path:
    """Write the figures as JSON; returns where."""
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
    """Write figures as JSON; returns where."""
    path = RESULTS / f"{name}.json"
    write_whole(path, [f"{json.dumps(whole, indent=1)}\n".encode()])
    return path.relative_to(ROOT)
