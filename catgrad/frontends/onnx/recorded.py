"""Calls of PyTorch that its exporter records in the metadata of nodes, with the names of their arrays."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from catgrad.frontends.onnx.types import Graph, Node

CALL, SCOPES, RULE = (
    "pkg.torch.onnx.fx_node",
    "pkg.torch.onnx.name_scopes",
    "pkg.onnxscript.rewriter.rule_name",
)
"""Keys of metadata: the call as text, the paths of the modules around it, and the rewriting of the node."""

ARRAY = re.compile(r"%([pb]_\w{1,500})")
"""A parameter or a buffer among the arguments of a call."""


@dataclass(frozen=True)
class Call:
    """The nodes of a call, and the dotted names of the module's arrays that it reads."""

    nodes: list[Node]
    arrays: list[str]


def calls(graph: Graph) -> list[Call]:
    """Return the recorded calls of a graph that read arrays of the module."""
    nodes: dict[str, list[Node]] = {}
    for node in graph.node:
        if call := entry(node, CALL):
            nodes.setdefault(call, []).append(node)
    inputs = {each.name for each in graph.input}
    names = {flat(each.name): each.name for each in graph.initializer}
    names = _modules(graph) | names
    found = []
    for call, own in nodes.items():
        arrays = [a for a in ARRAY.findall(call.partition("args = ")[2]) if a not in inputs]
        found.append(Call(own, [_dotted(array[2:], names) for array in arrays]))
    return [call for call in found if call.arrays]


def reads_no_array(node: Node) -> bool:
    """Return whether a node has a recorded call, without parameters and buffers among its arguments."""
    call = entry(node, CALL)
    return bool(call) and not ARRAY.search(call.partition("args = ")[2])


def _modules(graph: Graph) -> dict[str, str]:
    """Return the paths of modules that the file names, by their identifiers."""
    paths = {each.name.rpartition(".")[0] for each in graph.initializer}
    for node in graph.node:
        paths.update(_scopes(entry(node, SCOPES)))
    return {flat(path): path for path in paths if path}


def _dotted(array: str, names: Mapping[str, str]) -> str:
    """Return the dotted name of an array by its longest known part, as an identifier has no dots."""
    ends = [len(array), *(place for place in reversed(range(len(array))) if array[place] == "_")]
    end = next((end for end in ends if array[:end] in names), 0)
    if not end:
        return array
    return names[array[:end]] + ("." + array[end + 1 :] if end < len(array) else "")


def flat(name: str) -> str:
    """Return a name as PyTorch writes it in an identifier."""
    return re.sub(r"\W", "_", name)


def entry(node: Node, key: str) -> str:
    """Return an entry of a node's metadata; empty if there is none."""
    return next((each.value for each in node.metadata_props if each.key == key), "")


def _scopes(text: str) -> tuple[str, ...]:
    try:
        found = ast.literal_eval(text or "[]")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()
    return tuple(map(str, found)) if isinstance(found, list) else ()
