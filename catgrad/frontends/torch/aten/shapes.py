"""Data movement: views, permutations, broadcasts, flips."""

from __future__ import annotations

from catgrad import ops
from catgrad.dims import Dim
from catgrad.errors import FixedSize
from catgrad.frontends.torch.aten.operands import axes_of
from catgrad.frontends.torch.registry import aten
from catgrad.terms.var import Var


@aten("view.default", "_unsafe_view.default")
def view(x: Var, size: list[int]) -> Var:
    """Reshape."""
    return ops.reshape(x, *size)


aten("permute.default")(lambda x, dims: ops.permute(x, *dims))


@aten("squeeze.dims", "squeeze.dim")
def squeeze(x: Var, dims: int | list[int]) -> Var:
    """Remove those of these axes that have size 1; one that is named must have a fixed size."""
    axes = axes_of(x, dims)
    free = next((x.shape[axis] for axis in axes if isinstance(x.shape[axis], Dim)), None)
    if free is not None:
        raise FixedSize("an axis that is squeezed must have a fixed size", f"it has the size {free}")
    return ops.squeeze(x, [axis for axis in axes if x.shape[axis] == 1])


aten("squeeze.default")(ops.squeeze)
aten("unsqueeze.default")(lambda x, dim: ops.expand_dims(x, dim))


@aten("expand.default")
def expand(x: Var, size: list[int], implicit: bool = False) -> Var:
    """Broadcast along new axes and axes of size 1; -1 keeps a size."""
    offset = len(size) - x.type.rank
    return ops.broadcast_to(x, tuple(x.shape[k - offset] if n == -1 else n for k, n in enumerate(size)))


@aten("repeat.default")
def repeat(x: Var, repeats: list[int]) -> Var:
    """Tile x along each axis."""
    shape = (1,) * (len(repeats) - x.type.rank) + x.shape
    pairs = tuple(n for pair in zip(repeats, shape, strict=True) for n in pair)
    copies = ops.broadcast(ops.reshape(x, *shape), pairs, range(0, len(pairs), 2))
    return ops.reshape(copies, *(r * n for r, n in zip(repeats, shape, strict=True)))


aten("flip.default")(lambda x, dims: ops.flip(x, dims) if dims and x.type.rank else x)
