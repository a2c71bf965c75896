"""Rows and tables of `benchmarks.cuda`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table

from benchmarks.cuda.workloads import GpuWorkload
from benchmarks.race import Result
from benchmarks.records import OURS, Row, fastest
from benchmarks.tables import BESIDE, WHAT, names_of, over, table, times

MANY = f"{OURS}, many steps a call"
TF32 = "TF32"
"""The part of the names of competitors that multiply float32 so, in rows where others do not."""
PRECISIONS = {"bf16x6": "float32"}
"""The precision in which cuBLAS multiplies what we multiply in parts."""
COPY = "copy, bytes/s"
"""The name of the ceiling of kernels that move arrays."""
MOST_KERNELS = 20
"""The kernels of a step that are kept, the longest."""


def cublas(precision: str) -> str:
    """Name the ceiling of products in a precision."""
    return f"cuBLAS {precision}, FLOP/s"


def step_row(workload: GpuWorkload, results: Mapping[str, Result]) -> Row:
    """Describe the results of a workload, with the longest kernels of each competitor."""
    every = {name: result.figures() for name, result in results.items()}
    for figures in every.values():
        if kernels := figures.get("kernels"):
            figures["in kernels"] = sum(kernels.values())
            figures["kernels"] = dict([*kernels.items()][:MOST_KERNELS])
    names = ("part", "name", "precision", "batch")
    return Row(workload.title, every, facts={name: getattr(workload, name) for name in names})


def kernel_row(part: str, name: str, each: Mapping[str, Any], ceilings: Mapping[str, float]) -> Row:
    """Describe a kernel, with the ceiling measured in the same run."""
    precision = PRECISIONS.get(each["precision"], each["precision"])
    ceiling = ceilings[cublas(precision) if each["operations"] else COPY]
    facts = {"bytes": each["bytes"], "operations": each["operations"], "ceiling": ceiling}
    results = {competitor: {"seconds": seconds} for competitor, seconds in each["seconds"].items()}
    return Row(name, results, facts={"part": part, **facts})


def failed_kernel(part: str, name: str, reason: str) -> Row:
    """Describe a kernel that was not measured."""
    return Row(name, {OURS: {"reason": reason}}, facts={"part": part, "bytes": 0, "operations": 0})


def sides(row: Row, exact: bool = False) -> tuple[str | None, str | None]:
    """Return the fastest forms of one step of ours and of peers, only those without TF32 if `exact`.

    Calls of many steps are left out: peers have none.
    """
    mine, other = (
        fastest({n: t for n, t in times.items() if n != MANY and not (exact and TF32 in n)})
        for times in (row.ours(), row.peers())
    )
    return mine, other


def ratio(row: Row, exact: bool = False) -> float | None:
    """Return the time of our fastest form of a step over that of the fastest peer."""
    mine, other = sides(row, exact)
    return row.ours()[mine] / row.peers()[other] if mine and other else None


def step_table(rows: Sequence[Row]) -> Table:
    """Compare all competitors by the time of one step."""
    columns = {
        **WHAT,
        **times(names_of(rows)),
        "fastest peer": BESIDE["fastest peer"],
        "ratio": lambda row: over(ratio(row)),
        "without TF32": lambda row: over(ratio(row, exact=True)),
    }
    return table(rows, columns, "one training step")


def rate(name: str) -> Callable[[Row], str]:
    """Return the cell of what a competitor achieves a second, and of its share of the ceiling."""

    def cell(row: Row) -> str:
        if not (seconds := row.seconds(name)):
            return "–"
        amount, scale, unit = (
            (row.facts["operations"], 1e12, "TFLOP/s")
            if row.facts["operations"]
            else (row.facts["bytes"], 1e9, "GB/s")
        )
        return f"{amount / seconds / scale:.4g} {unit}, {amount / seconds / row.facts['ceiling']:.0%}"

    return cell


def kernel_table(rows: Sequence[Row]) -> Table:
    """Compare kernels by what they achieve a second, and by their share of the ceiling."""
    columns = {name: rate(name) for name in names_of(rows)}
    ends = {name: BESIDE[name] for name in ("fastest peer", "ratio")}
    return table(rows, {"kernel": WHAT["what"], **columns, **ends}, "kernels")


def shares(row: Row) -> list[str]:
    """Say which kernels take the time of a step, of our fastest form and of the fastest peer."""
    return [
        f"{row.facts['name']}, {name}: {result['in kernels'] * 1e6:.1f} µs in kernels"
        f" of {result['seconds'] * 1e6:.1f}: "
        + ", ".join(f"{seconds / result['in kernels']:.0%} {kernel[:60]}" for kernel, seconds in longest)
        for name in filter(None, sides(row))
        if (result := row.results[name]) and (longest := [*result.get("kernels", {}).items()][:6])
    ]
