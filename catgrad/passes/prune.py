"""Dead code: what no result depends on is not computed."""

from __future__ import annotations

from dataclasses import replace

from catgrad.program import Function

name = "prune"


def apply(function: Function) -> Function:
    """Without operations none of whose outputs is needed."""
    needed = set(function.results)
    kept = []
    for step in reversed(function.body):
        if needed.intersection(step.outputs):
            needed.update(step.inputs)
            kept.append(step)
    if len(kept) == len(function.body):
        return function
    return replace(function, body=tuple(reversed(kept)))
