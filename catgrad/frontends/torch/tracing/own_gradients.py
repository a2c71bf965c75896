"""Refuse modules whose gradients in PyTorch are not those of their operations."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NoReturn

from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch.registry import require
from catgrad.frontends.torch.types import Module, Replacement, Tensor

MUST = "a gradient must be that of the operations of a module"
DO = "write it with operations and detach()"
FREEZE = "freeze parameters before the import, and call detach() on arrays"

WITHOUT_EFFECT = {("torch.autograd.graph", "save_on_cpu")} | {
    ("torch.utils.checkpoint", name) for name in ("_checkpoint_hook", "_recomputation_hook")
}
"""PyTorch's own hooks of saved tensors, which give back what was saved."""

REGISTERED = "torch._library.autograd"
"""The module of gradients of operations of `torch.library`, which remain operations in a graph."""


class Derivative(UnsupportedOp):
    """A derivative within forward: only a trace below autograd has the operations that compute it."""


@contextlib.contextmanager
def derived() -> Iterator[None]:
    """Compute derivatives within forward, for the time of a trace below autograd.

    Raises: UnsupportedOp from backward(), which adds to the attribute `grad` of all parameters
    """
    import torch

    run = torch.autograd.graph._engine_run_backward

    def differentiate(*arguments: Any, accumulate_grad: bool = False, **named: Any) -> Any:
        found, do = "forward itself calls backward()", "use torch.autograd.grad(..., create_graph=True)"
        require(not accumulate_grad, MUST, found, do)
        return run(*arguments, accumulate_grad=accumulate_grad, **named)

    with _replaced(torch.autograd, "_engine_run_backward", differentiate):
        yield


@contextlib.contextmanager
def refused(module: Module) -> Iterator[None]:
    """Refuse all by which a module defines gradients while it is traced, which records operations alone.

    A reentrant checkpoint is traced as the function that it calls, and `tensor.data` as `tensor.detach()`.

    Raises: UnsupportedOp
    """
    import torch
    import torch._dynamo  # reads the properties that are replaced, at its first import

    _check_hooks(module)
    with contextlib.ExitStack() as stack:
        for owner, name, value in (*_calls(torch), *_properties(torch)):
            stack.enter_context(_replaced(owner, name, value))
        stack.callback(_forbid_parameters(torch, module).remove)
        yield
    _check_hooks(module)


def _calls(torch: ModuleType) -> Iterator[Replacement]:
    """Yield functions of PyTorch with those that replace them during a trace."""
    hooks = torch.autograd.graph.saved_tensors_hooks
    pack, enter = hooks.__enter__, torch.inference_mode.__enter__
    known = vars(torch.autograd.Function)["apply"]

    def apply(cls: Any, *arguments: Any, **named: Any) -> Any:
        if cls is torch.utils.checkpoint.CheckpointFunction:
            return _checkpointed(torch, *arguments)
        if cls.__module__ == REGISTERED:
            return known.__get__(None, cls)(*arguments, **named)
        _refuse(f"{_shipped(cls)} is a torch.autograd.Function")

    def register_hook(tensor: Tensor, hook: object) -> NoReturn:
        _refuse(f"the hook {_named(hook)} changes that of a tensor")

    def save(context: object) -> Any:
        known = (type(context).__module__, type(context).__qualname__) in WITHOUT_EFFECT
        require(known, MUST, f"hooks of saved tensors may change it ({type(context).__qualname__})", DO)
        return pack(context)

    def infer(mode: Any) -> Any:
        require(not mode.mode, MUST, "torch.inference_mode() stops it", "use torch.no_grad()")
        return enter(mode)

    def differentiate(*arguments: object, **named: object) -> NoReturn:
        raise Derivative(MUST, "forward itself calls torch.autograd.grad", DO)

    yield torch.autograd.Function, "apply", classmethod(apply)
    yield torch.Tensor, "register_hook", register_hook
    yield torch.Tensor, "register_post_accumulate_grad_hook", register_hook
    yield hooks, "__enter__", save
    yield torch.inference_mode, "__enter__", infer
    yield torch.autograd, "_engine_run_backward", differentiate


def _properties(torch: ModuleType) -> Iterator[Replacement]:
    """Yield properties of tensors by which gradients are changed, with those that replace them."""
    base = torch._C.TensorBase
    flag, data, node, grad = (base.__dict__[name] for name in ("requires_grad", "data", "grad_fn", "grad"))

    def set_flag(x: Tensor, value: bool = True) -> Tensor:
        changes = x.requires_grad != value and (x.requires_grad or isinstance(x, torch.nn.Parameter))
        if changes and not _called_by_pytorch():
            _refuse(f"forward sets requires_grad to {value}", FREEZE)
        flag.__set__(x, value)
        return x

    def set_data(x: Tensor, value: Tensor) -> None:
        if not _called_by_pytorch():
            _refuse("forward assigns to .data", "return the new value, or make it a buffer")
        data.__set__(x, value)

    def read(name: str, known: Any) -> Callable[[Tensor], Any]:
        def value(x: Tensor) -> Any:
            found = known.__get__(x)
            if found is not None and not _called_by_pytorch():
                _refuse(f"forward reads .{name}, by which it may be changed")
            return found

        return value

    def detached(x: Tensor) -> Tensor:
        return data.__get__(x) if _called_by_pytorch() else x.detach()

    yield torch.Tensor, "requires_grad_", set_flag
    yield torch.Tensor, "requires_grad", property(flag.__get__, set_flag)
    yield torch.Tensor, "data", property(detached, set_data)
    yield torch.Tensor, "grad_fn", property(read("grad_fn", node))
    yield torch.Tensor, "grad", property(read("grad", grad), grad.__set__, grad.__delete__)


def _checkpointed(torch: ModuleType, function: Any, preserves_draws: bool, *arguments: Any) -> Any:
    """Compute what a reentrant checkpoint does: without gradients unless an argument requires one."""
    needed = any(isinstance(x, torch.Tensor) and x.requires_grad for x in arguments)
    if needed or not torch.is_grad_enabled():
        return function(*arguments)
    with torch.no_grad():
        return function(*arguments)


def _forbid_parameters(torch: ModuleType, module: Module) -> Any:
    """Refuse new parameters in the parts of a module, until the handle that is returned is removed."""
    parts = {id(part) for part in module.modules()}

    def refuse(part: Module, name: str, parameter: Tensor | None) -> None:
        if id(part) in parts and parameter is not None:
            _refuse(f"forward replaces the parameter {name}", "create it before, and compute with it")

    return torch.nn.modules.module.register_module_parameter_registration_hook(refuse)


def _check_hooks(module: Module) -> None:
    import torch

    names = ("_global_backward_hooks", "_global_backward_pre_hooks")
    is_global = any(getattr(torch.nn.modules.module, name) for name in names)
    require(not is_global, MUST, "all modules have a backward hook", "remove it")
    for name, part in module.named_modules():
        has_hooks = bool(part._backward_hooks or part._backward_pre_hooks)
        require(not has_hooks, MUST, f"{name or 'the module'} has a backward hook", "remove it")
    for name, parameter in module.named_parameters():
        has_hooks = bool(parameter._backward_hooks or parameter._post_accumulate_grad_hooks)
        require(not has_hooks, MUST, f"{name} has a hook", "remove it")


def _called_by_pytorch() -> bool:
    """Return whether PyTorch itself reads or sets a property, on behalf of none but itself."""
    caller = sys._getframe(2).f_globals.get("__name__", "")
    return caller.startswith("torch.") and not caller.startswith(("torch.nn.", "torch.autograd.graph"))


@contextlib.contextmanager
def _replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Replace an attribute of a class or module, which may inherit it, for a while."""
    is_own = name in vars(owner)
    known = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, known)
        else:
            delattr(owner, name)


def _refuse(found: str, do: str = DO) -> NoReturn:
    raise UnsupportedOp(MUST, found, do)


def _shipped(cls: type) -> str:
    """Return the name of a class, with its module if it is one of PyTorch."""
    return f"{cls.__module__}.{cls.__qualname__}" if cls.__module__.startswith("torch.") else cls.__name__


def _named(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
