"""Instructions of matrix products on aarch64: `python -m benchmarks.neon --kleidiai FOLDER --xnnpack FOLDER`.

Builds products of emitted C, and microkernels of Arm's KleidiAI and of XNNPACK, by GCC for aarch64, runs
them in QEMU, and counts the instructions of each for a multiplication and addition. Takes two minutes;
`--keep` writes benchmarks/results/neon.json and docs/explanation/c-speed.md. Instructions are not time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.harness import ROOT, errors_in_a_line
from benchmarks.neon import build
from benchmarks.neon.libraries import KLEIDIAI, XNNPACK
from benchmarks.options import Keep, Only, is_chosen
from benchmarks.records import OURS, Record, Row, path_of
from benchmarks.tables import cells, markdown
from benchmarks.tables import keep as keep_tables

JSON, PAGE = path_of("neon"), ROOT / "docs/explanation/c-speed.md"
PACKED = f"{OURS}, packed before"
NUMBERS = {"float32": "f", "int8": "i", "int8, dot products": "i"}
SHAPES = {
    "64 × 64 × 64": (64, 64, 64, "NN"),
    "128 × 128 × 784": (128, 128, 784, "NN"),
    "128 × 784 × 128, B transposed": (128, 784, 128, "NT"),
    "784 × 128 × 128, A transposed": (784, 128, 128, "TN"),
    "1 × 128 × 784": (1, 128, 784, "NN"),
    "1 × 784 × 128, B transposed": (1, 784, 128, "NT"),
}
"""Rows, columns, depth and layouts: a square, a dense layer, both its reverses, and one example."""
CONVOLUTION, FILTERS, SIDE, CHANNELS = "32 × 16 × 32² convolution, 3 × 3", 32, 32, 16
EXACT, QUANTISED = 1e-6, 2e-2
"""Greatest errors over the greatest element: of whole numbers, and of those that a library quantises."""
CONSOLE = Console(width=130)
Programs = Mapping[str, Path]
Competitor = tuple[Path, str, float]
"""A program, the layout that it is given, and its greatest error."""


def measured(what: str, arguments: Sequence[str], count: int, competitors: Mapping[str, Competitor]) -> Row:
    """Count instructions of some programs for each of so many multiplications."""
    results = {}
    for name, (program, layout, most) in competitors.items():
        found = build.instructions(program, [arguments[0], layout, *arguments[1:]], most)
        results[name] = {figure: round(each / count, 4) for figure, each in found.items()}
    return Row(what, results, facts={"multiplications": count})


def product(numbers: str, shape: str, programs: Programs) -> Row:
    """Count a product; libraries have A row-major in any case."""
    m, n, k, layout = SHAPES[shape]
    competitors = {OURS: (programs["dots" if numbers == "int8, dot products" else OURS], layout, EXACT)}
    if numbers == "float32":
        competitors[PACKED] = (programs[PACKED], layout, EXACT)
    name = "XNNPACK" if numbers == "int8" else "KleidiAI"
    most = QUANTISED if numbers == "int8, dot products" else EXACT
    competitors[name] = (programs[name], f"N{layout[1]}", most)
    arguments = [NUMBERS[numbers], *map(str, (m, n, k))]
    return measured(f"{numbers}, {shape}", arguments, m * n * k, competitors)


def convolution(programs: Programs) -> Row:
    """Count a convolution; multiplications are those of its definition."""
    arguments = ["c", *map(str, (FILTERS, SIDE, CHANNELS))]
    competitors = {name: (programs[name], "NN", EXACT) for name in (OURS, "XNNPACK")}
    return measured(f"float32, {CONVOLUTION}", arguments, FILTERS * CHANNELS * 9 * SIDE**2, competitors)


def built(kleidiai: Path, xnnpack: Path, folder: Path) -> Programs:
    """Build all programs. Raises: ToolError."""
    return {
        OURS: build.catgrad(folder / "catgrad"),
        PACKED: build.catgrad(folder / "packed", packs=True),
        "dots": build.catgrad(folder / "dots", *build.DOTS),
        "KleidiAI": build.peer(KLEIDIAI, kleidiai, folder / "kleidiai"),
        "XNNPACK": build.peer(XNNPACK, xnnpack, folder / "xnnpack"),
    }


def figure(row: Row, name: str, part: str) -> str:
    """Return a figure of a competitor, or a dash."""
    found = row.results.get(name, {}).get(part)
    return "–" if found is None else f"{found:.3f}"


def peer_of(row: Row) -> str:
    """Return the name of the library."""
    return next(name for name in row.results if not name.startswith(OURS))


COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "instructions a multiplication": lambda row: row.what,
    "catgrad": lambda row: figure(row, OURS, "product"),
    "packed before": lambda row: figure(row, PACKED, "product"),
    "library": peer_of,
    "its product": lambda row: figure(row, peer_of(row), "product"),
    "its packing": lambda row: "–" if peer_of(row) == "XNNPACK" else figure(row, peer_of(row), "packing"),
}


def tables(rows: Sequence[Row]) -> list[str]:
    """Return the table in Markdown."""
    return [markdown(*cells(rows, COLUMNS))]


def versions() -> dict[str, str]:
    """Return the versions of the tools, and the commits of libraries."""
    tools = {tool.name: tool.version() for tool in (build.GCC, build.QEMU)}
    return tools | {library.name: library.commit for library in (KLEIDIAI, XNNPACK)}


def main(
    kleidiai: Annotated[Path, typer.Option(help="The folder of KleidiAI.")],
    xnnpack: Annotated[Path, typer.Option(help="The folder of XNNPACK.")],
    only: Only = "",
    keep: Keep = False,
) -> None:
    """Count instructions of products on aarch64."""
    with errors_in_a_line(CONSOLE), tempfile.TemporaryDirectory() as scratch:
        for tool in (build.GCC, build.QEMU):
            tool.require("the count of instructions on aarch64")
        programs = built(kleidiai.resolve(), xnnpack.resolve(), Path(scratch))
        every: dict[str, Callable[[], Row]] = {
            f"{numbers}, {shape}": lambda n=numbers, s=shape: product(n, s, programs)  # type: ignore[misc]
            for numbers in NUMBERS
            for shape in SHAPES
        }
        every[f"float32, {CONVOLUTION}"] = lambda: convolution(programs)
        rows = []
        for what, count in every.items():
            if is_chosen(what, only):
                with CONSOLE.status(what):
                    rows.append(count())
    print(*tables(rows), sep="\n\n")
    if keep:
        command = "python -m benchmarks.neon --kleidiai FOLDER --xnnpack FOLDER --keep"
        keep_tables(Record(command, rows, versions=versions()), JSON, PAGE, tables)


if __name__ == "__main__":
    typer.run(main)
