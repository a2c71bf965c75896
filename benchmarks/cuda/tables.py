"""Tables and JSON of `benchmarks.cuda`."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from benchmarks import records
from benchmarks.cpu.tables import text
from benchmarks.cuda.workloads import PARTS, GpuWorkload
from benchmarks.harness import processor
from benchmarks.race import Result

OURS = "catgrad"
"""The first word of the names of our competitors."""

MANY = f"{OURS}, many steps a call"

TF32 = "TF32"
"""The part of the names of competitors that multiply float32 so, in rows where others do not."""

PRECISIONS = {"bf16x6": "float32"}
"""The precision in which cuBLAS multiplies what we multiply in parts."""

COPY = "copy, bytes/s"
"""The name of the ceiling of kernels that move arrays."""

MOST_KERNELS = 20
"""The kernels of a step that are kept, the longest."""

Row = dict[str, Any]


def cublas(precision: str) -> str:
    """Name the ceiling of products in a precision."""
    return f"cuBLAS {precision}, FLOP/s"


def step_row(workload: GpuWorkload, results: Mapping[str, Result]) -> Row:
    """Describe the results of a workload, with the ratio of our fastest form to the fastest peer.

    Calls of many steps are left out of this ratio: peers have none.
    """
    every = {
        name: {
            "seconds": r.seconds,
            "from": min(r.rounds),
            "to": max(r.rounds),
            "first": r.first,
            "kernels": dict(list(r.kernels.items())[:MOST_KERNELS]),
            "in kernels": sum(r.kernels.values()),
        }
        if r.rounds
        else {"reason": r.reason}
        for name, r in results.items()
    }
    timed = {name: r.seconds for name, r in results.items() if r.seconds is not None and name != MANY}
    exact = {name: seconds for name, seconds in timed.items() if TF32 not in name}
    return {
        "part": workload.part, "workload": workload.name, "title": workload.title,
        "precision": workload.precision, "batch": workload.batch, "results": every,
        "ratio without TF32": compared(*sides(exact))["ratio"],
    } | compared(*sides(timed))  # fmt: skip


def sides(seconds: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the times of ours and those of peers."""
    ours = {name: time for name, time in seconds.items() if name.startswith(OURS)}
    return ours, {name: time for name, time in seconds.items() if name not in ours}


def kernel_row(part: str, name: str, each: Mapping[str, Any], ceilings: Mapping[str, float]) -> Row:
    """Describe a kernel: what it achieves, and its share of the ceiling measured in the same run."""
    ceiling = ceilings[
        cublas(PRECISIONS.get(each["precision"], each["precision"])) if each["operations"] else COPY
    ]
    amount, seconds = each["operations"] or each["bytes"], each["seconds"]
    return {
        "part": part, "kernel": name, "bytes": each["bytes"], "operations": each["operations"],
        "seconds": dict(seconds), "a second": {n: amount / s for n, s in seconds.items()},
        "share of the ceiling": {n: amount / s / ceiling for n, s in seconds.items()},
    } | compared(*sides(seconds))  # fmt: skip


def failed_kernel(part: str, name: str, reason: str) -> Row:
    """Describe a kernel that was not measured."""
    none: dict[str, float] = {}
    reasons = {"reason": reason, "seconds": none, "a second": none, "share of the ceiling": none}
    return {"part": part, "kernel": name, "bytes": 0, "operations": 0, **reasons} | compared(none, none)


def compared(ours: Mapping[str, float], peers: Mapping[str, float]) -> Row:
    """Name the fastest of each side, and give the ratio of their times."""
    if not ours or not peers:
        return {"ours": None, "peer": None, "ratio": None}
    mine, best = min(ours, key=ours.__getitem__), min(peers, key=peers.__getitem__)
    return {"ours": mine, "peer": best, "ratio": ours[mine] / peers[best]}


def step_table(rows: Sequence[Row]) -> Table:
    """Compare all competitors by the time of one step."""
    names = list(dict.fromkeys(name for row in rows for name in row["results"]))
    table = Table(
        "workload",
        *names,
        "fastest peer",
        "ratio",
        "without TF32",
        title="one training step",
        box=box.SIMPLE_HEAD,
    )
    for row in rows:
        times = [text(row["results"].get(name, {}).get("seconds")) for name in names]
        exact = ratio(row, "ratio without TF32")
        table.add_row(row["title"], *times, row["peer"] or "none", ratio(row), exact)
    return table


def kernel_table(rows: Sequence[Row]) -> Table:
    """Compare kernels by what they achieve a second, and by their share of the ceiling."""
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    table = Table("kernel", *names, "fastest peer", "ratio", title="kernels", box=box.SIMPLE_HEAD)
    for row in rows:
        scale, unit = (1e12, "TFLOP/s") if row["operations"] else (1e9, "GB/s")
        table.add_row(
            row["kernel"],
            *(
                f"{row['a second'][n] / scale:.4g} {unit}, {row['share of the ceiling'][n]:.0%}"
                if n in row["seconds"]
                else "–"
                for n in names
            ),
            row["peer"] or "none",
            ratio(row),
        )
    return table


def ratio(row: Row, which: str = "ratio") -> str:
    """Format a ratio of a row: below 1, catgrad is faster."""
    return f"{row[which]:.3g}" if row[which] else "–"


def reasons(rows: Sequence[Row]) -> list[str]:
    """List the reasons for missing figures."""
    found = [f"{row['kernel']}: {row['reason']}" for row in rows if "reason" in row]
    return found + [
        f"{row['workload']}, {name}: {result['reason']}"
        for row in rows
        for name, result in row.get("results", {}).items()
        if "reason" in result
    ]


def shares(row: Row) -> list[str]:
    """Say which kernels take the time of a step, of our fastest form and of the fastest peer."""
    return [
        f"{row['workload']}, {name}: {result['in kernels'] * 1e6:.1f} µs in kernels"
        f" of {result['seconds'] * 1e6:.1f}: "
        + ", ".join(f"{seconds / result['in kernels']:.0%} {kernel[:60]}" for kernel, seconds in longest)
        for name in filter(None, (row["ours"], row["peer"]))
        if (result := row["results"][name]) and (longest := list(result["kernels"].items())[:6])
    ]


def keep(path: Path, part: str, rows: Sequence[Row], machine: Mapping[str, Any]) -> None:
    """Put rows of a part in the file of all parts, in place of those with their names.

    Others of the part stay if they were measured on the same machine.
    """
    old = json.loads(path.read_text("utf-8")) if path.exists() else {"machines": {}, "rows": []}
    here = {"processor": processor(), "python": platform.python_version(), **machine}
    is_same = {**old["machines"].get(part, {}), **machine} == old["machines"].get(part)
    new = {name_of(row) for row in rows}
    every = [row for row in old["rows"] if row["part"] != part or (is_same and name_of(row) not in new)]
    every = sorted([*every, *rows], key=lambda row: PARTS.index(row["part"]))
    machines = old["machines"] | {part: here}
    whole = {"command": "python -m benchmarks.cuda", "machines": machines, "rows": every}
    records.keep(path, whole)


def name_of(row: Row) -> str:
    """Return what names a row in its part."""
    return str(row.get("kernel") or row.get("workload"))
