"""List support: `python -m tools.list_support` runs operations on targets, and writes docs/reference/support.md.

It runs those whose results are not kept beside the page; with `--all`, all of them, which takes 20 minutes. It
needs what `catgrad doctor` names; a target that cannot run here keeps the results it has.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import tests.conftest  # noqa: F401  # chooses the simulator, ggml and the virtual machine, as the tests do
from catgrad.targets import get_backend, loaded_backends
from catgrad.testing import conformance, operation_cases

PAGE = Path(__file__).parents[1] / "docs/reference/support.md"
KEPT = Path(__file__).parents[1] / "docs/reference/support.json"
HEAD = """# Support

Every target is compared with the reference on every example of every operation: F is the operation forward, R its
reverse derivative, and B both with a symbol for the size of the first axis; of an operation without B, no example has a
first axis that may have any size. What is missing has a number, and its reason is below. Definitions that a target does
not print are expanded, so they are supported where their primitives are. What the target `c` supports is also
called from [eight other languages](../howto/languages.md).

`python -m tools.list_support` measures this page, from `catgrad.testing.conformance`.

"""

Row = Mapping[str, str | None]
Column = Mapping[str, Row]


def measured(target: str, known: Column) -> Column:
    """Run the operations of a target that have no result yet."""
    missing = {case.operation for case in operation_cases()}.difference(known)
    if not missing:
        return known
    rows = conformance(target, missing).rows
    return {
        **known,
        **{r.operation: {"F": r.forward, "R": r.reverse, "B": reason(target, r.batched)} for r in rows},
    }


def reason(target: str, difference: str | None) -> str | None:
    """Return the declared reason why a target has no symbolic sizes, or an error without folders."""
    found = difference and get_backend(target).known_gaps.get("symbolic sizes", difference)
    return found and re.sub(r"\S+/(\S+:\d+)", r"\1", found)


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
    for letter in "FRB":
        difference = row.get(letter)
        if difference == "":
            yield letter
        elif difference is not None:
            if difference not in reasons:
                reasons.append(difference)
            yield str(reasons.index(difference) + 1)


def written(columns: Mapping[str, Column]) -> str:
    """Return the results as JSON, with an operation in each line."""
    targets = []
    for name, column in sorted(columns.items()):
        rows = (
            f"{json.dumps(op)}: {json.dumps(row, ensure_ascii=False)}" for op, row in sorted(column.items())
        )
        targets.append(f"{json.dumps(name)}: {{\n" + ",\n".join(rows) + "\n}")
    return "{\n" + ",\n".join(targets) + "\n}\n"


def main() -> None:
    """Measure what is missing on the targets that run here, and write the page."""
    columns: dict[str, Column] = json.loads(KEPT.read_text()) if "--all" not in sys.argv else {}
    for name, backend in loaded_backends().items():
        if not backend.missing():
            columns[name] = measured(name, columns.get(name, {}))
            KEPT.write_text(written(columns), encoding="utf-8")
    PAGE.write_text(page(json.loads(KEPT.read_text())), encoding="utf-8")


if __name__ == "__main__":
    main()
