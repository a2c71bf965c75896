"""Check a module and its example inputs before the export."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import ModuleType

from catgrad.errors import OptionError, UnsupportedOp
from catgrad.frontends.torch.types import Module


def check_module(module: Module, inputs: Sequence[object]) -> None:
    """Check that a module is complete and written in Python, and that its example inputs are tensors.

    Raises: OptionError, or UnsupportedOp for TorchScript
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise OptionError("the model must be a torch.nn.Module", f"it is {module!r}", "wrap it in one")
    if not isinstance(module, torch.jit.ScriptModule) and "_modules" not in vars(module):
        must, found = "a module must begin with super().__init__()", "this one does not call it"
        raise OptionError(must, found, "add it to __init__", where=type(module).__name__)
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise UnsupportedOp(
                "the parts of a module must be written in Python",
                f"{name or 'it'} is TorchScript",
                "import the module that it was made from",
            )
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if torch.nn.parameter.is_lazy(tensor):
            must, do = "all parameters must have a shape", "call module(*inputs) once before the import"
            raise OptionError(must, f"{name} of a lazy layer has none", do)
    _check_inputs(torch, module, inputs)


def _check_inputs(torch: ModuleType, module: Module, inputs: Sequence[object]) -> None:
    for leaf in torch.utils._pytree.tree_leaves(tuple(inputs)):
        if not isinstance(leaf, torch.Tensor):
            raise OptionError(
                "the example inputs must be tensors",
                f"one is {leaf!r}",
                "set other arguments by a wrapping module or functools.partial",
            )
    try:
        inspect.signature(module.forward).bind(*inputs)
    except TypeError as error:
        raise OptionError(
            "the example inputs must be the positional arguments of forward",
            f"Python says: {error}",
            "pass a tensor for each, and set keyword arguments by a wrapping module",
            where=type(module).__name__,
        ) from None
