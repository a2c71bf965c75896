"""Parts of an array as slices of it, which are views and cost less than a call of np.split."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from catgrad.ops.slices import Slice, Split
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function


@dataclass(frozen=True)
class PartsAsSlices:
    """The pass that prints splits as slices, where sizes are numbers."""

    name: str = "parts-as-slices"

    def apply(self, function: Function) -> Function:
        """Replace each Split by a Slice for each part."""
        return Rewriter(function).sweep(_spell)


def _spell(rewriter: Rewriter, apply: Apply) -> Values | None:
    op, inputs, _ = apply
    if not isinstance(op, Split):
        return None
    sizes = [size for size in op.sizes if isinstance(size, int)]
    if len(sizes) < len(op.sizes):
        return None
    (x,) = inputs
    whole, axis = rewriter.types[x].shape, op.axis
    return tuple(
        rewriter.apply(
            Slice(
                whole,
                tuple(start if k == axis else 0 for k in range(len(whole))),
                (*whole[:axis], size, *whole[axis + 1 :]),
            ),
            x,
        )
        for start, size in zip(accumulate(sizes, initial=0), sizes, strict=False)
    )
