"""Docstrings begin with a verb or a term of art: no noun clauses, and no pronouns without a noun."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("backends", "benchmarks", "catgrad", "examples")

OPENINGS = {
    "As", "At", "By", "From", "How", "In", "It", "Its", "Of", "Other", "So", "That", "These", "They", "This",
    "Those", "What", "When", "Where", "Whether", "Which", "Who", "Whose", "With",
}  # fmt: skip

NOT_YET = (
    "backends/scratch/compile/entries.py",
    "backends/scratch/kernels",
)
"""Folders and files that are not checked yet. This list may only shrink."""


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring, also below assignments."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.lineno, str(statement.value.value).strip()


def noun_clauses(source: str) -> list[str]:
    """Return the docstrings that begin with one of the words above, with their lines."""
    return [f"{line}: {text}" for line, text in docstrings(source) if text.split(maxsplit=1)[0] in OPENINGS]


def test_noun_clauses_are_found():
    source = 'def f():\n    """What it is."""\n\n\nX = 1\n"""Whether it holds."""\nY = 2\n"""Return it."""\n'
    assert sorted(noun_clauses(source)) == ["2: What it is.", "6: Whether it holds."]


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_verb_or_a_term_of_art(room):
    exempt = [ROOT / name for name in NOT_YET]
    paths = [p for p in (ROOT / room).rglob("*.py") if not any(p.is_relative_to(each) for each in exempt)]
    assert len(paths) > 5
    found = [
        f"{path.relative_to(ROOT)}:{each}" for path in paths for each in noun_clauses(path.read_text("utf-8"))
    ]
    assert found == []
