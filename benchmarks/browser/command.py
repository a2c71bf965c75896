"""Training steps in JavaScript engines: `python -m benchmarks.browser`.

Compares the targets `wasm` and `javascript` with TensorFlow.js (backends wasm and cpu) and jax-js (wasm) in
Node.js, each in a process, with the same parameters and batch; a competitor whose losses differ is left out.
They run alternately, and figures are the least of several rounds, in processor time of a whole process. Bytes
are those of the files that a page loads, as gzip compresses them. Peers are installed under .cache by npm at
first use. `--keep` writes benchmarks/results/browser.json, and `--show` prints it.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catgrad.backends.wasm.build import library
from rich.console import Console

from benchmarks import records, tables
from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.harness import ROOT, errors_in_a_line
from benchmarks.options import Keep, Only, Rounds, Seconds, Show
from benchmarks.processes import Competitor
from benchmarks.race import Race
from benchmarks.records import Record, Row
from benchmarks.tables import BESIDE, WHAT, names_of, reasons, table, times
from benchmarks.workloads import STEP, Workload, named
from catgrad import emit
from catgrad.formats import safetensors

COMMAND = "python -m benchmarks.browser"
PATH = records.path_of("browser")
PEERS = ROOT / ".cache" / "peers" / "browser"
PROGRAMS = ROOT / "benchmarks" / "peers" / "browser"
PACKAGES = {"@tensorflow/tfjs": "4.22.0", "@tensorflow/tfjs-backend-wasm": "4.22.0", "@jax-js/jax": "0.1.25"}
NAMES = ("iris-150", "mlp", "lenet", "char-gpt")
THREADED = "wasm-openmp"
OURS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("javascript", "javascript", {}),
    ("wasm", "wasm", {}),
    ("wasm", THREADED, {"openmp": True}),
)
"""Targets with their folders and options."""
GOAL = 0.5
"""The target of the ratio of our time to the best peer's."""
CONSOLE = Console(width=150)


@dataclass(frozen=True)
class NodeCompetitor(Competitor):
    """A program in JavaScript, run by Node.js, whose word is that of a backend."""

    def command(self, folder: Path, threads: int) -> list[Any]:
        """Return the command of its process."""
        return ["node", PROGRAMS / "worker.mjs", PROGRAMS / f"{self.module}.mjs", folder, PEERS, self.word]


def competitors() -> tuple[Competitor, ...]:
    """Return ours, then the peers."""
    return (
        NodeCompetitor("catgrad wasm", "catgrad", "wasm"),
        NodeCompetitor("catgrad javascript", "catgrad", "javascript"),
        NodeCompetitor("tfjs, wasm", "tfjs", "wasm"),
        NodeCompetitor("tfjs, cpu", "tfjs", "cpu"),
        NodeCompetitor("jax-js, wasm", "jax_js", "wasm"),
    )


def installed() -> Path:
    """Return the folder of the peers' packages, which npm installs at first use."""
    wanted = json.dumps({"private": True, "dependencies": PACKAGES})
    path = PEERS / "package.json"
    if not (PEERS / "node_modules").exists() or path.read_text("utf-8") != wanted:
        PEERS.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted)
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(command, cwd=PEERS, check=True)
    return PEERS


def written(workload: Workload, folder: Path) -> Path:
    """Write the workload and the modules of ours; returns their folder."""
    place = folder / workload.name
    for target, name, options in OURS:
        artifact = emit(workload.task, target, **options)
        artifact.write(place / name)
        if target == "wasm":
            shutil.copy(library(artifact), place / name / f"{artifact.program.name}.wasm")
    (place / "workload.json").write_text(json.dumps(workload.spec()))
    safetensors.write(place / "parameters.safetensors", workload.parameters())
    safetensors.write(place / "data.safetensors", workload.data())
    return place


def row_of(workload: Workload, place: Path, every: Sequence[Competitor], race: Race) -> Row:
    """Race competitors."""
    results = race.run(every, place, 1, (STEP,))[STEP]
    figures = {name: result.figures() for name, result in results.items()}
    return Row(workload.title, figures, f"≤ {GOAL}", {"workload": workload.name})


def shipped(place: Path) -> dict[str, int]:
    """Count the bytes that a page loads to train, as gzip compresses them."""

    def size(*paths: Path) -> int:
        return sum(len(gzip.compress(path.read_bytes(), 9, mtime=0)) for path in paths)

    modules, tfjs = PEERS / "node_modules", PEERS / "node_modules" / "@tensorflow"
    backend = tfjs / "tfjs-backend-wasm" / "dist"
    jax = modules / "@jax-js" / "jax" / "dist"
    return {
        "wasm": size(*place.glob("wasm/*.mjs"), *place.glob("wasm/*.wasm")),
        "javascript": size(*place.glob("javascript/*.mjs")),
        "tfjs, cpu": size(tfjs / "tfjs" / "dist" / "tf.fesm.min.js"),
        "tfjs, wasm": size(
            tfjs / "tfjs" / "dist" / "tf.fesm.min.js",
            backend / "tf-backend-wasm.fesm.min.js",
            backend / "tfjs-backend-wasm-simd.wasm",
        ),
        "jax-js, wasm, not minified": size(
            jax / "index.js", *jax.glob("backend-*.js"), *jax.glob("rolldown-*.js")
        ),
    }


def show(found: Record) -> None:
    """Print the tables."""
    columns = {**WHAT, **times(names_of(found.rows)), **BESIDE, **tables.GOAL}
    CONSOLE.print(table(found.rows, columns, f"one training step, {found.machine['processor']}"))
    for reason in reasons(found.rows):
        CONSOLE.print(reason, highlight=False, markup=False)
    for name, size in found.more["bytes"].items():
        CONSOLE.print(f"bytes of the MLP, {name}: {size / 1000:.1f} kB")


def run(workloads: Sequence[Workload], rounds: int, seconds: float) -> Record:
    """Measure workloads."""
    installed()
    rows, sizes = [], dict[str, int]()
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder, CONSOLE.status("modules") as status:
        race = Race(rounds, seconds, status.update, middle=min)
        places = [written(workload, Path(folder)) for workload in workloads]
        for workload, place in zip(workloads, places, strict=True):
            rows.append(row_of(workload, place, competitors(), race))
            sizes = shipped(place) if workload.name == "mlp" else sizes
    return Record(f"{COMMAND} --keep", rows, versions={"node": node, **PACKAGES}, more={"bytes": sizes})


def main(
    only: Only = "", rounds: Rounds = 9, seconds: Seconds = 0.3, keep: Keep = False, show_kept: Show = False
) -> None:
    """Measure training steps in Node.js."""
    with errors_in_a_line(CONSOLE):
        if show_kept:
            show(records.read(PATH))
            return
        found = run(named(WORKLOADS, only or ",".join(NAMES), COMMAND), rounds, seconds)
        show(found)
        if keep:
            found.keep(PATH)
