"""Training on microcontrollers: `python -m benchmarks.tiny --aifes FOLDER`.

Builds a step of the four networks of MLPerf Tiny for a Cortex-M4, with all parameters or only the last layer
trained, one example in a step, and counts its instructions in QEMU. Compares dense networks with AIfES, if
its folder is given. Takes three minutes; the figures are kept in benchmarks/results/tiny.json and in
docs/howto/microcontroller.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import records
from benchmarks.harness import RESULTS, ROOT, duration, errors_in_a_line, processor
from benchmarks.machine import operations
from benchmarks.pages import markdown, write_table
from benchmarks.tiny import build, peers
from benchmarks.tiny.nets import NETS, task
from benchmarks.tiny.peers import PeerRow
from catgrad.errors import ToolError
from catgrad.learn.optimisers import Optimiser, frozen, grouped, sgd

JSON, PAGE = RESULTS / "tiny.json", ROOT / "docs/howto/microcontroller.md"
SGD = sgd(0.01)
LAST = ("scores.", "dense_9.")
PARTS: Mapping[str, Optimiser] = {
    "all": SGD,
    "last layer": grouped(lambda p: SGD if p.name.startswith(LAST) else frozen()),
}
HEADINGS = (
    "network", "trained", "parameters", "workspace", "stack", "flash", "multiply-adds", "instructions",
)  # fmt: skip
PEER_HEADINGS = ("network", "library", "workspace", "time", "stack", "flash", "instructions")
CONSOLE = Console(width=130)


@dataclass(frozen=True)
class Row:
    """The figures of a step of one network; memory in bytes."""

    net: str
    trained: str
    parameter_bytes: int
    workspace_bytes: int
    stack_bytes: int | None
    code_bytes: int
    multiplications: int
    instructions: int | None


def measured(net: str, part: str, folder: Path) -> Row:
    """Build and run one network."""
    each = task(NETS[net](), PARTS[part])
    memory = build.write(folder, each, 0.1)
    board = build.on_board(folder, ["trainer.c", "tiny.c"])
    parameters = sum(4 * slot.type.size for slot in each.parameters)
    count = operations(each, "step") // 2
    return Row(net, part, parameters, memory, board.stack, board.code, count, board.instructions)


def table(rows: Sequence[Row]) -> str:
    """Return the table of networks in Markdown."""
    return markdown(
        HEADINGS, [[row.net, row.trained, *map(counted, list(asdict(row).values())[2:])] for row in rows]
    )


def peer_table(rows: Sequence[PeerRow]) -> str:
    """Return the comparison in Markdown."""
    return markdown(
        PEER_HEADINGS,
        [
            [
                row.net, row.library, counted(row.training_bytes), duration(row.seconds),
                *map(counted, (row.stack_bytes, row.code_bytes, row.instructions)),
            ]
            for row in rows
        ],
    )  # fmt: skip


def counted(number: int | None) -> str:
    """Return a number with separators, or a dash."""
    return "–" if number is None else f"{number:,}"


def keep(rows: Sequence[Row], compared: Sequence[PeerRow]) -> None:
    """Write the JSON and the page."""
    whole: dict[str, Any] = {
        "command": "python -m benchmarks.tiny --aifes FOLDER", "processor": processor(),
        "rows": [asdict(row) for row in rows], "peers": [asdict(row) for row in compared],
    }  # fmt: skip
    records.keep(JSON, whole)
    write_table(PAGE, table(rows))
    write_table(PAGE, peer_table(compared))


def main(
    aifes: Annotated[Path | None, typer.Option(help="The folder of AIfES 2.2, to compare with.")] = None,
) -> None:
    """Measure training on a Cortex-M4."""
    with errors_in_a_line(CONSOLE), tempfile.TemporaryDirectory() as scratch:
        if reason := build.missing():
            raise ToolError("the programs must be built for a Cortex-M4", reason, "install it")
        compared = peers.rows(aifes, Path(scratch))
        print(f"{peer_table(compared)}\n")
        rows = []
        for number, (net, part) in enumerate((net, part) for net in NETS for part in PARTS):
            with CONSOLE.status(f"{net}, {part}"):
                rows.append(measured(net, part, Path(scratch) / str(number)))
        print(table(rows))
    if aifes is None:
        print("not kept, as AIfES was not measured: get github.com/Fraunhofer-IMS/AIfES_for_Arduino")
        return
    keep(rows, compared)
    print(f"kept in {JSON.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    typer.run(main)
