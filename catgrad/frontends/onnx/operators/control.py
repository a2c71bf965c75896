"""Branches and loops, whose blocks are graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from catgrad import ops
from catgrad.frontends.onnx.operators.operands import numbers_in
from catgrad.frontends.onnx.registry import onnx, require
from catgrad.frontends.onnx.types import Value
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

if TYPE_CHECKING:
    from catgrad.frontends.onnx.graph import Block

Arrays = tuple[Var, ...]


@onnx("If", since=(13, 16, 19, 21, 23, 24, 25), known="condition")
def branch(condition: Value, *, then_branch: Block, else_branch: Block) -> tuple[Any, ...]:
    """Compute one of two graphs; the condition may be a constant."""
    if isinstance(condition, np.ndarray):
        return tuple((then_branch if condition.item() else else_branch)())
    then, otherwise = (lambda block=block: block.variables() for block in (then_branch, else_branch))
    found = ops.cond(ops.reshape(condition), then, otherwise)
    return found if isinstance(found, tuple) else (found,)


@onnx("Loop", since=(13, 16, 19, 21, 23, 24, 25), static="times", known="condition")
def loop(times: Any, condition: Any, *initial: Var, body: Block) -> Arrays:
    """Repeat a graph a fixed number of times, or never if its condition is known to be false."""
    is_known = condition is None or isinstance(condition, np.ndarray)
    never = condition is not None and is_known and not condition.all()
    require(
        never or times is not None,
        "a loop must have a number of iterations",
        "it has a condition alone",
        "write its number of iterations",
    )
    _require_unconditional(is_known)
    (count,) = (0,) if never else numbers_in(times)

    def iteration(carry: Arrays, _: object) -> tuple[Arrays, Arrays]:
        number, *values = carry
        goes_on, *results = body(number, np.array(True), *values)
        _require_unconditional(isinstance(goes_on, np.ndarray) and bool(goes_on.all()))
        new = body.as_variables(results)
        return (number + 1, *new[: len(initial)]), tuple(new[len(initial) :])

    start = Constant(NdArrayType((), Dtype.int64), 0)()
    (_, *last), rows = ops.scan(iteration, (start, *initial), length=count)
    return (*last, *(rows if isinstance(rows, tuple) else (rows,)))


def _require_unconditional(holds: bool) -> None:
    require(
        holds,
        "a loop must run a fixed number of times",
        "its condition depends on data",
        "replace the condition by a number of iterations",
    )


@onnx("Scan", since=(11, 16, 19, 21, 23, 24, 25))
def scan(
    *arrays: Var,
    body: Block,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> Arrays:
    """Apply a graph to the rows of arrays, with a carry."""
    carried = len(arrays) - num_scan_inputs
    axes = scan_input_axes or [0] * num_scan_inputs
    rows = [_front(x, axis) for x, axis in zip(arrays[carried:], axes, strict=True)]
    directions = [*(scan_input_directions or [0] * num_scan_inputs)]
    rows = [ops.flip(x, 0) if back else x for x, back in zip(rows, directions, strict=True)]

    def iteration(carry: Arrays, row: Arrays) -> tuple[Arrays, Arrays]:
        new = body.as_variables(body(*carry, *row))
        return tuple(new[:carried]), tuple(new[carried:])

    last, stacked = ops.scan(iteration, tuple(arrays[:carried]), tuple(rows))
    stacked = stacked if isinstance(stacked, tuple) else (stacked,)
    backwards = scan_output_directions or [0] * len(stacked)
    places = scan_output_axes or [0] * len(stacked)
    outputs = [
        _back(ops.flip(y, 0) if back else y, axis)
        for y, back, axis in zip(stacked, backwards, places, strict=True)
    ]
    return (*last, *outputs)


def _front(x: Var, axis: int) -> Var:
    """Move an axis to the front."""
    axis %= x.type.rank
    return ops.permute(x, axis, *(k for k in range(x.type.rank) if k != axis)) if axis else x


def _back(x: Var, axis: int) -> Var:
    """Move the first axis to another place."""
    order = list(range(1, x.type.rank))
    order.insert(axis % x.type.rank, 0)
    return ops.permute(x, *order)
