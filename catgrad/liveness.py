"""How much memory straight-line code needs, whatever plan is made for it."""

from __future__ import annotations

from collections.abc import Mapping

from catgrad.block import blocks
from catgrad.dims import Size, numbers
from catgrad.op import Op
from catgrad.program import Function, Nested, straighten
from catgrad.types import NdArrayType


def peak(function: Function, sizes: Mapping[str, Size] | None = None) -> int:
    """The greatest sum of sizes of values alive at once, where `sizes[name]` is put for each symbol.

    A value lives from the operation that computes it until the last that reads it: arguments from
    the start, results to the end, and arguments too, which are the caller's. While an operation
    runs, its inputs and outputs are alive, and what the body of a loop or a branch computes inside.

    Units:  bytes
    Raises: ShapeError if a symbol has no size
    """
    known = sizes or {}
    size = [_bytes(type, known) for type in function.types]
    last = dict.fromkeys((*function.arguments, *function.results), len(function.body))
    for step, apply in enumerate(function.body):
        for value in (*apply.outputs, *apply.inputs):
            last[value] = max(last.get(value, step), step)
    ending: list[list[int]] = [[] for _ in range(len(function.body) + 1)]
    for value, step in last.items():
        ending[step].append(value)
    alive = greatest = sum(size[value] for value in set(function.arguments))
    for apply, done in zip(function.body, ending, strict=False):
        alive += sum(size[value] for value in apply.outputs)
        greatest = max(greatest, alive + _inside(apply.op, known))
        alive -= sum(size[value] for value in done)
    return greatest


def _inside(op: Op, sizes: Mapping[str, Size]) -> int:
    """What its blocks compute, beside their arguments, which are counted outside."""
    parts = op.functions if isinstance(op, Nested) else [straighten(b.term) for b in blocks(op).values()]
    own = (peak(f, sizes) - sum(_bytes(type, sizes) for type in f.argument_types) for f in parts)
    return max(own, default=0)


def _bytes(type: NdArrayType, sizes: Mapping[str, Size]) -> int:
    count = 1
    for size in numbers(type.substitute(sizes).shape):
        count *= size
    return count * type.dtype.numpy.itemsize
