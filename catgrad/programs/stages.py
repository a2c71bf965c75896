"""Stages: straight-line code cut at loops and branches, each part after those whose results it reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from catgrad.programs.program import Apply, Function, Nested
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant

CONSTANT = -1
"""The level of what depends on no argument."""


@dataclass(frozen=True)
class Stage:
    """Operations, the loops and branches after them, and the values that these and later stages read.

    Each stage has all constants. One that `is_constant` depends on no argument.
    """

    body: tuple[Apply, ...]
    nested: tuple[Apply, ...]
    read_later: frozenset[int]
    is_constant: bool


def stages(function: Function) -> list[Stage]:
    """Cut a function into stages; the first is constant, and the last has its results at hand."""
    levels = _levels(function)
    constants = [apply for apply in function.body if isinstance(apply.op, Constant)]
    parts: dict[int, list[Apply]] = {
        level: [] for level in range(CONSTANT, max(levels.values(), default=0) + 1)
    }
    for apply in function.body:
        if not isinstance(apply.op, Constant):
            parts[max((levels[v] for v in apply.inputs), default=CONSTANT)].append(apply)
    copied = {value for apply in constants for value in apply.outputs}
    nested = {v for apply in function.body if isinstance(apply.op, Nested) for v in apply.inputs}
    return [
        Stage(
            (*constants, *(apply for apply in part if not isinstance(apply.op, Nested))),
            tuple(apply for apply in part if isinstance(apply.op, Nested)),
            frozenset({v for k in parts if k > level for a in parts[k] for v in a.inputs} - copied | nested),
            level == CONSTANT,
        )
        for level, part in parts.items()
    ]


def with_copies(copy: Op, function: Function, places: set[int]) -> Function:
    """Copy, by this operation, the arguments that are results at these places."""
    types, body, results = list(function.types), list(function.body), list(function.results)
    for place in sorted(places):
        if results[place] in function.arguments:
            types.append(types[results[place]])
            body.append(Apply(copy, (results[place],), (len(types) - 1,)))
            results[place] = len(types) - 1
    return replace(function, types=tuple(types), body=tuple(body), results=tuple(results))


def _levels(function: Function) -> dict[int, int]:
    """Number each value by the stage that computes it; arguments belong to the first that is not constant."""
    levels = dict.fromkeys(function.arguments, 0)
    for apply in function.body:
        level = max((levels[value] for value in apply.inputs), default=CONSTANT)
        level = max(level, 0) + 1 if isinstance(apply.op, Nested) else level
        levels |= dict.fromkeys(apply.outputs, level)
    return levels
