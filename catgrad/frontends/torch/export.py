"""Export a module to a graph of operations, by `torch.export`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any

from catgrad.errors import OptionError, ToolError, UnsupportedOp
from catgrad.frontends.torch.registry import REGISTRY


def exported(module: Any, inputs: Sequence[Any]) -> Any:
    """Export a module in evaluation mode, and decompose operations that are not registered.

    Raises: OptionError if it is not a module, or inputs are not tensors; UnsupportedOp if torch.export
            fails; ToolError without PyTorch
    """
    try:
        import torch
    except ImportError:
        raise ToolError(
            "PyTorch must be installed to import from it", "it is not", "pip install torch"
        ) from None
    if not isinstance(module, torch.nn.Module):
        raise OptionError("the model must be a torch.nn.Module", f"it is {module!r}", "wrap it in one")
    for leaf in torch.utils._pytree.tree_leaves(tuple(inputs)):
        if not isinstance(leaf, torch.Tensor):
            raise OptionError(
                "the example inputs must be tensors",
                f"one is {leaf!r}",
                "set other arguments by a wrapping module or functools.partial",
            )
    with _evaluating(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of PyTorch about its future
        try:
            program = torch.export.export(module, tuple(inputs), strict=False)
            _detach_without_gradient(program, torch.ops.aten.detach.default)
            return program.run_decompositions(_table(torch))
        except Exception as error:
            raise _refused(error) from error


def _detach_without_gradient(program: Any, detach: Any) -> None:
    """Detach results of torch.no_grad(), as decomposition removes that context."""
    graph = program.graph_module.graph
    for node in graph.nodes:
        if str(node.target) != "wrap_with_set_grad_enabled" or node.args[0]:
            continue
        for part in list(node.users):
            with graph.inserting_after(part):
                detached = graph.call_function(detach, (part,))
            detached.meta = dict(part.meta)
            part.replace_all_uses_with(detached, lambda user, new=detached: user is not new)
            program.graph_signature.replace_all_uses(part.name, detached.name)


def _table(torch: Any) -> Any:
    """Return PyTorch's decompositions, except those of registered operations."""
    table = torch.export.default_decompositions()
    for operation in list(table):
        if str(operation) in REGISTRY:
            table.pop(operation)
    return table


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Set a module and its submodules to evaluation mode, and restore the mode of each afterwards."""
    flags = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for each, training in flags:
            each.training = training


def _refused(error: Exception) -> UnsupportedOp:
    """Return the error of torch.export in one sentence, with the line of forward."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    found = f"torch.export says: {lines[0].rstrip('.')}"
    if "data-dependent" in str(error):
        must, do = (
            "control flow in a module must not depend on data",
            "select by torch.where, and keep sizes fixed",
        )
    else:
        must, do = (
            "torch.export must be able to trace the module on the example inputs",
            "try module(*inputs) first",
        )
    return UnsupportedOp(must, found, do, where=_place(error))


def _place(error: Exception) -> str:
    """Return the innermost line of the module's code in the traceback of an error."""
    import torch

    standard, pytorch = Path(contextlib.__file__).parent, Path(torch.__file__).parent
    for frame in reversed(extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.parent != standard and pytorch not in file.parents and file != Path(__file__):
            return f"{frame.name} ({file.name}, line {frame.lineno})"
    return ""
