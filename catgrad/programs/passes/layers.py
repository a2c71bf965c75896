"""Layers of a function: for each operation and value, the dotted prefix of the label that it leads to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile

from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.structural import PART, RESULT, Copy, Label


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


COTANGENT = "d_"
"""The prefix of the names of cotangents."""


def with_whole_names(function: Function) -> Function:
    """Prefix relative names, which begin with a dot, by the layers of their values."""
    relative = {v: name for v, name in function.names.items() if name.startswith(PART)}
    if not relative:
        return function
    names = {v: name for v, name in function.names.items() if v not in relative}
    absolute = replace(function, names=names)
    readers, operands = (
        layers_of_values(absolute, recomputed=True),
        _of_operands(absolute, _known(absolute)[0]),
    )
    for value, name in relative.items():
        layer = (operands if name.startswith(RESULT) else readers).get(value, "")
        role = name.removeprefix(RESULT).removeprefix(PART)
        same = layer.startswith(COTANGENT) and role.startswith(COTANGENT)
        names[value] = f"{layer}.{role[same * len(COTANGENT) :]}" if layer else role
    return replace(function, names=names)


def layers_of_values(function: Function, recomputed: bool = False) -> dict[int, str]:
    """Return the layer of each value: of its name or parameters, of what reads it, or of its last operand.

    If several layers read it, it is in the innermost one around them, and so is what reads arrays of a layer
    around that one. What a layer multiplies by its matrices
    is its input, and not part of it. What is computed from cotangents is in the layer of the first of them,
    and what its reverse has `recomputed` in the layer itself.
    """
    found, parameters, origins = _known(function)
    readers: dict[tuple[int, bool], list[str]] = {}
    for (op, inputs, outputs), origin in zip(reversed(function.body), reversed(origins), strict=True):
        for v in outputs:
            around = _around(readers.get((v, False), readers.get((v, True), ())))
            is_within = v not in function.names and around.startswith(f"{found[v]}.")
            found[v] = around if is_within or not found[v] else found[v]
        layer = origin or next((found[v] for v in outputs if found[v]), "")
        reverses = layer.startswith(COTANGENT)
        enters = op.contracts and (reverses or not parameters.isdisjoint(inputs))
        for v in inputs if recomputed or not reverses else ():
            known = readers.setdefault((v, reverses), [])
            known += [layer.removeprefix(COTANGENT)] if layer and not enters else []
    return _of_operands(function, found)


def _of_operands(function: Function, found: Mapping[int, str]) -> dict[int, str]:
    """Give values without a layer that of the operand computed last."""
    found, order = dict(found), {v: k for k, apply in enumerate(function.body) for v in apply.outputs}
    for _, inputs, outputs in function.body:
        last = max((v for v in inputs if found.get(v)), key=lambda v: order.get(v, -1), default=None)
        found |= {v: found[last] for v in outputs if last is not None and not found[v]}
    return found


def _known(function: Function) -> tuple[dict[int, str], set[int], list[str]]:
    """Return layers by names, parameters and cotangents; parameters, rearranged too; layers of reverses."""
    own = {v: layer_of(name) or name for v, name in function.names.items()}
    found = {v: own.get(v, "") for v in function.arguments}
    dotted = {v for v in function.arguments if "." in function.names.get(v, "")}
    parameters = {v for v in dotted if not function.names[v].startswith(COTANGENT)}
    origins: list[str] = []
    for _, inputs, outputs in function.body:
        weight = next((found[v] for v in inputs if v in parameters), "")
        cotangent = next((found[v] for v in inputs if found.get(v, "").startswith(COTANGENT)), "")
        of_weight = weight and not weight.startswith(COTANGENT)
        origins.append(COTANGENT + weight if cotangent and of_weight else cotangent)
        found |= {v: own.get(v) or origins[-1] or weight for v in outputs}
        if len(inputs) == 1 and weight:
            parameters.update(outputs)
    return found, parameters, origins


def _around(layers: Iterable[str]) -> str:
    """Return the innermost layer around all of these."""
    parts = zip(*(layer.split(".") for layer in layers), strict=False)
    return ".".join(same[0] for same in takewhile(lambda same: len({*same}) == 1, parts))


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
