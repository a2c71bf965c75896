"""From a module to the graph of its operations, by `torch.export`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from catgrad.errors import OptionError, UnsupportedOp
from catgrad.frontends.torch.registry import REGISTRY


def exported(module: Any, inputs: Sequence[Any]) -> Any:
    """The graph of a module in evaluation, in which operations that are not registered are decomposed.

    Raises: OptionError for inputs that are no tensors; UnsupportedOp if torch.export gives up
    """
    import torch

    for leaf in torch.utils._pytree.tree_leaves(tuple(inputs)):
        if not isinstance(leaf, torch.Tensor):
            raise OptionError(
                "the example inputs must be tensors",
                f"one is {leaf!r}",
                "set other arguments by a wrapping module or functools.partial",
            )
    with _evaluating(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, about its own future
        try:
            program = torch.export.export(module, tuple(inputs), strict=False)
            return program.run_decompositions(_table(torch))
        except Exception as error:
            raise _refused(error) from error


def _table(torch: Any) -> Any:
    """PyTorch's decompositions, without those of operations that are registered."""
    table = torch.export.default_decompositions()
    for operation in list(table):
        if str(operation) in REGISTRY:
            table.pop(operation)
    return table


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """The module, and all in it, in evaluation; afterwards each is again as it was."""
    flags = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for each, training in flags:
            each.training = training


def _refused(error: Exception) -> UnsupportedOp:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    data_dependent = "data-dependent" in str(error)
    return UnsupportedOp(
        "the way through a module must not depend on data"
        if data_dependent
        else "a module must run on the example inputs and be one that torch.export follows",
        f"it stops with: {lines[0].rstrip('.')}",
        "choose by torch.where instead of `if`, and keep sizes fixed"
        if data_dependent
        else "try module(*inputs), then torch.export.export(module, inputs)",
    )
