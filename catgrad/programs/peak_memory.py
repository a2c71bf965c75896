"""Peak memory of straight-line code: the largest sum of sizes of values with overlapping lifetimes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from catgrad.dims import Size, greatest_coefficient, numbers, product
from catgrad.errors import OptionError
from catgrad.programs.program import Function, Nested, straighten
from catgrad.terms.block import blocks
from catgrad.terms.op import Op
from catgrad.terms.structural import Label
from catgrad.types import NdArrayType

MAX_ADDRESSABLE_BYTES = 2**63 - 1
"""The maximum of a signed 64-bit integer, such as ptrdiff_t: the greatest difference of addresses."""


def peak(function: Function, sizes: Mapping[str, Size] | None = None) -> int:
    """Return the greatest sum of sizes of values alive at once, with `sizes[name]` for each symbol.

    The lifetime of a value is from the operation that computes it to the last one that reads it.
    Arguments belong to the caller and live throughout; results live to the end. While an operation
    runs, its inputs, its outputs and the values inside its blocks are alive.

    Units:  bytes
    Raises: ShapeError if a symbol has no size
    """
    known = sizes or {}
    arguments = sum(_bytes(function.types[value], known) for value in set(function.arguments))
    return arguments + max(workspaces(function, known), default=0)


def workspaces(function: Function, sizes: Mapping[str, Size] | None = None) -> list[int]:
    """Return for each operation the sum of sizes of values alive while it runs, without the arguments.

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
    alive, found = 0, []
    for apply, done in zip(function.body, ending, strict=False):
        alive += sum(size[value] for value in apply.outputs)
        found.append(alive + _inside(apply.op, known))
        alive -= sum(size[value] for value in done)
    return found


def _inside(op: Op, sizes: Mapping[str, Size]) -> int:
    """Return the peak memory inside the blocks; their arguments are counted outside."""
    return max((alive for part in _parts(op) for alive in workspaces(part, sizes)), default=0)


def _parts(op: Op) -> tuple[Function, ...]:
    """Return the blocks of a loop or a branch as functions."""
    if isinstance(op, Nested):
        return op.functions
    return tuple(straighten(block.term) for block in blocks(op).values())


def _bytes(type: NdArrayType, sizes: Mapping[str, Size]) -> int:
    count = 1
    for size in numbers(type.substitute(sizes).shape):
        count *= size
    return count * type.dtype.itemsize


def require_addressable(function: Function) -> None:
    """Raise OptionError unless the sum of the sizes of all arrays of a function fits into 64 bits.

    For symbolic sizes, each coefficient of the sum must fit; an axis of size 0 counts as 1, as in NumPy.
    """
    counts = Counter(_types(function))
    spans = {type: _span(type) for type in counts}
    total: Size = 0
    for type, count in counts.items():
        total = total + spans[type] * count
    if greatest_coefficient(total) <= MAX_ADDRESSABLE_BYTES:
        return
    largest = max(spans, key=lambda each: greatest_coefficient(spans[each]))
    labels = {outputs[0]: op.name for op, _, outputs in function.body if isinstance(op, Label)}
    named = ({**labels, **function.names}).items()
    name = next((f"{name}, " for value, name in named if function.types[value] is largest), "")
    raise OptionError(
        f"the arrays of {function.name} must take at most 2^63 - 1 bytes together",
        f"they take {total}, of which the largest takes {spans[largest]}: {name}{largest}",
        "choose smaller sizes",
    )


def _types(function: Function) -> Iterator[NdArrayType]:
    """Yield the types of a function's values, including those in loops and branches."""
    yield from filter(None, function.types)
    for apply in function.body:
        for part in _parts(apply.op):
            yield from _types(part)


def _span(type: NdArrayType) -> Size:
    return product(tuple(size for size in type.shape if size != 0)) * type.dtype.itemsize
