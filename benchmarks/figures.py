"""Figures of all benchmarks on one page: `python -m benchmarks.figures` writes docs/reference/figures.md.

Each benchmark keeps its rows in benchmarks/results; this one puts the times of catgrad beside those of the
fastest peers, and computes the geometric means of the ratios.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from benchmarks.cpu.rows import SHARES
from benchmarks.cpu.tables import counted
from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.harness import RESULTS, ROOT, duration
from benchmarks.pages import markdown

PAGE = ROOT / "docs/reference/figures.md"
HEAD = """# Figures

Times of catgrad, each beside that of the fastest peer in the same run: a ratio below 1 is in favour of
catgrad. `make bench` measures all of it anew and writes this page; `python -m benchmarks.figures` writes it
from what is kept in `benchmarks/results`. The figures are of the processor that is named, and may be others
on yours. Those of the target cuda, on an H200, are on [a page of their own](../explanation/cuda-speed.md).

"""
NANOSECOND = 1e-9

Kept = Mapping[str, Any]
"""A row or a file of JSON."""


@dataclass(frozen=True)
class Line:
    """A time of catgrad and those of its peers, in seconds."""

    what: str
    seconds: float
    peers: Mapping[str, float]

    @property
    def fastest(self) -> str:
        """The name of the fastest peer."""
        return min(self.peers, key=lambda name: self.peers[name])

    @property
    def ratio(self) -> float:
        """The time of catgrad over that of the fastest peer."""
        return self.seconds / self.peers[self.fastest]

    def cells(self) -> tuple[str, ...]:
        """Return the line of a table."""
        peer = self.fastest
        return self.what, duration(self.seconds), peer, duration(self.peers[peer]), f"{self.ratio:.3g}"


def pairs(row: Kept) -> Iterator[Line]:
    """Yield the line of a row with one peer."""
    yield Line(row["what"], row["seconds"], {row["peer"]: row["peer_seconds"]})


def steps(row: Kept) -> Iterator[Line]:
    """Yield the line of a function of a model on the processor."""
    titles = {workload.name: workload.title for workload in WORKLOADS}
    ours, *others = row["results"].items()
    peers = {name: r["seconds"] for name, r in others if "seconds" in r and not name.startswith(ours[0])}
    threads = f", {row['threads']} threads" if row["threads"] > 1 else ""
    if peers and "seconds" in ours[1]:
        yield Line(f"{titles[row['workload']]}: {row['measure']}{threads}", ours[1]["seconds"], peers)


def in_javascript(row: Kept) -> Iterator[Line]:
    """Yield a line for each of the targets wasm and javascript."""
    ours = ("wasm", "javascript")
    peers = {name: seconds for name, seconds in row["seconds"].items() if seconds and name not in ours}
    for target in ours:
        yield Line(f"{row['title']}: {target}", row["seconds"][target], peers)


def on_ggml(row: Kept) -> Iterator[Line]:
    """Yield the line of a model on a version of ggml."""
    ours, *others = row["results"].items()
    peers = {name: result["seconds"] for name, result in others if "seconds" in result}
    yield Line(f"{row['title']}, {row['ggml']}", ours[1]["seconds"], peers)


def products(row: Kept) -> Iterator[Line]:
    """Yield the line of a matrix product, whose second factor may be transposed (NT), or the first (TN)."""
    peers = {name: row["best"][name] for name in ("MKL", "OpenBLAS")}
    yield Line(f"{row['m']} × {row['n']} × {row['k']} {row['layout']}", row["best"]["c"], peers)


def functions(row: Kept) -> Iterator[Line]:
    """Yield the line of a function of float32, of which the times are nanoseconds of an element."""
    seconds = {name: time * NANOSECOND for name, time in row["best"].items() if time}
    yield Line(row["function"], seconds.pop("c"), seconds)


def sprites(row: Kept) -> Iterator[Line]:
    """Yield the line of a sprite beside that of cattorch."""
    if row["peer_seconds"]:
        what = f"{row['net']}: {row['block']}, unroll={row['unroll']}, {row['vm']}"
        yield Line(what, row["seconds"], {"cattorch": row["peer_seconds"]})


@dataclass(frozen=True)
class Section:
    """A benchmark: the name of its file or folder, a title, the lines of a row, and the page about it."""

    name: str
    title: str
    lines: Callable[[Kept], Iterable[Line]]
    page: str = ""

    def files(self) -> list[tuple[str, Kept]]:
        """Return the files of its figures with their titles: a folder has one for each processor."""
        paths = sorted((RESULTS / self.name).glob("*.json"))
        found = [json.loads(p.read_text("utf-8")) for p in paths or [RESULTS / f"{self.name}.json"]]
        return [(f"{self.title}, {processor(file)}" if paths else self.title, file) for file in found]


def processor(file: Kept) -> str:
    """Return the processor of a file."""
    return file.get("processor") or file.get("machine", file["rows"][0])["processor"]


SECTIONS = (
    Section("cpu", "Emitted C: training steps and predictions", steps, "../explanation/c-speed.md"),
    Section("products", "Emitted C: matrix products", products, "../explanation/c-speed.md#matrix-products"),
    Section("functions", "Emitted C: functions of float32", functions, "../explanation/c-speed.md"),
    Section("kernels", "Emitted C: kernels", pairs),
    Section("ggml", "Emitted C++ on ggml: training steps", on_ggml, "../explanation/ggml-speed.md"),
    Section("browser", "WebAssembly and JavaScript: training steps", in_javascript, "../howto/javascript.md"),
    Section("scratch", "Sprites: predictions", sprites, "../explanation/sprite-speed.md"),
    Section("training", "Emitted PyTorch: training steps", pairs),
    Section("core", "Compiling, and emitted NumPy", pairs),
)


def means(file: Kept) -> str:
    """Return a sentence about each mean share of the roofline that a file has."""
    return "".join(
        f" Geometric mean of the {SHARES} of steps, {counted(each['threads'])}: {each[SHARES][0]:.3g}."
        for each in file.get("means", ())
        if SHARES in each
    )


def section(each: Section, title: str, file: Kept) -> tuple[tuple[str, ...], str]:
    """Return the line of a file in the summary, and its section of the page."""
    lines = [line for row in file["rows"] for line in each.lines(row)]
    ratios = [line.ratio for line in lines]
    mean, ahead = f"{geometric_mean(ratios):.3g}", sum(ratio <= 1 for ratio in ratios)
    table = markdown(("what", "catgrad", "fastest peer", "its time", "ratio"), [x.cells() for x in lines])
    more = f" [More about them]({each.page})." if each.page else ""
    text = f"## {title}\n\n`{file['command']}`, {processor(file)}.{means(file)}{more}\n\n{table}\n"
    anchor = "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")
    counts = f"{len(lines)}", f"{ahead}", mean, f"{max(ratios):.3g}"
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
