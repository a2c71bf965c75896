"""Layers of a function: for each operation, the dotted prefix of the label that it leads to."""

from __future__ import annotations

from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.structural import Copy, Label


def with_innermost_names(function: Function) -> Function:
    """Replace copies and labels by their values, whose names are those of the innermost labels."""
    return Rewriter(function).sweep(_erase)


def _erase(rewriter: Rewriter, apply: Apply) -> Values | None:
    if isinstance(apply.op, Copy):
        return apply.inputs * 2
    if isinstance(apply.op, Label):
        rewriter.names.setdefault(apply.inputs[0], apply.op.name)
        return apply.inputs
    return None


def layer_of(name: str) -> str:
    """Return the layer of a dotted name; empty if it has no dot."""
    return name.rpartition(".")[0]


def layers(function: Function) -> list[str]:
    """Return the layer of each operation: that of its name, of its first reader, or of its last operand."""
    arguments = set(function.arguments)
    own = {v: layer_of(name) for v, name in function.names.items() if v not in arguments}
    found = [next(filter(None, (own.get(v) for v in apply.outputs)), "") for apply in function.body]
    read_by: dict[int, str] = {}
    for k in reversed(range(len(function.body))):
        found[k] = found[k] or next(filter(None, (read_by.get(v) for v in function.body[k].outputs)), "")
        read_by |= dict.fromkeys(function.body[k].inputs, found[k]) if found[k] else {}
    made_by: dict[int, str] = {}
    for k, apply in enumerate(function.body):
        found[k] = found[k] or next(filter(None, (made_by.get(v) for v in reversed(apply.inputs))), "")
        made_by |= dict.fromkeys(apply.outputs, found[k])
    return found
