"""Functions of PyTorch that torch.export does not trace, and what computes the same in their place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional

from catgrad.frontends.torch.tracing import margins, observers, packed, transforms
from catgrad.frontends.torch.types import Module, Tensor

MODES = ("sum", "mean", "max")


@contextlib.contextmanager
def traceable(module: Module) -> Iterator[None]:
    """Replace functions that read values of arrays in Python, or are decomposed, while a module is traced."""
    batch_norm = torch.nn.modules.batchnorm._BatchNorm
    replacements = [
        (torch.distributions.Distribution, "_validate_args", False),
        (batch_norm, "forward", _with_average(batch_norm.forward)),
        (functional, "embedding_bag", _of_matrices(functional.embedding_bag)),
        (functional, "max_pool1d", _of_images(functional.max_pool1d)),
        (functional, "multi_margin_loss", margins.multi_margin_loss),
        (torch, "einsum", _in_order(torch.einsum)),
        (torch, "bincount", _of_known_length(torch.bincount)),
        (torch.Tensor, "bincount", _of_known_length(torch.Tensor.bincount)),
        *observers.replacements(module),
        *packed.replacements(),
        *transforms.replacements(),
    ]
    with contextlib.ExitStack() as after:
        for owner, name, value in replacements:
            if name in vars(owner):
                after.callback(setattr, owner, name, vars(owner)[name])
            else:
                after.callback(delattr, owner, name)
            setattr(owner, name, value)
        yield


def _with_average(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Batch norm whose running statistics are averages of all batches, as without a momentum."""

    def averaging(self: Module, x: Tensor) -> Tensor:
        count = self.num_batches_tracked
        if self.momentum is not None or not (self.training and self.track_running_stats) or count is None:
            return forward(self, x)
        self._check_input_dim(x)
        count.add_(1)
        kept = [self.running_mean, self.running_var]
        mean, variance = (statistic.clone() for statistic in kept)
        y = functional.batch_norm(x, mean, variance, self.weight, self.bias, True, 1.0, self.eps)
        for statistic, new in zip(kept, (mean, variance), strict=True):
            share = 1 / count.to(statistic.dtype)
            statistic.copy_(share * new + (1 - share) * statistic)
        return y

    return averaging


def _of_images(max_pool1d: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Max pooling of sequences of symbolic length, which torch.export would fix, as that of images."""

    def pool(
        x: Any, size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, *more: Any, **named: Any
    ) -> Tensor:
        if not isinstance(x.shape[-1], torch.SymInt):
            return max_pool1d(x, size, stride, padding, dilation, *more, **named)
        size, stride, padding, dilation = (
            (first, *(n if isinstance(n, tuple) else (n,)))
            for first, n in ((1, size), (1, size if stride is None else stride), (0, padding), (1, dilation))
        )
        y = functional.max_pool2d(x.unsqueeze(-2), size, stride, padding, dilation, *more, **named)
        return y.squeeze(-2)

    return pool


def _in_order(einsum: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Einsum of factors from left to right: to choose an order, PyTorch fixes symbolic sizes."""

    def product(equation: object, *factors: object) -> Tensor:
        sizes = [n for x in torch.utils._pytree.tree_leaves(factors) for n in getattr(x, "shape", ())]
        is_free = torch.backends.opt_einsum.enabled and not any(isinstance(n, torch.SymInt) for n in sizes)
        with torch.backends.opt_einsum.flags(is_free):
            return einsum(equation, *factors)

    return product


def _of_known_length(bincount: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Counts of numbers below `minlength`, where PyTorch would lengthen the result for others."""

    def counts(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
        if isinstance(minlength, int) and not minlength:
            return bincount(x, weights, minlength)
        if weights is None:
            each = torch.ones_like(x, dtype=torch.int64)
        else:
            each = weights if weights.dtype is torch.float32 else weights.double()
        return each.new_zeros(minlength).scatter_add(0, x.long(), each)

    return counts


def _of_matrices(embedding_bag: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Bags of one size, the rows of a matrix of indices: reductions along an axis."""

    def bags(
        input: Tensor,
        weight: Tensor,
        offsets: Tensor | None = None,
        max_norm: float | None = None,
        norm_type: float = 2,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        per_sample_weights: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Tensor:
        is_weighted = per_sample_weights is not None
        is_other = offsets is not None or max_norm is not None or mode not in MODES
        if input.dim() != 2 or is_other or (is_weighted and mode != "sum"):
            return embedding_bag(
                input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
                per_sample_weights, include_last_offset, padding_idx,
            )  # fmt: skip
        rows = functional.embedding(input, weight, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
        if is_weighted:
            rows = rows * per_sample_weights.unsqueeze(-1)
        padding = None if padding_idx is None else input == padding_idx % weight.shape[0]
        return _reduced(rows, padding, mode)

    return bags


def _reduced(rows: Tensor, padding: Tensor | None, mode: str) -> Tensor:
    """Return the sum, mean or maximum of the rows of each bag that are no padding; 0 if there are none."""
    if padding is None:
        return rows.max(1).values if mode == "max" else getattr(rows, mode)(1)
    away = padding.unsqueeze(-1)
    if mode == "max":
        greatest = rows.masked_fill(away, -torch.inf).max(1).values
        return greatest.masked_fill(away.all(1), 0.0)
    total = rows.masked_fill(away, 0.0).sum(1)
    count = (~away).sum(1).clamp(min=1)
    return total / count if mode == "mean" else total
