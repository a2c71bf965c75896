"""Lines and time of emission by depth: `python -m benchmarks.compiler.depth`.

Emits the character GPT with 4 and 12 layers for targets whose loops have layers, and with 96 for C, after an
emission that loads each target. Prints the lines of the model's file, of it and its siblings, the least
processor time in which the model is built and its source emitted, and the ratio of the latter to that of the
first depth. Takes a minute; the figures are kept in benchmarks/results/depth.json and in
docs/explanation/emitted-code.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from catgrad.examples.char_gpt import BATCH, CONTEXT, gpt, optimiser

from benchmarks.harness import RESULTS, ROOT, duration, processor
from benchmarks.pages import markdown, write_table
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
JSON, PAGE = RESULTS / "depth.json", ROOT / "docs/explanation/emitted-code.md"
HEADINGS = ("target", "layers", "lines", "of all files", "model", "emission", "ratio")


@dataclass(frozen=True)
class Row:
    """The figures of one depth on one target; times are processor times in seconds."""

    target: str
    layers: int
    lines: int
    all_lines: int
    model: float
    emission: float


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
    return Row(target, depth, lines, all_lines, min(models), min(emissions))


def every(depths: Mapping[str, Iterable[int]]) -> Iterator[Row]:
    """Measure all targets, each after an emission that loads it."""
    for target, counts in depths.items():
        emit(task(3), target)
        yield from (measured(target, depth) for depth in counts)


def table(rows: Sequence[Row]) -> str:
    """Return a table in Markdown."""
    first: dict[str, Row] = {}
    return markdown(
        HEADINGS,
        [
            (
                row.target, str(row.layers), f"{row.lines:,}", f"{row.all_lines:,}", duration(row.model),
                duration(row.emission), f"{row.emission / first.setdefault(row.target, row).emission:.1f}",
            )
            for row in rows
        ],
    )  # fmt: skip


def main() -> None:
    """Print the table, and keep the figures."""
    rows = [*every(DEPTHS)]
    print(f"{table(rows)}\n")
    kept = {
        "command": "python -m benchmarks.compiler.depth",
        "processor": processor(),
        "rows": [asdict(row) for row in rows],
    }
    JSON.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    write_table(PAGE, table(rows))
    print(f"kept in {JSON.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
