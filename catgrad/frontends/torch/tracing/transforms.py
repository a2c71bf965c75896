"""Replace steps of torch.func that no trace records by others that one does.

J v of torch.func.jvp, jacfwd, hessian and linearize is computed with dual numbers. Here it is the reverse
derivative of u ↦ u J, which is linear. Under torch.vmap, concatenation and the reverse derivative of
splitting fix symbolic sizes; those of single rows do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import torch
from torch._functorch import eager_transforms
from torch.utils._pytree import tree_map

from catgrad.frontends.torch.types import Replacement, Tensor

MAX_ROWS = 64
"""The length of an axis above which it is not taken apart into rows."""


def replacements() -> list[Replacement]:
    """Return functions with what replaces them during a trace."""
    concatenations = [(torch, name, _joined(torch.cat)) for name in ("cat", "concat", "concatenate")]
    parts = (torch.Tensor, "split", _parted(torch.Tensor.split))
    return [(eager_transforms, "_jvp_with_argnums", jvp), parts, *concatenations]


def jvp(
    function: Any, primals: Any, tangents: Any, argnums: Any, *, strict: bool = False, has_aux: bool
) -> Any:
    """Return the results of a function, and their derivatives along `tangents` of the chosen arguments."""

    def of_chosen(*x: Tensor) -> Any:
        return function(*(x if argnums is None else eager_transforms._replace_args(primals, x, argnums)))

    chosen = primals if argnums is None else eager_transforms._slice_argnums(primals, argnums)
    results, pullback, *auxiliary = torch.func.vjp(of_chosen, *chosen, has_aux=has_aux)
    _, transposed = torch.func.vjp(pullback, tree_map(torch.zeros_like, results))
    (derivatives,) = transposed(tuple(tangents))
    return results, derivatives, *auxiliary


def _parted(split: Callable[..., Any]) -> Callable[..., Any]:
    """Split an array within a transform row by row."""

    def parts(x: Tensor, sizes: int | Sequence[int], dim: int = 0) -> Any:
        if isinstance(sizes, (int, torch.SymInt)) or not _is_short(x.shape[dim]):
            return split(x, sizes, dim)
        if len(sizes) == 1:
            return (x,)
        rows = iter(_rows(x, dim))
        return tuple(torch.stack(list(islice(rows, size)), dim) for size in sizes)

    return parts


def _joined(cat: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Concatenate arrays within a transform row by row."""

    def join(tensors: Sequence[Tensor], dim: int = 0, **named: Any) -> Tensor:
        if named or not tensors or any(x.ndim == 0 or not _is_short(x.shape[dim]) for x in tensors):
            return cat(tensors, dim, **named)
        return torch.stack([row for x in tensors for row in _rows(x, dim)], dim)

    return join


def _is_short(length: object) -> bool:
    """Return whether an axis may be taken apart: within a transform, and if it is short."""
    is_transformed = torch._C._functorch.peek_interpreter_stack() is not None
    return is_transformed and isinstance(length, int) and length <= MAX_ROWS


def _rows(x: Tensor, dim: int) -> list[Tensor]:
    return [x.select(dim, k) for k in range(x.shape[dim])]
