"""Figures of all benchmarks on one page: `python -m benchmarks.figures` writes docs/reference/figures.md.

Each benchmark keeps its rows in benchmarks/results; this one puts the times of catgrad beside those of the
fastest peers, and computes the geometric means of the ratios.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import geometric_mean

from benchmarks.cpu.rows import LONG, RATIOS, SHARES, counted
from benchmarks.harness import RESULTS, ROOT
from benchmarks.records import OURS, Record, Row, path_of, read
from benchmarks.tables import BESIDE, markdown, over, text

PAGE = ROOT / "docs/reference/figures.md"
HEAD = """# Figures

Times of catgrad, each beside that of the fastest peer in the same run: a ratio below 1 is in favour of
catgrad. `make bench` measures all of it anew and writes this page; `python -m benchmarks.figures` writes it
from what is kept in `benchmarks/results`. The figures are of the processor that is named, and may be others
on yours. Those of the target cuda, on an H200, are on [a page of their own](../explanation/cuda-speed.md).

"""


@dataclass(frozen=True)
class Section:
    """A benchmark: the name of its file or folder, a title, and the page about it."""

    name: str
    title: str
    page: str = ""

    def files(self) -> list[tuple[str, Record]]:
        """Return the files of its figures with their titles: a folder has one for each processor."""
        paths = sorted((RESULTS / self.name).glob("*.json"))
        found = [read(path) for path in paths or [path_of(self.name)]]
        return [(f"{self.title}, {processor(file)}" if paths else self.title, file) for file in found]


def processor(file: Record) -> str:
    """Return the processor of a file."""
    return str(file.machine["processor"])


SECTIONS = (
    Section("cpu", "Emitted C: training steps and predictions", "../explanation/c-speed.md"),
    Section("products", "Emitted C: matrix products", "../explanation/c-speed.md#matrix-products"),
    Section("bytes", "Emitted C: products of int8", "../explanation/c-speed.md#products-of-bytes"),
    Section("functions", "Emitted C: functions of float32", "../explanation/c-speed.md"),
    Section("kernels", "Emitted C: kernels"),
    Section("ggml", "Emitted C++ on ggml: training steps", "../explanation/ggml-speed.md"),
    Section("browser", "WebAssembly and JavaScript: training steps", "../howto/javascript.md"),
    Section("scratch", "Sprites: predictions", "../explanation/sprite-speed.md"),
    Section("training", "Emitted PyTorch: training steps"),
    Section("core", "Compiling, and emitted NumPy"),
)


def lines(row: Row) -> Iterator[tuple[float, list[str]]]:
    """Yield the ratio and the cells of each of our competitors, if there is a peer; none of variants."""
    ours = [name for name in row.ratios if ", " not in name]
    for name in ours:
        what = f"{row.what}: {name.removeprefix(OURS).strip()}" if len(ours) > 1 else row.what
        beside = [cell(row) for cell in (BESIDE["fastest peer"], BESIDE["its time"])]
        yield row.ratios[name], [what, text(row.seconds(name)), *beside, over(row.ratios[name])]


def means(file: Record) -> str:
    """Return a sentence about each geometric mean of a file: of ratios, and of shares of the roofline."""
    return "".join(
        f" Geometric mean of the {what} of steps, {counted(each['threads'])}: {each[what][0]:.3g}"
        f" (rows: {each[what][1]})."
        for each in file.more.get("means", ())
        for what in (RATIOS, SHARES, LONG)
        if what in each
    )


def section(each: Section, title: str, file: Record) -> tuple[tuple[str, ...], str]:
    """Return the line of a file in the summary, and its section of the page."""
    ratios, cells = zip(*(line for row in file.rows for line in lines(row)), strict=True)
    mean, ahead = f"{geometric_mean(ratios):.3g}", sum(ratio <= 1 for ratio in ratios)
    table = markdown(("what", "catgrad", "fastest peer", "its time", "ratio"), cells)
    more = f" [More about them]({each.page})." if each.page else ""
    text = f"## {title}\n\n`{file.command}`, {processor(file)}.{means(file)}{more}\n\n{table}\n"
    anchor = "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")
    counts = f"{len(cells)}", f"{ahead}", mean, f"{max(ratios):.3g}"
    summary = f"[{each.title}](#{anchor})", *counts, processor(file)
    return summary, text


def page() -> str:
    """Return the page of the figures that are kept."""
    files = ((each, *titled) for each in SECTIONS for titled in each.files())
    summaries, texts = zip(*(section(*each) for each in files), strict=True)
    heading = ("benchmark", "rows", "ratio ≤ 1", "geometric mean", "greatest", "processor")
    return HEAD + markdown(heading, summaries) + "\n\n" + "\n".join(texts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
