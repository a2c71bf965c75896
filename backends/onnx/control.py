"""Loops and branches, whose blocks are graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catgrad.programs.program import Function, Nested

from .compute import computed
from .graph import LAST, Graph, Value, value_info
from .rules import emits


def block(g: Graph, function: Function, name: str, arguments: Sequence[str]) -> Any:
    """Return a function as a graph inside another; results that are arguments are copied."""
    inside = Graph(g)
    results = computed(inside, function, arguments)
    outputs = [inside.add("Identity", value) for value in results]
    infos = [value_info(n, v.type) for n, v in zip(outputs, results, strict=True)]
    return inside.proto(name, (), infos)


@emits("Cond")
def branch(g: Graph, op: Nested, condition: Value, *arguments: Value) -> list[str]:
    """A branch, whose graphs read the values around them."""
    then, otherwise = (
        block(g, function, name, arguments)
        for function, name in zip(op.functions, ("then", "otherwise"), strict=True)
    )
    return g.several("If", len(op.functions[0].results), condition, then_branch=then, else_branch=otherwise)


@emits("Scan")
def loop(g: Graph, op: Nested, *operands: Value) -> list[str]:
    """A loop, which reads rows by its number: a Scan of ONNX must have rows."""
    from onnx import TensorProto, helper

    scan: Any = op.op
    (function,) = op.functions
    carry, rows, constants = scan.parts(operands)
    number, goes_on = g.namer.fresh("iteration"), g.namer.fresh("goes_on")
    inside = Graph(g)
    place = number
    if scan.backwards:
        last = inside.add("Sub", inside.number(scan.length), inside.constant(1))
        place = inside.add("Sub", last, number)
    carried = [g.namer.fresh("carry") for _ in carry]
    read = [inside.add("Gather", row, place, axis=0) for row in rows]
    results = computed(inside, function, [*carried, *read, *constants])
    outputs = [inside.add("Identity", value) for value in results]
    still = inside.add("Identity", goes_on)
    infos = [value_info(n, v.type) for n, v in zip(outputs, results, strict=True)]
    body = inside.proto(
        "body",
        [
            helper.make_tensor_value_info(number, TensorProto.INT64, []),
            helper.make_tensor_value_info(goes_on, TensorProto.BOOL, []),
            *(value_info(n, v.type) for n, v in zip(carried, carry, strict=True)),
        ],
        [helper.make_tensor_value_info(still, TensorProto.BOOL, []), *infos],
    )
    found = g.several("Loop", len(results), g.number(scan.length), "", *carry, body=body)
    stacked = found[len(carry) :]
    if scan.backwards:
        backwards = [g.constant([n]) for n in (-1, -LAST, 0, -1)]
        stacked = [g.add("Slice", y, *backwards) for y in stacked]
    return [*found[: len(carry)], *stacked]
