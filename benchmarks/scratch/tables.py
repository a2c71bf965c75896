"""Rows, sizes and tables of `benchmarks.scratch`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catgrad.backends.scratch.machine.node import PACKAGES
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import records
from benchmarks.harness import duration
from benchmarks.records import OURS, Record, Row
from benchmarks.scratch.cases import VMS, Case
from benchmarks.scratch.timing import Sprite
from benchmarks.tables import COMPARISON, figure, table

PEER = "cattorch"


def row_of(net: str, case: Case, vm: str, products: int, results: Mapping[str, Mapping[str, float]]) -> Row:
    """Return the seconds of a custom block of catgrad, and of the peer's prediction.

    `products` counts the multiply-adds of a prediction, for times per multiply-add of predictions. Errors are
    the maxima over the outputs, against PyTorch in float64.
    """
    goals = [f"≤ {case.ratio[vm]:g}"] if vm in case.ratio else []
    goals += [f"≤ {case.each[vm]:g} ns each"] if vm in case.each else []
    facts = {"net": net, "block": case.block, "unroll": case.unroll, "vm": vm, "products": products}
    return Row(f"{net}: {case.block}, unroll={case.unroll}, {vm}", results, ", ".join(goals), facts)


def title(row: Row) -> str:
    """Return the function that was measured."""
    more = "" if row.facts["unroll"] == "auto" else f", unroll={row.facts['unroll']}"
    return f"{row.facts['net']}, {row.facts['block']}{more}"


def line(row: Row) -> str:
    """Return the row as a short line."""
    return f"{row.what}: {duration(row.results[OURS]['seconds'])}, ratio {row.ratio:.3f}"


def each(name: str) -> Callable[[Row], str]:
    """Return the cell of nanoseconds for each multiply-add of a prediction."""

    def cell(row: Row) -> str:
        is_prediction = row.facts["block"] == "predict"
        return f"{row.results[name]['seconds'] / row.facts['products'] * 1e9:.3g}" if is_prediction else "–"

    return cell


COLUMNS = {
    **COMPARISON,
    "what": title,
    "ns each": each(OURS),
    "peer's": each(PEER),
    "error": figure("error", "{:.1e}".format, OURS),
    "peer's ": figure("error", "{:.1e}".format, PEER),
}
"""The comparison with the peer on one virtual machine."""


def size_of(net: str, sprite: Sprite) -> dict[str, Any]:
    """Return the size of a sprite: blocks, and bytes of its JSON and of its file."""
    sizes = {"blocks": sprite.blocks, "json": len(sprite.json), "file": len(sprite.file)}
    return {"net": net, "sprite": sprite.name, **sizes}


def show(console: Console, rows: Sequence[Row], sizes: Sequence[Mapping[str, Any]]) -> None:
    """Print all tables."""
    for vm in VMS:
        console.print(table([row for row in rows if row.facts["vm"] == vm], COLUMNS, f"times on {vm}"))
    found = Table("model", "sprite", "blocks", "JSON, kB", "file, kB", title="sizes", box=box.SIMPLE_HEAD)
    for size in sizes:
        kilobytes = (f"{size[name] / 1e3:.1f}" for name in ("json", "file"))
        found.add_row(size["net"], size["sprite"], f"{size['blocks']:,}", *kilobytes)
    console.print(found)


def kept(
    command: str,
    rows: Sequence[Row],
    busy: float | None,
    versions: Mapping[str, str] = {},
    more: Mapping[str, Any] = {},
) -> Record:
    """Return the file of rows, with the versions of the virtual machines."""
    node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    machines = {"node": node, **dict(PACKAGES[vm] for vm in VMS), **versions}
    described = records.described(**{"share that others used": busy})
    return Record(command, rows, described, machines, more)
