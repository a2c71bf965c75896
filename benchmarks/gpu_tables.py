"""Tables and JSON of `benchmarks.cuda`."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from benchmarks.gpu_workloads import KERNELS, PARTS, GpuWorkload
from benchmarks.harness import processor
from benchmarks.race import Result
from benchmarks.tables import text

if TYPE_CHECKING:
    from benchmarks.gpu_kernels import Bound

OURS = "catgrad"
"""The first word of the names of our competitors."""

MANY = f"{OURS}, many steps a call"

COPY = "copy, bytes/s"
"""The name of the ceiling of kernels that move arrays."""

Row = dict[str, Any]


def cublas(precision: str) -> str:
    """Name the ceiling of products in a precision."""
    return f"cuBLAS {precision}, FLOP/s"


def step_row(workload: GpuWorkload, results: Mapping[str, Result]) -> Row:
    """Describe the results of a workload, with the ratio of our fastest form to the fastest peer.

    Calls of many steps are left out of this ratio: peers have none.
    """
    every = {
        name: {"seconds": r.seconds, "from": min(r.rounds), "to": max(r.rounds), "first": r.first}
        if r.rounds
        else {"reason": r.reason}
        for name, r in results.items()
    }
    timed = {name: r.seconds for name, r in results.items() if r.seconds is not None and name != MANY}
    ours, peers = ({n: s for n, s in timed.items() if n.startswith(OURS) is own} for own in (True, False))
    return {
        "part": workload.part, "workload": workload.name, "title": workload.title,
        "precision": workload.precision, "batch": workload.batch, "results": every,
    } | compared(ours, peers)  # fmt: skip


def kernel_row(name: str, each: Bound, seconds: Mapping[str, float], ceilings: Mapping[str, float]) -> Row:
    """Describe a kernel: what it achieves, and its share of the ceiling measured in the same run."""
    ceiling = ceilings[cublas(each.precision) if each.operations else COPY]
    amount = each.operations or each.bytes
    ours, peers = ({n: s for n, s in seconds.items() if n.startswith(OURS) is own} for own in (True, False))
    return {
        "part": KERNELS, "kernel": name, "bytes": each.bytes, "operations": each.operations,
        "seconds": dict(seconds), "a second": {n: amount / s for n, s in seconds.items()},
        "share of the ceiling": {n: amount / s / ceiling for n, s in seconds.items()},
    } | compared(ours, peers)  # fmt: skip


def compared(ours: Mapping[str, float], peers: Mapping[str, float]) -> Row:
    """Name the fastest of each side, and give the ratio of their times."""
    if not ours or not peers:
        return {"ours": None, "peer": None, "ratio": None}
    mine, best = min(ours, key=ours.__getitem__), min(peers, key=peers.__getitem__)
    return {"ours": mine, "peer": best, "ratio": ours[mine] / peers[best]}


def step_table(rows: Sequence[Row]) -> Table:
    """Compare all competitors by the time of one step."""
    names = list(dict.fromkeys(name for row in rows for name in row["results"]))
    table = Table("workload", *names, "fastest peer", "ratio", title="one training step", box=box.SIMPLE_HEAD)
    for row in rows:
        times = [text(row["results"].get(name, {}).get("seconds")) for name in names]
        table.add_row(row["title"], *times, row["peer"] or "none", ratio(row))
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
            row["peer"],
            ratio(row),
        )
    return table


def ratio(row: Row) -> str:
    """Format the ratio of a row: below 1, catgrad is faster."""
    return f"{row['ratio']:.3g}" if row["ratio"] else "–"


def reasons(rows: Sequence[Row]) -> list[str]:
    """List the reasons for missing figures."""
    return [
        f"{row['workload']}, {name}: {result['reason']}"
        for row in rows
        for name, result in row.get("results", {}).items()
        if "reason" in result
    ]


def keep(path: Path, part: str, rows: Sequence[Row], machine: Mapping[str, Any]) -> None:
    """Replace the rows of a part in the file of all parts, and the machine that they were measured on."""
    old = json.loads(path.read_text("utf-8")) if path.exists() else {"machines": {}, "rows": []}
    machines = old["machines"] | {
        part: {"processor": processor(), "python": platform.python_version(), **machine}
    }
    every = [row for row in old["rows"] if row["part"] != part] + list(rows)
    every.sort(key=lambda row: PARTS.index(row["part"]))
    whole = {"command": "python -m benchmarks.cuda", "machines": machines, "rows": every}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=1) + "\n")
