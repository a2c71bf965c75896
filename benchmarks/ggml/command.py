"""Training steps on ggml: `python -m benchmarks.ggml`.

Compares the target `ggml` with autograd of PyTorch, and with ggml-opt on the same library where ggml can
derive the model. Each is a separate process with one thread. Their parameters after ten steps are compared
first; then the competitors of a row run alternately, and figures are medians of processor time. Our steps and
those of ggml-opt are loops in C++, those of PyTorch are a loop in Python.

$CATGRAD_GGML chooses another installation of ggml, such as a wheel with the products of llamafile, unpacked:

    pip wheel --no-cache-dir --no-deps ggml-python==0.0.45 -C cmake.define.GGML_LLAMAFILE=ON

The rows of a run with `--keep` replace those of the same build of ggml in benchmarks/results/ggml.json.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import typer
from catgrad.backends.ggml.tools import GGML, NEEDS
from rich.console import Console

from benchmarks import records
from benchmarks.ggml.workloads import GGML_OPT, OURS, PYTORCH, GgmlWorkload, workloads
from benchmarks.harness import errors_in_a_line, processor
from benchmarks.options import FULL, QUICK, Keep, Only, Quick
from benchmarks.processes import Competitor, Process
from benchmarks.race import Race, Result
from benchmarks.records import Row
from benchmarks.tables import GOAL, WHAT, over, reasons, table, times
from benchmarks.workloads import STEP, written
from catgrad.errors import ToolError

CONSOLE = Console(width=150)
PATH = records.path_of("ggml")


def competitors(workload: GgmlWorkload) -> tuple[Competitor, ...]:
    """Return the competitors: catgrad, then all peers."""
    steps = str(workload.steps)
    missing = "" if find_spec("torch") else "not installed: pip install torch"
    return (
        Competitor(OURS, "catgrad_emitted", f"ggml/{steps}"),
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
    """Describe the results of a workload, whose goals name the peers that our time is compared with."""
    goal = ", ".join(f"{name} ≤ {ratio:g}" for name, ratio in workload.goal.items())
    figures = {name: result.figures() for name, result in results.items()}
    return Row(f"{workload.title}, {build}", figures, goal, {"workload": workload.name})


def beside(name: str) -> Callable[[Row], str]:
    """Return the cell of the ratio to a peer."""

    def cell(row: Row) -> str:
        mine, other = row.seconds(OURS), row.seconds(name)
        return over(mine / other if mine and other else None)

    return cell


COLUMNS = {
    **WHAT,
    **times([OURS]),
    **{
        heading: cell
        for name in (GGML_OPT, PYTORCH)
        for heading, cell in (*times([name]).items(), (f"ratio to {name}", beside(name)))
    },
    **GOAL,
}
"""Our time, that of each peer and the ratio to it, and the goals."""


def build_name() -> str:
    """Name the version of ggml, and whether it has the matrix products of llamafile."""
    from benchmarks.peers.ggml_opt import features

    return f"ggml {GGML.version()}" + (" with llamafile" if "LLAMAFILE" in features() else "")


def run(only: str, rounds: int, seconds: float, keep: bool) -> bool:
    """Measure, print and keep; return whether catgrad never failed."""
    for tool in NEEDS:
        tool.require("benchmarks.ggml")
    chosen, build = workloads(only), build_name()
    rows = [measured(workload, build, rounds, seconds) for workload in chosen]
    CONSOLE.print(processor(), table(rows, COLUMNS, f"one training step, {build}"), highlight=False)
    for reason in reasons(rows):
        CONSOLE.print(reason, highlight=False, markup=False)
    if keep:
        versions = {"torch": version("torch")} if find_spec("torch") else {}
        records.Record("python -m benchmarks.ggml --keep", rows, versions=versions).keep(PATH)
    return all(each.seconds(OURS) for each in rows)


def main(only: Only = "", quick: Quick = False, keep: Keep = False) -> None:
    """Measure training steps on ggml against ggml-opt and PyTorch, with one thread."""
    if keep and quick:
        raise typer.BadParameter("--keep is for whole rounds, without --quick")
    with errors_in_a_line(CONSOLE):
        if not run(only, *(QUICK if quick else FULL), keep):
            raise typer.Exit(1)
