"""Docstrings, comments and names of tests begin with a verb or a term of art, not with a noun clause."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("backends", "benchmarks", "catgrad", "examples", "templates", "tests", "tools")

CLAUSES = {"How", "That", "Those", "What", "Whether", "Which", "Who", "Whose"}
"""First words of noun clauses."""

PRONOUNS = {
    "As", "At", "By", "From", "In", "It", "Its", "Of", "So", "These", "They", "This", "When", "Where", "With",
}  # fmt: skip
"""First words that refer to something before; comments may begin with them, docstrings and names may not."""

COMMENT = re.compile(r"(?:.*\S  |\s*)# (.*)")

COMMENT_OF_TEMPLATES = re.compile(
    r'\{#-?(.*?)-?#\}|/\*(.*?)\*/|^ *(?://|#) (.*?)$|"""(.*?)"""', re.DOTALL | re.MULTILINE
)
"""A comment of a template, of C, of JavaScript or Python, or a docstring."""


def files(room: str) -> Iterator[Path]:
    """Yield the Python files and templates of a folder, except for emitted ones."""
    for folder, folders, names in os.walk(ROOT / room):
        folders[:] = [name for name in folders if name not in ("golden", "node_modules")]
        yield from (Path(folder, name) for name in names if name.endswith((".py", ".j2")))


def docstrings(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring, also below assignments."""
    for node in ast.walk(module):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.lineno, str(statement.value.value).strip()


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each comment; consecutive lines are one."""
    last = -1
    for line, text in enumerate(source.splitlines(), 1):
        comment = COMMENT.match(text)
        if comment:
            if line > last + 1:
                yield line, comment[1]
            last = line


def names_of_tests(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line of each test and its name as a sentence."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.removeprefix("test_").replace("_", " ").capitalize()


def comments_of_templates(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each comment of a template, and of the text that it emits."""
    for comment in COMMENT_OF_TEMPLATES.finditer(source):
        yield source.count("\n", 0, comment.start()) + 1, next(filter(None, comment.groups()), "").strip()


def noun_clauses(source: str, template: bool = False) -> list[str]:
    """Return the texts that begin with one of the words above, with their lines."""
    if template:
        parts = [(comments_of_templates(source), CLAUSES)]
    else:
        module, words = ast.parse(source), CLAUSES | PRONOUNS
        parts = [(docstrings(module), words), (names_of_tests(module), words), (comments(source), CLAUSES)]
    texts = ((line, text, words) for part, words in parts for line, text in part)
    return [f"{line}: {text}" for line, text, words in texts if text and _first_word(text) in words]


def _first_word(text: str) -> str:
    return text.split(maxsplit=1)[0].capitalize()


def test_noun_clauses_are_reported():
    source = 'def f():\n    """What it is."""\n\n\nX = 1\n"""Whether it holds."""\nY = 2\n"""Return it."""\n'
    assert sorted(noun_clauses(source)) == ["2: What it is.", "6: Whether it holds."]
    source = "# how it is\nX = 1  # it holds\n\n\n# a list\n# which is long\ndef test_what_it_is(): ...\n"
    assert sorted(noun_clauses(source)) == ["1: how it is", "7: What it is"]
    source = "{{ x }}\n{#- What it is. -#}{# It is. #}\n/* Whether it is. */\n# How it is\n"
    assert noun_clauses(source, template=True) == ["2: What it is.", "3: Whether it is.", "4: How it is"]


@pytest.mark.parametrize("room", ROOMS)
def test_texts_begin_with_a_verb_or_a_term_of_art(room):
    paths = [*files(room)]
    assert paths
    reported = [
        f"{path.relative_to(ROOT)}:{each}"
        for path in paths
        for each in noun_clauses(path.read_text("utf-8"), path.suffix == ".j2")
    ]
    assert reported == []


def test_the_glossary_defines_each_term_once():
    terms = re.findall(r"\*\*(.+?)\*\*", (ROOT / "docs/explanation/glossary.md").read_text("utf-8"))
    assert len(terms) > 90
    assert sorted(terms) == sorted(set(terms))
