"""Refuse modules whose gradients in PyTorch are not those of their operations."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

from catgrad.frontends.torch.registry import require

MUST = "a gradient must be that of the operations of a module"
DO = "write it with operations and detach()"


@contextlib.contextmanager
def refused(module: Any) -> Iterator[None]:
    """Refuse functions and hooks that define gradients while a module is traced, which does not record them.

    Raises: UnsupportedOp
    """
    import torch

    _check_hooks(module)
    apply = torch.autograd.Function.__dict__["apply"]
    enter = torch.inference_mode.__enter__

    def refuse_function(cls: Any, *arguments: Any, **named: Any) -> Any:
        is_own = not cls.__module__.startswith("torch.")
        require(not is_own, MUST, f"{cls.__name__} is a torch.autograd.Function", DO)
        return apply.__get__(None, cls)(*arguments, **named)

    def refuse_hook(tensor: Any, hook: Any) -> Any:
        require(False, MUST, f"the hook {_named(hook)} changes that of a tensor", DO)

    def refuse_inference(mode: Any) -> Any:
        require(not mode.mode, MUST, "torch.inference_mode() stops it", "use torch.no_grad()")
        return enter(mode)

    with (
        _replaced(torch.autograd.Function, "apply", classmethod(refuse_function)),
        _replaced(torch.Tensor, "register_hook", refuse_hook),
        _replaced(torch.inference_mode, "__enter__", refuse_inference),
    ):
        yield


def check_updates(program: Any, is_new: Callable[[Any], bool]) -> None:
    """Refuse updates under torch.no_grad() of arrays with a gradient, which stays that of the old value.

    `is_new` returns whether the result of an operation shares no storage with its arguments.

    Raises: UnsupportedOp
    """
    differentiable = set()
    for node in program.graph.nodes:
        if node.op == "placeholder" and getattr(node.meta.get("val"), "requires_grad", False):
            differentiable.add(node)
        if node.op != "call_function":
            continue
        if str(node.target) == "wrap_with_set_grad_enabled" and not node.args[0]:
            block = operator.attrgetter(node.args[1].target)(program.graph_module)
            changed = {_root(update.args[0], is_new) for update in block.graph.nodes if _is_update(update)}
            inputs = [each for each in block.graph.nodes if each.op == "placeholder"]
            for argument, each in zip(node.args[2:], inputs, strict=True):
                is_hidden = argument in differentiable and each in changed
                require(not is_hidden, MUST, f"{argument} is changed under torch.no_grad()", DO)
        elif "detach" not in str(node.target) and not differentiable.isdisjoint(node.all_input_nodes):
            differentiable.add(node)


def _check_hooks(module: Any) -> None:
    for name, part in module.named_modules():
        has_hooks = bool(part._backward_hooks or part._backward_pre_hooks)
        require(not has_hooks, MUST, f"{name or 'the module'} has a backward hook", "remove it")
    for name, parameter in module.named_parameters():
        require(not parameter._backward_hooks, MUST, f"{name} has a hook", "remove it")


def _is_update(node: Any) -> bool:
    """Return whether an operation writes to its first argument."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and schema.is_mutable


def _root(array: Any, is_new: Callable[[Any], bool]) -> Any:
    """Return the array whose storage a view shares."""
    while array.op == "call_function" and not is_new(array):
        array = array.args[0]
    return array


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute of a class for a while."""
    known = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, known)


def _named(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
