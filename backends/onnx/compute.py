"""Nodes of functions: operations in order, by their rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catgrad.functors import Expand
from catgrad.programs.passes import optimise
from catgrad.programs.program import Apply, Function, Nested, lower
from catgrad.terms.build import build

from ..python.matmul import MatmulForms
from .graph import Graph, Value
from .rules import RULES


def computed(g: Graph, function: Function, arguments: Sequence[str]) -> list[Value]:
    """Append the nodes of a function of values with these names, and return its results."""
    pairs = zip(function.arguments, arguments, strict=True)
    values = {v: Value(name, function.types[v]) for v, name in pairs}
    for apply in function.body:
        operands = [values[v] for v in apply.inputs]
        for v, name in zip(apply.outputs, _results(g, apply, operands), strict=True):
            values[v] = Value(name, function.types[v])
    return [values[v] for v in function.results]


def _results(g: Graph, apply: Apply, operands: list[Value]) -> Sequence[str]:
    op = apply.op.op if isinstance(apply.op, Nested) else apply.op
    found = RULES[op.macro](g, apply.op, *operands)
    return [found] if isinstance(found, str) else found


def inlined(g: Graph, function: Callable[..., Any], *operands: Value) -> str:
    """Append the nodes of a function on variables, in place of an operator that runtimes lack."""
    term = build(function, [operand.type for operand in operands])
    straight = optimise(lower(Expand(lambda op: op.macro in RULES)(term)))
    (result,) = computed(g, MatmulForms()(straight), operands)
    return result
