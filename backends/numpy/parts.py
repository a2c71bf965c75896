"""Parts of an array as slices of it, which are views and cost less than a call of np.split."""

from __future__ import annotations

from itertools import accumulate

from catgrad.ops.slices import Slice, Split
from catgrad.programs.passes.rewrite import Rewriter, Values, by_rule
from catgrad.programs.program import Apply


@by_rule
def parts_as_slices(rewriter: Rewriter, apply: Apply) -> Values | None:
    """Replace each Split by a Slice for each part, where sizes are numbers."""
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
