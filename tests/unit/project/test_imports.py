"""Imports have no cycle: neither at the top of modules nor inside functions."""

from __future__ import annotations

import ast
from pathlib import Path

import networkx

ROOT = Path(__file__).parents[3]
FOLDERS = {"catgrad": "catgrad", "backends": "catgrad.backends"}

ALLOWED = (
    ("catgrad.terms.term", "catgrad.terms.draw"),
    ("catgrad.terms.term", "catgrad.programs.program"),
    ("catgrad.ops.derivatives", "catgrad.functors.reverse"),
)
"""Exceptions, loaded at use: a term draws itself and runs, and a derivative is made by the functor."""


def modules():
    """List the files of catgrad and its targets by module name."""
    found = {}
    for folder, package in FOLDERS.items():
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([package, *parts]).removesuffix(".__init__")] = file
    return found


def imported(name, file, known):
    """List the modules that a file imports, except for type annotations."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(file.read_text())
    typing = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    only_types = {inner for node in typing for inner in ast.walk(node)}
    for node in set(ast.walk(tree)) - only_types:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        if isinstance(node, ast.ImportFrom):
            start = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
            base = ".".join(filter(None, [start if node.level else "", node.module or ""]))
            for alias in node.names:
                yield from [each for each in (f"{base}.{alias.name}", base) if each in known][:1]


def imports():
    graph, known = networkx.DiGraph(), modules()
    for name, file in known.items():
        graph.add_edges_from((name, each) for each in imported(name, file, known) if each != name)
    return graph


def test_imports_have_no_cycle():
    graph = imports()
    graph.remove_edges_from(ALLOWED)
    circles = [sorted(each) for each in networkx.strongly_connected_components(graph) if len(each) > 1]
    assert circles == []
    assert graph.number_of_edges() > 900
