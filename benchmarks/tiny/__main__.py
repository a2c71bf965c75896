"""Training on microcontrollers: `python -m benchmarks.tiny --aifes FOLDER`.

Builds a step of the four networks of MLPerf Tiny for a Cortex-M4, with all parameters or only the last layer
trained, one example in a step, and counts its instructions in QEMU. Compares dense networks with AIfES, if
its folder is given. Takes three minutes; `--keep` writes benchmarks/results/tiny.json and
docs/howto/microcontroller.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.harness import ROOT, errors_in_a_line
from benchmarks.machine import operations
from benchmarks.options import Keep, Only, is_chosen
from benchmarks.records import Record, Row, path_of
from benchmarks.tables import cells, counted, fact, figure, markdown, text
from benchmarks.tables import keep as keep_tables
from benchmarks.tiny import build, peers
from benchmarks.tiny.nets import NETS, task
from catgrad.errors import ToolError
from catgrad.learn.optimisers import Optimiser, frozen, grouped, sgd

JSON, PAGE = path_of("tiny"), ROOT / "docs/howto/microcontroller.md"
SGD = sgd(0.01)
LAST = ("scores.", "dense_9.")
PARTS: Mapping[str, Optimiser] = {
    "all": SGD,
    "last layer": grouped(lambda p: SGD if p.name.startswith(LAST) else frozen()),
}
FIGURES = {
    "parameter_bytes": "parameters",
    "workspace_bytes": "workspace",
    "stack_bytes": "stack",
    "code_bytes": "flash",
    "multiplications": "multiply-adds",
    "instructions": "instructions",
}
"""The figures of a step of one network, memory in bytes, with the headings of their columns."""
PEER_HEADINGS = ("network", "library", "workspace", "time", "stack", "flash", "instructions")
CONSOLE = Console(width=130)


def measured(net: str, part: str, folder: Path) -> Row:
    """Build and run one network."""
    each = task(NETS[net](), PARTS[part])
    memory = build.write(folder, each, 0.1)
    board = build.on_board(folder, ["trainer.c", "tiny.c"])
    parameters = sum(4 * slot.type.size for slot in each.parameters)
    count = operations(each, "step") // 2
    numbers = parameters, memory, board.stack, board.code, count, board.instructions
    figures = dict(zip(FIGURES, numbers, strict=True))
    return Row(f"{net}, {part}", {peers.OURS: figures}, facts={"net": net, "trained": part})


def table(rows: Sequence[Row]) -> str:
    """Return the table of networks in Markdown."""
    columns = {heading: figure(name, counted) for name, heading in FIGURES.items()}
    return markdown(*cells(rows, {"network": fact("net"), "trained": fact("trained"), **columns}))


def peer_table(rows: Sequence[Row]) -> str:
    """Return the comparison in Markdown."""
    return markdown(
        PEER_HEADINGS,
        [
            [
                row.what,
                library,
                counted(found["training_bytes"]),
                text(found["seconds"]),
                *(counted(found[name]) for name in ("stack_bytes", "code_bytes", "instructions")),
            ]
            for row in rows
            for library, found in row.results.items()
        ],
    )


def tables(rows: Sequence[Row]) -> list[str]:
    """Return the comparison, and the table of networks."""
    nets = [row for row in rows if "net" in row.facts]
    return [peer_table([row for row in rows if row not in nets]), table(nets)]


def main(
    aifes: Annotated[Path | None, typer.Option(help="The folder of AIfES 2.2, to compare with.")] = None,
    only: Only = "",
    keep: Keep = False,
) -> None:
    """Measure training on a Cortex-M4."""
    if keep and aifes is None:
        raise typer.BadParameter("--keep needs --aifes: get github.com/Fraunhofer-IMS/AIfES_for_Arduino")
    with errors_in_a_line(CONSOLE), tempfile.TemporaryDirectory() as scratch:
        if reason := build.missing():
            raise ToolError("the programs must be built for a Cortex-M4", reason, "install it")
        rows = []
        for number, (net, part) in enumerate((net, part) for net in NETS for part in PARTS):
            if is_chosen(net, only):
                with CONSOLE.status(f"{net}, {part}"):
                    rows.append(measured(net, part, Path(scratch) / str(number)))
        rows += peers.rows(aifes, Path(scratch))
    print(*tables(rows), sep="\n\n")
    if keep:
        keep_tables(Record("python -m benchmarks.tiny --aifes FOLDER --keep", rows), JSON, PAGE, tables)


if __name__ == "__main__":
    typer.run(main)
