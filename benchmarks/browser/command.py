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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from catgrad.backends.host.process import JsonProcess
from catgrad.backends.wasm.build import library
from rich.console import Console
from rich.table import Table

from benchmarks import records
from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.harness import RESULTS, ROOT, duration, errors_in_a_line, processor
from benchmarks.workloads import Workload, named
from catgrad import emit
from catgrad.errors import ToolError
from catgrad.formats import safetensors

PATH = RESULTS / "browser.json"
PEERS = ROOT / ".cache" / "peers" / "browser"
PROGRAMS = ROOT / "benchmarks" / "peers" / "browser"
PACKAGES = {
    "@tensorflow/tfjs": "4.22.0",
    "@tensorflow/tfjs-backend-wasm": "4.22.0",
    "@jax-js/jax": "0.1.25",
}
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
TOLERANCE = 1e-3
"""The greatest relative difference of a loss."""
FIRST_STEPS = 3
WARM_STEPS, WARM_SECONDS = 20, 2.0
"""The steps before a measurement, of which there are fewer if they take long."""
CONSOLE = Console(width=150)


@dataclass
class Competitor:
    """A program with its backend, and its figures."""

    name: str
    program: str
    backend: str
    rounds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    failed: str = ""

    @property
    def seconds(self) -> float | None:
        """The least time of a step."""
        return min(self.rounds) if self.rounds and not self.failed else None


def competitors() -> list[Competitor]:
    """Return ours, then the peers."""
    return [
        Competitor("wasm", "catgrad.mjs", "wasm"),
        Competitor("javascript", "catgrad.mjs", "javascript"),
        Competitor("tfjs, wasm", "tfjs.mjs", "wasm"),
        Competitor("tfjs, cpu", "tfjs.mjs", "cpu"),
        Competitor("jax-js, wasm", "jax_js.mjs", "wasm"),
    ]


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


def steps(process: JsonProcess, competitor: Competitor, count: int) -> float:
    """Do some steps; returns the seconds of one, and notes the loss of the last. Raises: ToolError"""
    answer = process.exchange(competitor.name, {"steps": count})
    if "error" in answer:
        raise ToolError(f"{competitor.name} must train", answer["error"], "leave it out")
    competitor.losses.append(answer["loss"])
    return float(answer["seconds"]) / count


def race(place: Path, every: Sequence[Competitor], rounds: int, seconds: float) -> None:
    """Time all competitors alternately, once their first losses have been compared with those of ours."""
    processes, counts = dict[str, JsonProcess](), dict[str, int]()
    for each in every:
        words = [PROGRAMS / each.program, place, PEERS, each.backend]
        processes[each.name] = JsonProcess(each.name, ["node", PROGRAMS / "worker.mjs", *words])
        try:
            took = [steps(processes[each.name], each, 1) for _ in range(FIRST_STEPS)]
            if not np.allclose(each.losses, every[0].losses[:FIRST_STEPS], rtol=TOLERANCE):
                each.failed = f"its losses are {each.losses}, and ours {every[0].losses[:FIRST_STEPS]}"
                continue
            count = max(1, min(WARM_STEPS, int(WARM_SECONDS / max(took[-1], 1e-6))))
            warm = steps(processes[each.name], each, count)
            counts[each.name] = max(1, int(seconds / max(warm, 1e-6)))
        except ToolError as error:
            each.failed = error.found
    for _ in range(rounds):
        for each in every:
            if not each.failed:
                each.rounds.append(steps(processes[each.name], each, counts[each.name]))
    for process in processes.values():
        process.close()


def row_of(workload: Workload, every: Sequence[Competitor]) -> dict[str, Any]:
    """Return the figures of a workload for JSON."""
    times = {each.name: each.seconds for each in every}
    peers = {name: s for name, s in times.items() if s is not None and name not in ("wasm", "javascript")}
    best = min(peers, key=lambda name: peers[name]) if peers else None
    return {
        "workload": workload.name,
        "title": workload.title,
        "seconds": times,
        "failed": {each.name: each.failed for each in every if each.failed},
        "best peer": best,
        "goal": GOAL,
        "ratio": {
            name: times[name] / peers[best] if best and times[name] is not None else None  # type: ignore[operator]
            for name in ("wasm", "javascript")
        },
    }


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


def show(found: Mapping[str, Any]) -> None:
    """Print the tables."""
    table = Table("step", "wasm", "javascript", "tfjs, wasm", "tfjs, cpu", "jax-js, wasm", "wasm / best peer")
    for row in found["rows"]:
        times = [duration(s) if s else "–" for s in row["seconds"].values()]
        ratio = row["ratio"]["wasm"]
        table.add_row(row["title"], *times, f"{ratio:.3f}" if ratio else "–")
    CONSOLE.print(table)
    for row in found["rows"]:
        for name, reason in row["failed"].items():
            CONSOLE.print(f"{row['workload']}: {name} is left out: {reason}")
    for name, size in found["bytes"].items():
        CONSOLE.print(f"bytes of the MLP, {name}: {size / 1000:.1f} kB")


def run(workloads: Sequence[Workload], rounds: int, seconds: float) -> dict[str, Any]:
    """Measure workloads; returns the figures for JSON."""
    installed()
    rows, sizes = [], dict[str, int]()
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        places = [written(workload, Path(folder)) for workload in workloads]
        for workload, place in zip(workloads, places, strict=True):
            every = competitors()
            race(place, every, rounds, seconds)
            rows.append(row_of(workload, every))
            sizes = shipped(place) if workload.name == "mlp" else sizes
    return {
        "command": "python -m benchmarks.browser --keep",
        "machine": {"processor": processor(), "node": node},
        "peers": PACKAGES,
        "rows": rows,
        "bytes": sizes,
    }


def main(
    only: Annotated[str, typer.Option(help="Names of workloads, with commas between.")] = "",
    rounds: Annotated[int, typer.Option(help="Rounds of each competitor.")] = 9,
    seconds: Annotated[float, typer.Option(help="Seconds of a competitor in a round.")] = 0.3,
    keep: Annotated[bool, typer.Option("--keep", help="Write benchmarks/results/browser.json.")] = False,
    shown: Annotated[bool, typer.Option("--show", help="Print the figures that were kept.")] = False,
) -> None:
    """Measure training steps in Node.js."""
    with errors_in_a_line(CONSOLE):
        if shown:
            show(json.loads(PATH.read_text("utf-8")))
            return
        workloads = named(WORKLOADS, only or ",".join(NAMES), "python -m benchmarks.browser")
        found = run(workloads, rounds, seconds)
        show(found)
        if keep:
            records.keep(PATH, found)
