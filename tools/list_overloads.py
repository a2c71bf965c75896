"""List overloads: `python -m tools.list_overloads` rewrites the table of docs/howto/import-pytorch.md.

Each file of `catgrad/frontends/torch/aten/` with overloads is a row, with the first line of its docstring.
The row of `complex.py` has those for complex arguments.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from catgrad.frontends.torch.aten import complex
from catgrad.frontends.torch.registry import TRANSLATIONS

PAGE = Path(__file__).parents[1] / "docs/howto/import-pytorch.md"
HEAD = "| family | operations, as overloads of `torch.ops.aten` (`.default` left out) |\n|---|---|\n"
TABLE = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")


def table() -> str:
    """Return the table of all registered overloads, by family."""
    families: dict[str, set[str]] = {}
    of_real = {name: each.real for name, each in TRANSLATIONS.items() if each.real and not each.whole}
    files = [(name, sys.modules[meaning.__module__]) for name, meaning in of_real.items()]
    for name, file in [*files, *((name, complex) for name, each in TRANSLATIONS.items() if each.of_pairs)]:
        doc = file.__doc__ or file.__name__
        short = name.removeprefix("aten.").removesuffix(".default")
        families.setdefault(doc.splitlines()[0].rstrip("."), set()).add(f"`{short}`")
    rows = (f"| {family} | {' '.join(sorted(names))} |\n" for family, names in sorted(families.items()))
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
