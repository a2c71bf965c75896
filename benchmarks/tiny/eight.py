"""Eight bits on microcontrollers: `python -m benchmarks.tiny.eight`.

Builds predictions and training steps of the four networks of MLPerf Tiny, and of MCUNet, for a Cortex-M4, in
float32 and in int8, one example at a time, with weights in flash, and counts their instructions in QEMU.
Takes half an hour; `--keep` writes benchmarks/results/tiny_eight.json and docs/howto/microcontroller.md.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import typer
from catgrad.backends.c.cross import gcc
from rich.console import Console

from benchmarks.harness import ROOT, errors_in_a_line
from benchmarks.options import Keep, Only, is_chosen
from benchmarks.records import OURS, Record, Row, path_of
from benchmarks.tables import cells, counted, fact, figure, markdown
from benchmarks.tables import keep as keep_tables
from benchmarks.tiny import build
from benchmarks.tiny.mcunet import SPARSE, mcunet
from benchmarks.tiny.nets import NETS, task
from catgrad import Artifact, Dtype, Task, emit
from catgrad.errors import ToolError
from catgrad.formats import safetensors
from catgrad.learn.optimisers import frozen, grouped, sgd
from catgrad.quantisation import quantise
from catgrad.terms.term import Term

JSON, PAGE = path_of("tiny_eight"), ROOT / "docs/howto/microcontroller.md"
SGD = sgd(0.01)
LAST = ("scores.", "dense_9.")
NAMES = Callable[[str], bool]


@dataclass(frozen=True)
class Part:
    """A function of the program, and the parameters that train, by their names."""

    function: str
    trains: NAMES = lambda name: False
    whole: bool = True
    """True if all layers from the first that trains on are in int8, False if the last is in float32."""
    stored: bool = False
    """True if what trains is stored in int8."""


PARTS: Mapping[str, Part] = {
    "predict": Part("predict"),
    "last layer": Part("step", lambda name: name.startswith(LAST), whole=False),
    "biases, last layer": Part("step", lambda name: name.startswith(LAST) or name.endswith("bias")),
}
STORED = "chosen in int8"
MCUNET: Mapping[str, Part] = {
    **PARTS,
    "chosen": Part("step", SPARSE.__contains__),
    STORED: Part("step", SPARSE.__contains__, stored=True),
}
NUMBERS = ("float32", "int8")
FIGURES = {
    "trained_bytes": "parameters",
    "workspace_bytes": "workspace",
    "stack_bytes": "stack",
    "code_bytes": "flash",
    "instructions": "instructions",
}
"""The figures of a function, memory in bytes, with the headings of their columns."""
TYPES = {"int8": "int8_t", "float32": "float", "int64": "int64_t"}
CONSOLE = Console(width=130)


def random_arrays(each: Task) -> dict[str, np.ndarray]:
    """Draw weights whose products keep their variance, and small biases."""
    rng = np.random.default_rng(0)

    def drawn(shape: tuple[int, ...]) -> np.ndarray:
        fan = prod(shape[1:]) if len(shape) > 2 else shape[0] if len(shape) == 2 else 200
        return (rng.normal(size=shape) * (2 / fan) ** 0.5).astype(np.float32)

    return {p.name: drawn(p.type.shape) for p in each.parameters}


def inputs(each: Task) -> tuple[np.ndarray, np.ndarray]:
    """Draw an example, and its class, or itself again."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, each.inputs[0].shape).astype(np.float32)
    return x, x if each.targets == each.outputs else np.zeros(1, np.int64)


def prepared(net: Callable[[], Term], part: Part, numbers: str) -> tuple[Task, dict[str, np.ndarray]]:
    """Return the task of a part in these numbers, and its trained arrays by name."""
    model = net()
    each = task(model, grouped(lambda p: SGD if part.trains(p.name) else frozen()))
    arrays = random_arrays(each)
    if numbers == "float32":
        return each, arrays
    example, trained = inputs(each), [name for name in arrays if part.trains(name)]
    if part.function == "predict":
        options: dict[str, Any] = {"inputs": Dtype.int8, "outputs": Dtype.int8}
    elif part.whole:
        options = {"inputs": Dtype.int8, "train": trained}
        options |= {"parameters": Dtype.int8} if part.stored else {}
    else:
        options = {"inputs": Dtype.int8, "keep": trained}
    data = [example] if "train" in options else [example[0]]
    small = quantise(task(model, SGD), arrays, data, **options)
    return small, {s.name: s.initial.array for s in (*small.buffers, *small.stored)}


def emitted(each: Task, arrays: Mapping[str, np.ndarray], function: str, folder: Path) -> Artifact:
    """Emit one function for a microcontroller, with all arrays as constants."""
    safetensors.write(folder / "weights.safetensors", arrays)
    weights = str(folder / "weights.safetensors")
    return emit(each, "c", functions=(function,), microcontroller=True, weights=weights)


def write(folder: Path, artifact: Artifact, part: Part) -> dict[str, int]:
    """Write the library, and the program around it; return the bytes of workspace and trained arrays."""
    artifact.write(folder)
    told = json.loads(artifact.files["manifest.json"])
    [called] = [f for f in told["functions"] if f["name"].endswith(f"_{part.function}")]
    trained = [
        {**array, "table": table}
        for table, arrays in told["tables"].items()
        if table in called["tables"]
        for array in arrays
        if table == "state" or (table == "parameters" and part.trains(array["name"]))
    ]
    ports = [{"dtype": port["dtype"], "size": prod(port["shape"])} for port in called["inputs"]]
    workspace = int(called["workspace_bytes"])
    [output, *_] = [{"dtype": port["dtype"], "size": prod(port["shape"])} for port in called["outputs"]]
    (folder / "trainer.c").write_text(
        build.rendered(
            "flash.c.j2", name=told["prefix"], tables=called["tables"], trained=build.sized(trained),
            input=ports[0], target=ports[-1], output=output, function=part.function, workspace=workspace,
            types=TYPES,
        )
    )  # fmt: skip
    return {
        "trained_bytes": sum(Dtype[a["dtype"]].numpy.itemsize * prod(a["shape"]) for a in trained),
        "workspace_bytes": workspace,
    }


def measured(net: str, part: str, numbers: str, folder: Path) -> Row:
    """Build and run a function of a network."""
    folder.mkdir()
    chosen = (MCUNET if net == "MCUNet" else PARTS)[part]
    each, arrays = prepared(mcunet if net == "MCUNet" else NETS[net], chosen, numbers)
    memory = write(folder, emitted(each, arrays, chosen.function, folder), chosen)
    board = build.on_board(folder, ["trainer.c", "tiny.c"], machine=gcc())
    figures = {
        **memory,
        "stack_bytes": board.stack,
        "code_bytes": board.code,
        "instructions": board.instructions,
    }
    facts = {"net": net, "numbers": numbers, "trained": part}
    return Row(f"{net}, {numbers}, {part}", {OURS: figures}, facts=facts)


def table(rows: Sequence[Row]) -> str:
    """Return the table in Markdown."""
    columns = {heading: figure(name, counted) for name, heading in FIGURES.items()}
    facts = {"network": fact("net"), "numbers": fact("numbers"), "trains": fact("trained")}
    return markdown(*cells(rows, {**facts, **columns}))


def main(only: Only = "", keep: Keep = False) -> None:
    """Measure float32 and int8 on a Cortex-M4."""
    rows = []
    with errors_in_a_line(CONSOLE), tempfile.TemporaryDirectory() as scratch:
        if reason := gcc().missing():
            raise ToolError("the programs must be built for a Cortex-M4", reason, "install it")
        cases = [
            (net, numbers, part)
            for net in (*NETS, "MCUNet")
            for numbers in NUMBERS
            for part in (MCUNET if net == "MCUNet" else PARTS)
            if not (part == STORED and numbers == "float32")
        ]
        for number, (net, numbers, part) in enumerate(cases):
            if is_chosen(f"{net} {numbers} {part}", only):
                with CONSOLE.status(f"{net}, {numbers}, {part}"):
                    rows.append(measured(net, part, numbers, Path(scratch) / str(number)))
                print(rows[-1].what, rows[-1].results[OURS], flush=True)
    print(table(rows))
    if keep:
        keep_tables(Record("python -m benchmarks.tiny.eight --keep", rows), JSON, PAGE, lambda r: [table(r)])


if __name__ == "__main__":
    typer.run(main)
