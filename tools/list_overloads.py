"""List overloads: `python -m tools.list_overloads` rewrites the table of docs/howto/import-pytorch.md.

Each file of `catgrad/frontends/torch/aten/` with overloads is a row, with the first line of its docstring.
"""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path

from catgrad.frontends.torch import aten
from catgrad.frontends.torch.registry import TRANSLATIONS

PAGE = Path(__file__).parents[1] / "docs/howto/import-pytorch.md"
HEAD = "| family | operations, as overloads of `torch.ops.aten` (`.default` left out) |\n|---|---|\n"
TABLE = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")


def table() -> str:
    """Return the table of all registered overloads, by family."""
    files = (file for file in Path(aten.__path__[0]).glob("*.py") if file.stem != "__init__")
    rows = sorted((name, overloads) for name, overloads in map(family, files) if overloads)
    return HEAD + "".join(f"| {name} | {' '.join(overloads)} |\n" for name, overloads in rows)


def family(file: Path) -> tuple[str, list[str]]:
    """Run a file anew: return the first line of its docstring, and the overloads that it registers."""
    before = dict(TRANSLATIONS)
    doc = run_path(str(file))["__doc__"]
    found = {name: each for name, each in TRANSLATIONS.items() if each is not before[name]}
    TRANSLATIONS.update(before)
    names = [n for n, each in found.items() if not each.whole or each.of_pairs is not before[n].of_pairs]
    shorts = sorted(f"`{name.removeprefix('aten.').removesuffix('.default')}`" for name in names)
    return doc.splitlines()[0].rstrip("."), shorts


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
