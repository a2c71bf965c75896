"""Figures of competitors as rows, and the JSON file of a benchmark: a fact or a row a line.

A file says which command measured its rows, when, on which machine, and with which versions. A new
measurement is a short difference, and a part of one takes the place of the rows with its names.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, processor, short
from catgrad.errors import ArtifactError
from catgrad.files import write_atomically

OURS = "catgrad"
"""The first word of the names of our competitors; those with a comma are variants of the one before it."""


@dataclass(frozen=True)
class Row:
    """The figures of all competitors in one function, ours first, with the goal and what else is known.

    Figures are `seconds` and others by name, or the `reason` why there are none.
    """

    what: str
    results: Mapping[str, Mapping[str, Any]]
    goal: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mine(self) -> str:
        """The name of our first competitor."""
        return next(iter(self.results))

    def seconds(self, name: str, figure: str = "seconds") -> float | None:
        """Return a time of a competitor."""
        found: float | None = self.results.get(name, {}).get(figure)
        return found

    def ours(self, figure: str = "seconds") -> dict[str, float]:
        """Return a time of each of our competitors that was measured."""
        return {name: time for name, time in self._timed(figure) if name.startswith(OURS)}

    def peers(self, figure: str = "seconds") -> dict[str, float]:
        """Return a time of each peer that was measured."""
        return {name: time for name, time in self._timed(figure) if not name.startswith(OURS)}

    def _timed(self, figure: str) -> Iterable[tuple[str, float]]:
        return ((name, r[figure]) for name, r in self.results.items() if r.get(figure))

    @property
    def fastest(self) -> str | None:
        """The name of the fastest peer."""
        return fastest(self.peers())

    @property
    def ratios(self) -> dict[str, float]:
        """The times of ours over that of the fastest peer."""
        least = min(self.peers().values(), default=None)
        return {name: time / least for name, time in self.ours().items()} if least else {}

    @property
    def ratio(self) -> float | None:
        """The time of our first competitor over that of the fastest peer."""
        return self.ratios.get(self.mine)


def fastest(times: Mapping[str, float]) -> str | None:
    """Return the name of the least time, if there is one."""
    return min(times, key=times.__getitem__, default=None)


def described(**facts: object) -> dict[str, object]:
    """Describe this machine."""
    return {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version(), **facts}


def versions_of(requirements: Iterable[str]) -> dict[str, str]:
    """Return the versions in requirements, by package."""
    return dict(sorted(each.split("==") for each in {*requirements}))


@dataclass(frozen=True)
class Record:
    """The rows of a benchmark, and how they were measured; `more` has what belongs to no row."""

    command: str
    rows: Sequence[Row]
    machine: Mapping[str, Any] = field(default_factory=described)
    versions: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    date: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d}")

    def with_part(self, part: Record) -> Record:
        """Replace the rows with the names of a part's. Raises: ArtifactError on another machine."""
        mine, other = (each.machine.get("gpu", each.machine["processor"]) for each in (self, part))
        if mine != other:
            raise ArtifactError(
                "all figures of a file must be of one processor",
                f"those in it are of {mine}, and this one is {other}",
                "keep these in another file",
            )
        new = {row.what: row for row in part.rows}
        rows = [new.pop(row.what, row) for row in self.rows]
        facts = {"machine": {**self.machine, **part.machine}, "more": {**self.more, **part.more}}
        return replace(part, rows=[*rows, *new.values()], **facts)

    def write(self, path: Path) -> None:
        """Write the file, in folders that are created where they are missing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {name: getattr(self, name) for name in ("command", "date", "machine", "versions")}
        rows = [{**asdict(row), "ratio": row.ratios} for row in self.rows]
        write_atomically(path, [text({**whole, "rows": rows, **self.more}).encode()])

    def keep(self, path: Path) -> Record:
        """Put the rows in a file, and return all of it. Raises: ArtifactError on another machine."""
        whole = added(self, path)
        whole.write(path)
        print(f"kept in {short(path)}")
        return whole


def read(path: Path) -> Record:
    """Read a file."""
    whole = json.loads(path.read_text("utf-8"))
    names = {each.name for each in fields(Row)}
    rows = [Row(**{name: row[name] for name in names}) for row in whole.pop("rows")]
    known = {each.name: whole.pop(each.name) for each in fields(Record) if each.name in whole}
    return Record(rows=rows, more=whole, **known)


def added(part: Record, path: Path) -> Record:
    """Return a part with the rows of a file, if there is one. Raises: ArtifactError on another machine."""
    return read(path).with_part(part) if path.exists() else part


def path_of(benchmark: str, processor: str = "") -> Path:
    """Return the file of a benchmark, or of the figures that it keeps of a processor."""
    words = re.findall(r"[a-z0-9]+", processor.lower().replace("(r)", ""))
    return RESULTS / benchmark / f"{'-'.join(words)}.json" if processor else RESULTS / f"{benchmark}.json"


def text(figures: Mapping[str, Any]) -> str:
    """Return JSON in which each fact is one line, and so is each row of a list of rows."""
    entries = (f"{json.dumps(name)}: {_lines(entry)}" for name, entry in figures.items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _lines(entry: object) -> str:
    """Return the JSON of a list of rows by lines, that of anything else in one."""
    if isinstance(entry, (list, tuple)) and entry and isinstance(entry[0], dict):
        return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in entry) + "\n]"
    return json.dumps(entry)
