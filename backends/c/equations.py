"""Equations that functions compute, with shapes, for the comments of their declarations."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from string import Formatter

from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Function

from ..kernels.signatures import ArrayArgument

PREDICTION = "y_hat = predict({inputs}{; model})"
LOSS = "{loss} = criterion(predict({inputs}{; model}), {targets})"
BUFFERS = "{new buffers} := those that predict leaves in training"

EQUATIONS: Mapping[Kind, Sequence[str]] = {
    Kind.PREDICT: ("{outputs} = predict({inputs}{; model})",),
    Kind.LOSS: (LOSS,),
    Kind.REV: (
        PREDICTION,
        "{gradients} = {cotangents} . d y_hat / d {parameters}",
        "{input cotangents} = {cotangents} . d y_hat / d {x}",
    ),
    Kind.REV_P: (PREDICTION, "{gradients} = {cotangents} . d y_hat / d {parameters}"),
    Kind.GRADS: (LOSS, "{gradients} = d {loss} / d {parameters}", BUFFERS),
    Kind.UPDATE: ("{optimised} := update({gradients}; {optimised})",),
    Kind.STEP: (LOSS, "{optimised} := update(d {loss} / d {parameters}; {optimised})", BUFFERS),
}
"""Equations by kind, in words that stand for arrays; one of arrays that a function lacks is left out.

The word of tables that follow a semicolon begins with it, and stands for nothing where there are none.
"""

OTHER = ("{results} = {name}({arguments}{; tables})",)
"""The equation of a function of any other kind."""

WIDTH = 108
"""Characters after which an equation goes on in the next line."""


def equations(
    function: Function, inputs: Sequence[ArrayArgument], outputs: Sequence[ArrayArgument]
) -> list[str]:
    """Write the equations of a function that is passed these arrays beside tables."""
    known = {word: ", ".join(arrays) for word, arrays in _words(function, inputs, outputs).items() if arrays}
    known |= {f"; {word}": f"; {known[word]}" if word in known else "" for word in ("model", "tables")}
    lines = []
    for equation in EQUATIONS.get(function.kind, OTHER):
        if all(word in known for _, word, _, _ in Formatter().parse(equation) if word):
            lines += textwrap.wrap(equation.format_map(known), WIDTH, subsequent_indent=" " * 4)
    return lines


def _words(
    function: Function, inputs: Sequence[ArrayArgument], outputs: Sequence[ArrayArgument]
) -> dict[str, Sequence[str]]:
    """List the arrays that the words of equations stand for."""
    tables, changes = function.tables, function.changes
    roles = {role: [x for x in (*inputs, *outputs) if x.role is role] for role in Role}
    return {
        **{role: [x.with_shape for x in own] for role, own in roles.items()},
        **{role: [role] for role in (*tables, Role.GRADIENT)},
        "x": _tuple([x.identifier for x in roles[Role.INPUT]]),
        "cotangents": _tuple([x.with_shape for x in roles[Role.OUTPUT_COTANGENT]]),
        "name": [function.name],
        "arguments": [x.with_shape for x in inputs],
        "results": [*(y.with_shape for y in outputs), *changes],
        "tables": tables,
        "model": [role for role in tables if role is not Role.STATE],
        "optimised": [role for role in tables if role is not Role.BUFFER],
        "new buffers": [role for role in changes if role is Role.BUFFER],
    }


def _tuple(items: Sequence[str]) -> Sequence[str]:
    """Put several items between parentheses."""
    return [f"({', '.join(items)})"] if len(items) > 1 else items
