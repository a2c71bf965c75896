"""Lines and time of emission by depth: `python -m benchmarks.compiler.depth`.

Emits the character GPT with 4 and 12 layers for targets whose loops have layers, and with 96 for C, after an
emission that loads each target. Prints the lines of the model's file, of it and its siblings, the least
processor time in which the model is built and its source emitted, and the ratio of the latter to that of the
first depth. Takes a minute; `--keep` writes benchmarks/results/depth.json and
docs/explanation/emitted-code.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import typer
from catgrad.examples.char_gpt import BATCH, CONTEXT, gpt, optimiser

from benchmarks.harness import ROOT
from benchmarks.options import Keep, Only, is_chosen
from benchmarks.records import OURS, Record, Row, path_of
from benchmarks.tables import cells, counted, fact, figure, markdown, text
from benchmarks.tables import keep as keep_tables
from catgrad import Dtype, NdArrayType, Task, emit, losses

VOCABULARY, STEPS, ROUNDS = 65, 1000, 3
DEPTHS: Mapping[str, tuple[int, ...]] = {
    "c": (4, 12, 96),
    "cuda": (4, 12),
    "numpy": (4, 12),
    "torch": (4, 12),
    "jax": (4, 12),
    "ggml": (4, 12),
    "javascript": (4, 12),
}
JSON, PAGE = path_of("depth"), ROOT / "docs/explanation/emitted-code.md"
FIGURES = {"lines": counted, "all_lines": counted, "model": text, "emission": text}
"""The figures, with how they are shown; times are processor times in seconds."""


def task(depth: int) -> Task:
    """Return the character GPT with some layers."""
    labels = NdArrayType((BATCH, CONTEXT), Dtype.int64)
    model = gpt(VOCABULARY, BATCH, depth)
    return Task(model, optimiser(STEPS), losses.cross_entropy, "char_gpt", (labels,))


def measured(target: str, depth: int, rounds: int = ROUNDS) -> Row:
    """Build and emit a model repeatedly; the times are the least of each."""
    models, emissions = [], []
    for _ in range(rounds):
        start = time.process_time()
        model = task(depth)
        built = time.process_time()
        artifact = emit(model, target)
        models.append(built - start)
        emissions.append(time.process_time() - built)
    lines = artifact.source.count("\n")
    all_lines = sum(text.count("\n") for text in artifact.files.values() if isinstance(text, str))
    figures = dict(zip(FIGURES, (lines, all_lines, min(models), min(emissions)), strict=True))
    return Row(f"{target}, {depth} layers", {OURS: figures}, facts={"target": target, "layers": depth})


def every(depths: Mapping[str, Iterable[int]]) -> Iterator[Row]:
    """Measure all targets, each after an emission that loads it."""
    for target, counts in depths.items():
        emit(task(3), target)
        yield from (measured(target, depth) for depth in counts)


def table(rows: Sequence[Row]) -> str:
    """Return a table in Markdown."""
    first: dict[str, Row] = {}

    def ratio(row: Row) -> str:
        before = first.setdefault(row.facts["target"], row)
        return f"{row.results[OURS]['emission'] / before.results[OURS]['emission']:.1f}"

    names = ("lines", "of all files", "model", "emission")
    columns = {name: figure(*each) for name, each in zip(names, FIGURES.items(), strict=True)}
    return markdown(
        *cells(rows, {"target": fact("target"), "layers": fact("layers"), **columns, "ratio": ratio})
    )


def main(only: Only = "", keep: Keep = False) -> None:
    """Measure targets, print the table, and keep the figures."""
    rows = [*every({target: depths for target, depths in DEPTHS.items() if is_chosen(target, only)})]
    print(f"{table(rows)}\n")
    if keep:
        keep_tables(
            Record("python -m benchmarks.compiler.depth --keep", rows), JSON, PAGE, lambda rows: [table(rows)]
        )


if __name__ == "__main__":
    typer.run(main)
