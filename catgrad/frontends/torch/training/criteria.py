"""Losses of PyTorch, modules and functions of tensors, as functions on variables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from catgrad.dims import Dim
from catgrad.errors import FixedSize, OptionError, UnsupportedOp
from catgrad.frontends.torch.importer import Importer
from catgrad.frontends.torch.tensors import example, example_sizes
from catgrad.frontends.torch.tracing.export import Export
from catgrad.frontends.torch.training.targets import Types
from catgrad.frontends.torch.types import Module, Tensor
from catgrad.learn.checks import Loss
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

OF_CLASSES = ("CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll", "nll_loss")
"""Losses whose targets are whole numbers of classes, unless examples of targets say otherwise."""

THEIRS = {
    "mse": "mse_loss",
    "l1": "l1_loss",
    "huber": "huber_loss",
    "kl_div": "kl_div",
    "nll": "nll_loss",
    "cross_entropy": "cross_entropy",
    "bce_with_logits": "binary_cross_entropy_with_logits",
}
"""Losses of catgrad, and the functions of torch.nn.functional with their numbers."""


def criterion(loss: Callable[..., Any], outputs: Types, targets: Types | None) -> tuple[Loss, Types]:
    """Return a loss as a function on variables, and the types of its targets.

    Without `targets`, these have the types of the outputs, are numbers of classes, or are none, as those of a
    module that returns its loss: whichever a function of tensors takes.

    Raises: OptionError for a value that is no loss, or a loss module with parameters; as `from_torch`
    """
    choices = [targets] if targets is not None else _choices(loss, outputs)
    if _is_ours(loss):
        return loss, choices[0]
    if not callable(loss):
        raise OptionError("a loss must be a function or a module", f"it is {loss!r}", "pass nn.MSELoss()")
    refusals = []
    for labels in choices:
        try:
            return _imported(loss, outputs, labels), labels
        except UnsupportedOp as error:
            refusals.append(error)
    refusal = refusals[0]
    if targets is None and not isinstance(refusal, FixedSize):
        refusal.do = "pass examples of its targets, compile_module(..., targets=(y,))"
    raise refusal


def _imported(loss: Module, outputs: Types, labels: Types) -> Loss:
    """Import a function of tensors of these types."""
    import torch

    wrapped = _Applied.of(torch, loss)
    types = (*outputs, *labels)
    sizes = example_sizes(types)
    examples = [example(type, sizes) for type in types]
    dynamic = {
        f"arrays_{k}": [size if isinstance(size, Dim) else None for size in type.shape]
        for k, type in enumerate(types)
    }
    trained = {name: name for name, p in wrapped.named_parameters() if p.requires_grad}
    importer = Importer(Export(wrapped, examples, True, dynamic), trained)
    model = importer.model()
    if importer.parameters:
        raise OptionError(
            "a loss must have no parameters of its own",
            f"it has {', '.join(importer.parameters)}",
            "make it part of the model",
        )

    def compute(*arrays: Var) -> Any:
        return model.apply(*arrays)[0]

    return compute


class _Applied:
    """A loss as a module on all outputs and targets."""

    @staticmethod
    def of(torch: Any, loss: Module) -> Module:
        class Applied(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.loss = loss

            def forward(self, *arrays: Tensor) -> Tensor:
                return self.loss(*arrays)

        return Applied()


def counterpart(loss: Callable[..., Any]) -> Callable[..., Any]:
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

    def compute(y_hat: Tensor, y: Tensor) -> Tensor:
        import torch

        named = dict(options)
        if named.get("weight") is not None:
            named["weight"] = torch.as_tensor(named["weight"], dtype=y_hat.dtype, device=y_hat.device)
        if name == "kl_div" and named.get("reduction", "mean") == "mean":
            named["reduction"] = "batchmean"
        y_hat = y_hat.movedim(-1, 1) if function.__name__ in OF_CLASSES and y_hat.ndim > 2 else y_hat
        return getattr(torch.nn.functional, name)(y_hat, y, **named)

    return compute


def described(loss: Callable[..., Any]) -> str:
    """Format a loss by its name and options, the same in every process."""
    if isinstance(loss, partial):
        return f"{described(loss.func)}({', '.join(f'{k}={v!r}' for k, v in loss.keywords.items())})"
    return getattr(loss, "__qualname__", None) or " ".join(str(loss).split())


def _function(loss: Any) -> Any:
    """Return a loss without the options that are bound to it."""
    return loss.func if isinstance(loss, partial) else loss


def _is_ours(loss: object) -> bool:
    return str(getattr(_function(loss), "__module__", "")).split(".")[0] == "catgrad"


def _choices(loss: object, outputs: Types) -> list[Types]:
    """Return the types that targets may have, the likeliest first."""
    function = _function(loss)
    name = getattr(function, "__name__", type(function).__name__)
    if _is_ours(loss):  # the axis of classes is the last of an array here, and the second of a tensor
        return [_of_classes(outputs, -1) if name in OF_CLASSES else outputs]
    second = _of_classes(outputs, 1)
    if name in OF_CLASSES:
        return [second]
    return list(dict.fromkeys([outputs, second, _of_classes(outputs, -1), ()]))


def _of_classes(outputs: Types, axis: int) -> Types:
    """Return the types of numbers of classes, with scores along this axis of the outputs, or the last."""
    places = [range(y.rank)[axis if axis < y.rank else -1] if y.rank else 0 for y in outputs]
    return tuple(
        NdArrayType((*y.shape[:place], *y.shape[place + 1 :]), Dtype.int64)
        for y, place in zip(outputs, places, strict=True)
    )
