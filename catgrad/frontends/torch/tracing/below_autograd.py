"""Trace a module by `make_fx` below autograd: a second way in, for modules that torch.export refuses.

torch.export records operations above autograd, where transforms such as torch.vmap are not yet operations.
Here they are recorded below it, with what stops a gradient as detach(); the graph, as a module over the same
parameters and buffers, is then exported as any other.
"""

from __future__ import annotations

import copy
import inspect
import operator
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch.tracing.own_gradients import DO, MUST
from catgrad.frontends.torch.types import Graph, GraphModule, Module, Tensor

DETACH = torch.ops.aten.detach.default
DETACHES = {torch.detach, torch.Tensor.detach, torch.ops.aten.detach, DETACH}
DETACHES_IN_PLACE = {
    torch.detach_,
    torch.Tensor.detach_,
    torch.ops.aten.detach_,
    torch.ops.aten.detach_.default,
}


def replayed(
    module: Module, inputs: Sequence[Any], axes: Sequence[Mapping[int, Any]]
) -> tuple[Module, list[Tensor], Graph]:
    """Return a module that computes the operations of a call, the traced inputs, and the graph.

    `axes` are the symbolic axes of each tensor in `inputs`; the traced inputs know what is assumed of them.

    Raises: UnsupportedOp if an array of the trace comes from no operation
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    flat, tree = tree_flatten(tuple(inputs))
    given = [_fake(mode, x, sizes) for x, sizes in zip(flat, axes, strict=True)]
    held = {name: _fake(mode, x, {}) for name, x in _held(module).items()}

    def call(arrays: dict[str, Tensor], inputs: Sequence[Any]) -> Any:
        with _Gradients() as gradients, _Detaching(gradients):
            return torch.func.functional_call(module, arrays, inputs)

    with mode:
        graph = make_fx(call, record_stack_traces=True, _allow_non_fake_inputs=True)(
            held, tree_unflatten(given, tree)
        )
    _check_constants(graph)
    return _replay(module, graph), given, graph.graph


def _replay(module: Module, graph: GraphModule) -> Module:
    """Return a copy of a module, with its arrays, whose forward interprets a graph."""
    new, names = copy.copy(module), list(_held(module))

    def forward(*inputs: Any) -> Any:
        arrays = _held(new)
        with torch.fx.traceback.preserve_node_meta():
            return torch.fx.Interpreter(graph).run({name: arrays[name] for name in names}, inputs)

    forward.__signature__ = inspect.signature(module.forward)  # type: ignore[attr-defined]
    hooks = [name for name in vars(new) if name.endswith(("_forward_hooks", "_forward_pre_hooks"))]
    vars(new).update({name: OrderedDict[int, Any]() for name in hooks})  # the trace has what they compute
    vars(new)["forward"] = forward
    return new


class _Gradients(TorchDispatchMode):  # type: ignore[misc]  # PyTorch is not annotated here
    """Record where gradients stop: below autograd, a graph does not tell.

    `detaches` is true while `detach` runs on behalf of the module.
    """

    def __init__(self) -> None:
        super().__init__()
        self.detaches = False

    def __torch_dispatch__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        if function is DETACH and not self.detaches:  # autograd's own, of a result that it saves
            return torch.ops.aten.alias.default(*args)
        if function is DETACH or torch.is_grad_enabled():
            return function(*args, **(kwargs or {}))
        if function._schema.is_mutable:
            if args[0].requires_grad:
                raise UnsupportedOp(MUST, "an array with a gradient is changed under torch.no_grad()", DO)
            return function(args[0], *tree_map(_stopped, args[1:]), **tree_map(_stopped, kwargs or {}))
        return function(*tree_map(_stopped, args), **tree_map(_stopped, kwargs or {}))


class _Detaching(TorchFunctionMode):  # type: ignore[misc]
    """Tell calls of `detach` by the module from what autograd does itself."""

    def __init__(self, gradients: _Gradients) -> None:
        super().__init__()
        self.gradients = gradients

    def __torch_function__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        if function in DETACHES_IN_PLACE:
            raise UnsupportedOp(
                "a gradient must be stopped by detach()", "it is stopped by detach_()", "write x = x.detach()"
            )
        if function not in DETACHES:
            return function(*args, **(kwargs or {}))
        self.gradients.detaches = True
        try:
            return function(*args, **(kwargs or {}))
        finally:
            self.gradients.detaches = False


def _stopped(x: Any) -> Any:
    return DETACH(x) if isinstance(x, torch.Tensor) and x.requires_grad else x


def _held(module: Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _fake(mode: Any, x: Tensor, axes: Mapping[int, Any]) -> Tensor:
    sizes = [DimDynamic.DYNAMIC if axis in axes else DimDynamic.STATIC for axis in range(x.ndim)]
    return mode.from_tensor(x, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))


def _check_constants(graph: GraphModule) -> None:
    for node in graph.graph.nodes:
        if node.op == "get_attr" and isinstance(operator.attrgetter(node.target)(graph), FakeTensor):
            raise UnsupportedOp(
                "arrays of a trace must come from operations",
                f"{node.target} does not",
                "compute it by torch",
            )
