"""Translation of graphs: broadcasts of operands, and refusals, which one error lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catgrad import ops
from catgrad.errors import CatgradError, FixedSize, UnsupportedOp
from catgrad.ops.shape import Shape

REFUSED = object()
"""The value of an operation that cannot be translated, and of those that read it."""


def spread(x: Any, shape: Shape) -> Any:
    """Broadcast x to this shape: new leading axes, and axes of size 1."""
    offset = len(shape) - x.type.rank
    ones = [axis for axis, size in enumerate(x.shape) if size == 1 and shape[offset + axis] != 1]
    new = [*range(offset), *(offset + axis for axis in ones)]
    return ops.broadcast(ops.squeeze(x, ones), shape, new) if new else x


def raise_refusals(refusals: Sequence[CatgradError], unknown: str, must: str, whole: str, do: str) -> None:
    """Raise the only refusal, or one that lists all; those of `unknown` operations without a reason."""
    if len(refusals) == 1:
        raise refusals[0] from None
    if refusals:
        reasons = ["" if e.must == unknown else f" ({e.must}, but {e.found})" for e in refusals]
        places = [f"{e.subject} in {e.where or whole}" for e in refusals]
        listed = dict.fromkeys(map(str.__add__, places, reasons))
        found = f"it lacks {len(listed)}: {'; '.join(listed)}"
        if any(isinstance(e, FixedSize) for e in refusals):
            raise FixedSize(must, found)
        raise UnsupportedOp(must, found, do)
