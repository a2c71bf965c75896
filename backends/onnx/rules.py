"""The rules: functions that append the nodes of an operation, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    one_operator(lambda op: {}, **dict(zip(names, names, strict=True)), **renamed)


def one_operator(attributes: Callable[[Any], Mapping[str, Any]], **operators: str) -> None:
    """Register operations, by name, each of which is one operator of ONNX with these attributes."""
    for name, operator in operators.items():
        emits(name)(lambda g, op, *operands, kind=operator: g.add(kind, *operands, **attributes(op)))
