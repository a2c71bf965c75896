"""Losses of PyTorch, modules and functions of tensors, as functions on variables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from catgrad.dims import Dim
from catgrad.errors import OptionError
from catgrad.frontends.torch.imported import from_torch
from catgrad.frontends.torch.operands import dtype_from
from catgrad.frontends.torch.tensors import example, example_sizes
from catgrad.learn.checks import Loss
from catgrad.types import Dtype, NdArrayType

OF_CLASSES = ("CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll", "nll_loss")
"""Losses whose targets are whole numbers of classes, unless examples of targets say otherwise."""

THEIRS = {
    "mse": "mse_loss", "l1": "l1_loss", "huber": "huber_loss", "kl_div": "kl_div", "nll": "nll_loss",
    "cross_entropy": "cross_entropy", "bce_with_logits": "binary_cross_entropy_with_logits",
}  # fmt: skip
"""Losses of catgrad, and the functions of torch.nn.functional with their numbers."""

Types = tuple[NdArrayType, ...]


def criterion(loss: Any, outputs: Types, targets: Sequence[Any] | None) -> tuple[Loss, Types]:
    """Return a loss as a function on variables, and the types of its targets.

    `targets` are examples; without them, targets have the types of the outputs, or are numbers of classes.

    Raises: OptionError for a value that is no loss, or a loss module with parameters; as `from_torch`
    """
    labels = _labels(loss, outputs, targets)
    if _is_ours(loss):
        return loss, labels
    import torch

    if not callable(loss):
        raise OptionError("a loss must be a function or a module", f"it is {loss!r}", "pass nn.MSELoss()")
    wrapped = _Applied.of(torch, loss)
    types = (*outputs, *labels)
    sizes = example_sizes(types)
    examples = [example(type, sizes) for type in types]
    dynamic = {f"arrays_{k}": [_symbol(size) for size in type.shape] for k, type in enumerate(types)}
    imported = from_torch(wrapped, *examples, train=True, dynamic=dynamic)
    if imported.parameters:
        raise OptionError(
            "a loss must have no parameters of its own",
            f"it has {', '.join(imported.parameters)}",
            "make it part of the model",
        )

    def compute(*arrays: Any) -> Any:
        return imported.model.apply(*arrays)[0]

    return compute, labels


class _Applied:
    """A loss as a module on all outputs and targets."""

    @staticmethod
    def of(torch: Any, loss: Any) -> Any:
        class Applied(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.loss = loss

            def forward(self, *arrays: Any) -> Any:
                return self.loss(*arrays)

        return Applied()


def counterpart(loss: Any) -> Any:
    """Return a loss as a function of tensors: its own, or that of PyTorch with the numbers of one of ours.

    Raises: OptionError if one of ours has none
    """
    if not _is_ours(loss):
        return loss
    function, options = (loss.func, loss.keywords) if isinstance(loss, partial) else (loss, {})
    name = THEIRS.get(function.__name__)
    if name is None or (isinstance(loss, partial) and loss.args):
        raise OptionError(
            "a loss of PyTorch must be known, to compare with",
            f"{described(loss)} has no counterpart",
            "pass loss= as a function of tensors",
        )

    def compute(y_hat: Any, y: Any) -> Any:
        import torch

        named = dict(options)
        if named.get("weight") is not None:
            named["weight"] = torch.as_tensor(named["weight"], dtype=y_hat.dtype, device=y_hat.device)
        if name == "kl_div" and named.get("reduction", "mean") == "mean":
            named["reduction"] = "batchmean"
        y_hat = y_hat.movedim(-1, 1) if function.__name__ in OF_CLASSES and y_hat.ndim > 2 else y_hat
        return getattr(torch.nn.functional, name)(y_hat, y, **named)

    return compute


def described(loss: Any) -> str:
    """Format a loss by its name and options, the same in every process."""
    if isinstance(loss, partial):
        return f"{described(loss.func)}({', '.join(f'{k}={v!r}' for k, v in loss.keywords.items())})"
    return getattr(loss, "__qualname__", None) or " ".join(str(loss).split())


def _function(loss: Any) -> Any:
    """Return a loss without the options that are bound to it."""
    return loss.func if isinstance(loss, partial) else loss


def _is_ours(loss: Any) -> bool:
    return str(getattr(_function(loss), "__module__", "")).split(".")[0] == "catgrad"


def _labels(loss: Any, outputs: Types, targets: Sequence[Any] | None) -> Types:
    if targets is not None:
        return tuple(_type_like(t, outputs) for t in targets)
    function = _function(loss)
    name = getattr(function, "__name__", type(function).__name__)
    if name not in OF_CLASSES:
        return outputs
    # The axis of classes is the last of an array here, and the second of a tensor.
    return tuple(_of_classes(y.shape, y.rank - 1 if _is_ours(loss) else min(y.rank - 1, 1)) for y in outputs)


def _of_classes(shape: tuple[Any, ...], axis: int) -> NdArrayType:
    """Return the type of numbers of classes, whose scores are along this axis of an output."""
    return NdArrayType((*shape[: max(axis, 0)], *shape[axis + 1 :]), Dtype.int64)


def _type_like(target: Any, outputs: Types) -> NdArrayType:
    """Return the type of a target, whose first axis is the batch if that of the first output is."""
    batch = outputs[0].shape[:1]
    shape = tuple(target.shape)
    return NdArrayType((*batch, *shape[1:]) if shape else (), dtype_from(target.dtype))


def _symbol(size: Any) -> str | None:
    return str(size) if isinstance(size, Dim) and size == Dim(min(size.symbols)) else None
