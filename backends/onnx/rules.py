"""The rules: functions that append the nodes of an operation, by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Rule = Callable[..., str | Sequence[str]]
RULES: dict[str, Rule] = {}
"""Functions of a graph, an operation and its operands to the names of the results."""


def emits(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for these operations."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def same_name(*names: str, **renamed: str) -> None:
    """Register operations that are operators of ONNX, of the same name or of another."""
    for name, operator in {**dict(zip(names, names, strict=True)), **renamed}.items():
        _register(name, operator)


def _register(name: str, operator: str) -> None:
    def rule(g: Any, op: Any, *operands: Any) -> str:
        found: str = g.add(operator, *operands)
        return found

    emits(name)(rule)
