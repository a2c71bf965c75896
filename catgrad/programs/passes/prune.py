"""Dead-code elimination on straight-line code."""

from __future__ import annotations

import operator
from dataclasses import replace

from catgrad.programs.program import Apply, Function


def prune(function: Function) -> Function:
    """Remove operations none of whose outputs is needed."""
    needed = set(function.results)
    kept = []
    for step in reversed(function.body):
        if needed.intersection(step.outputs):
            step = _narrowed(step, needed)
            needed.update(step.inputs)
            kept.append(step)
    kept.reverse()
    if len(kept) == len(function.body) and all(map(operator.is_, kept, function.body)):
        return function
    return replace(function, body=tuple(kept))


def _narrowed(step: Apply, needed: set[int]) -> Apply:
    """Remove the unneeded outputs of a step, if its operation supports that."""
    wanted = [value in needed for value in step.outputs]
    pruned = None if all(wanted) else step.op.pruned(wanted)
    if pruned is None:
        return step
    op, inputs, outputs = pruned
    return Apply(op, tuple(step.inputs[i] for i in inputs), tuple(step.outputs[i] for i in outputs))
