"""List support: `python -m tools.list_support` runs all operations on all targets, and writes support.md.

It takes minutes, and needs what `catgrad doctor` names; one that cannot run here keeps its column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import tests.conftest  # noqa: F401  # chooses the simulator, ggml and the virtual machine, as the tests do
from catgrad.backend import get_backend, loaded_backends
from catgrad.testing import conformance

PAGE = Path(__file__).parents[1] / "docs/reference/support.md"
KEPT = Path(__file__).parents[1] / "docs/reference/support.json"
HEAD = """# Support

Every target is compared with the reference on every example of every operation: F is the operation forward, R its
reverse derivative, and B both with a symbol for the size of the first axis; of an operation without B, no example has a
first axis that may have any size. What is missing has a number, and its reason is below. Definitions that a target does
not print are expanded, so they are supported where their primitives are.

`python -m tools.list_support` measures this page, from `catgrad.testing.conformance`.

"""

Row = Mapping[str, str | None]
Column = Mapping[str, Row]


def measured(target: str) -> Column:
    """Run all operations on a target."""
    rows = conformance(target).rows
    return {r.operation: {"F": r.forward, "R": r.reverse, "B": reason(target, r.batched)} for r in rows}


def reason(target: str, difference: str | None) -> str | None:
    """Return the declared reason why a target has no symbolic sizes, in place of an error."""
    return difference and get_backend(target).known_gaps.get("symbolic sizes", difference)


def page(columns: Mapping[str, Column]) -> str:
    """Return the text of the page."""
    reasons: list[str] = []
    operations = sorted({name for column in columns.values() for name in column})
    lines = [f"| operation | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for name in operations:
        cells = (" ".join(marks(column.get(name, {}), reasons)) for column in columns.values())
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    notes = [f"{number}. {text}" for number, text in enumerate(reasons, start=1)]
    return HEAD + "\n".join([*lines, "", *notes]).rstrip() + "\n"


def marks(row: Row, reasons: list[str]) -> Iterator[str]:
    """Yield the letters of a cell, or the numbers of the reasons in their place."""
    for letter, difference in row.items():
        if difference == "":
            yield letter
        elif difference is not None:
            if difference not in reasons:
                reasons.append(difference)
            yield str(reasons.index(difference) + 1)


def main() -> None:
    """Measure the targets that run here, and write the page."""
    columns: dict[str, Column] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name, backend in loaded_backends().items():
        if not backend.missing():
            columns[name] = measured(name)
            print(name, flush=True)
            columns = {each: columns[each] for each in sorted(columns)}
            KEPT.write_text(json.dumps(columns, indent=0, ensure_ascii=False) + "\n")
    PAGE.write_text(page(columns), encoding="utf-8")


if __name__ == "__main__":
    main()
