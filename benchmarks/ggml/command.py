"""Training steps on ggml: `python -m benchmarks.ggml`.

Compares the target `ggml` with autograd of PyTorch, and with ggml-opt on the same library where ggml can
derive the model. Each is a separate process with one thread. Their parameters after ten steps are compared
first; then the competitors of a row run alternately, and figures are medians of processor time. Our steps and
those of ggml-opt are loops in C++, those of PyTorch are a loop in Python.

$CATGRAD_GGML chooses another installation of ggml, such as a wheel with the products of llamafile, unpacked:

    pip wheel --no-cache-dir --no-deps ggml-python==0.0.45 -C cmake.define.GGML_LLAMAFILE=ON

The rows of a complete run replace those of the same build of ggml in benchmarks/results/ggml.json.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from catgrad.backends.ggml.tools import GGML, NEEDS
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import records
from benchmarks.cpu.command import FULL, QUICK, written
from benchmarks.cpu.tables import text
from benchmarks.ggml.workloads import GGML_OPT, GGML_WORKLOADS, OURS, PYTORCH, GgmlWorkload, workloads
from benchmarks.harness import RESULTS, errors_in_a_line, processor
from benchmarks.processes import Competitor, Process
from benchmarks.race import Race, Result
from benchmarks.workloads import STEP
from catgrad.errors import ToolError

CONSOLE = Console(width=150)
Row = dict[str, Any]


def competitors(workload: GgmlWorkload) -> tuple[Competitor, ...]:
    """Return the competitors: catgrad, then all peers."""
    steps = str(workload.steps)
    missing = "" if find_spec("torch") else "not installed: pip install torch"
    return (
        Competitor(OURS, "ggml_emitted", steps),
        Competitor(GGML_OPT, "ggml_opt", steps),
        Competitor(PYTORCH, "torch_eager", missing=missing),
    )


def agreeing(workload: GgmlWorkload, every: Sequence[Competitor], place: Path) -> list[Competitor]:
    """Leave out competitors whose parameters after ten steps are not those of the last one that can train."""
    expected: Mapping[str, np.ndarray] = {}
    found = []
    for competitor in reversed(every):
        reason, path = competitor.missing, place / f"{competitor.module}-trained.npz"
        try:
            if not reason and trained(competitor, place, path):
                parameters = dict(np.load(path))
                expected = expected or parameters
                reason = difference(parameters, expected, workload.tolerance)
        except ToolError as error:
            reason = f"failed: {error.found}"
        found.append(replace(competitor, missing=reason))
    return found[::-1]


def trained(competitor: Competitor, place: Path, path: Path) -> bool:
    """Write the parameters after ten steps to a file; return whether the competitor has such a step."""
    with Process(competitor, place, 1) as process:
        process.answer()
        return not process.ask("train", path=str(path)).get("absent")


def difference(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], tolerance: float) -> str:
    """Return a parameter that differs by more than the tolerance, if there is one."""
    for name, array in expected.items():
        worst = float(np.abs(found[name] - array).max())
        if not worst <= tolerance:
            return f"wrong: {name} differs by {worst:.2g} after ten steps"
    return ""


def measured(workload: GgmlWorkload, build: str, rounds: int, seconds: float) -> Row:
    """Race the competitors of a workload."""
    with CONSOLE.status(workload.title) as status, tempfile.TemporaryDirectory() as folder:
        place = written(workload, Path(folder))
        every = agreeing(workload, competitors(workload), place)
        race = Race(rounds, seconds, lambda text: status.update(f"{workload.name}: {text}"))
        return row(workload, build, race.run(every, place, 1, (STEP,))[STEP])


def row(workload: GgmlWorkload, build: str, results: Mapping[str, Result]) -> Row:
    """Describe the results of a workload, with the ratios of our time to those of peers."""
    mine = results[OURS].seconds
    peers = {name: r.seconds for name, r in results.items() if name != OURS}
    return {
        "ggml": build, "workload": workload.name, "title": workload.title, "goal": dict(workload.goal),
        "ratio": {name: mine / seconds for name, seconds in peers.items() if mine and seconds},
        "results": {
            name: {"seconds": r.seconds, "from": min(r.rounds), "to": max(r.rounds)}
            if r.rounds
            else {"reason": r.reason}
            for name, r in results.items()
        },
    }  # fmt: skip


def table(rows: Sequence[Row]) -> Table:
    """Compare our time with each peer's."""
    result = Table("workload", OURS, title=f"one training step, {rows[0]['ggml']}", box=box.SIMPLE_HEAD)
    for name in (GGML_OPT, PYTORCH):
        for heading in (name, "ratio", "goal"):
            result.add_column(heading)
    for each in rows:
        times = {name: text(found.get("seconds")) for name, found in each["results"].items()}
        cells = [
            cell
            for name in (GGML_OPT, PYTORCH)
            for cell in (times[name], shown(each["ratio"], name), shown(each["goal"], name, "≤ "))
        ]
        result.add_row(each["title"], times[OURS], *cells)
    return result


def shown(ratios: Mapping[str, float], name: str, sign: str = "") -> str:
    """Format the ratio to a peer, if there is one."""
    return f"{sign}{ratios[name]:.3g}" if name in ratios else ""


def reasons(rows: Sequence[Row]) -> list[str]:
    """List the reasons for missing figures, but for models that a peer does not take."""
    return [
        f"{each['workload']}, {name}: {result['reason']}"
        for each in rows
        for name, result in each["results"].items()
        if result.get("reason", "does not") != "does not"
    ]


def build_name() -> str:
    """Name the version of ggml, and whether it has the matrix products of llamafile."""
    from benchmarks.peers.ggml_opt import features

    return f"ggml {GGML.version()}" + (" with llamafile" if "LLAMAFILE" in features() else "")


def keep(path: Path, rows: Sequence[Row]) -> None:
    """Replace the rows of a build in the file of all builds."""
    old = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    machine = {"processor": processor(), "torch": version("torch") if find_spec("torch") else None}
    every = [each for each in old if each["ggml"] != rows[0]["ggml"]] + [{**each, **machine} for each in rows]
    records.keep(path, {"command": "python -m benchmarks.ggml", "rows": every})


def run(only: str, rounds: int, seconds: float, out: Path) -> bool:
    """Measure, print and keep; return whether catgrad never failed."""
    for tool in NEEDS:
        tool.require("benchmarks.ggml")
    chosen, build = workloads(only), build_name()
    rows = [measured(workload, build, rounds, seconds) for workload in chosen]
    CONSOLE.print(processor(), table(rows), highlight=False)
    for each in rows:
        for name, result in each["results"].items():
            if result.get("reason", "does not") != "does not":
                CONSOLE.print(
                    f"{each['workload']}, {name}: {result['reason']}", highlight=False, markup=False
                )
    if chosen == GGML_WORKLOADS and (rounds, seconds) == FULL:
        keep(out / "ggml.json", rows)
        CONSOLE.print(f"kept in {out / 'ggml.json'}")
    return all("seconds" in each["results"][OURS] for each in rows)


def main(
    only: Annotated[
        str, typer.Option(help=f"Workloads, with commas: {', '.join(w.name for w in GGML_WORKLOADS)}")
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Few short rounds, to see that all is well.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The folder of ggml.json.")] = RESULTS,
) -> None:
    """Measure training steps on ggml against ggml-opt and PyTorch, with one thread."""
    with errors_in_a_line(CONSOLE):
        if not run(only, *(QUICK if quick else FULL), out):
            raise typer.Exit(1)
