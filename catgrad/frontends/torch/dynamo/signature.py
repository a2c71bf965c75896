"""Describe the inputs and outputs of a graph that TorchDynamo captured, and refuse graphs with effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from catgrad.frontends.torch.graph import place
from catgrad.frontends.torch.registry import require
from catgrad.frontends.torch.types import GraphModule, Node

EAGERLY = "nothing needs to be done: it is right, and no faster than without compilation"

T = TypeVar("T")


class Signature:
    """The inputs and outputs of a graph, by the fake tensors that TorchDynamo drops after compilation.

    `inputs` has for each tensor a tuple with the names of its symbolic axes, None for the others; and for a
    number its symbol, or None. `requires_grad` tells of each input whether it requires a gradient after a
    call, `differentiable` of each output whether it does, and `orders` the order of an output's axes in
    memory.

    Raises: UnsupportedOp for a graph whose results depend on more than the values of dense tensors
    """

    def __init__(self, graph: GraphModule) -> None:
        nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
        inputs = [node.meta["example_value"] for node in nodes]
        outputs = next(node for node in graph.graph.nodes if node.op == "output").args[0]
        _check_memory(inputs, outputs)
        _check_gradients(graph)
        self.inputs = list(map(_described, nodes, inputs))
        self.requires_grad = [getattr(x, "requires_grad", False) for x in inputs]
        results = list(map(_value, outputs))
        self.differentiable = [getattr(y, "requires_grad", False) for y in results]
        self.orders = list(map(_order, results))

    @property
    def axes(self) -> list[tuple[str | None, ...]]:
        """The names of the symbolic axes of each tensor."""
        return [each for each in self.inputs if isinstance(each, tuple)]

    def tensors(self, inputs: Sequence[T]) -> list[T]:
        """Select the tensors among the inputs."""
        return [x for x, each in zip(inputs, self.inputs, strict=True) if isinstance(each, tuple)]

    def numbers(self, inputs: Sequence[Any]) -> tuple[float, ...]:
        """Select the numbers among the inputs that are not sizes of tensors."""
        sizes = {name for names in self.axes for name in names if name}
        pairs = zip(inputs, self.inputs, strict=True)
        return tuple(number(x) for x, each in pairs if not isinstance(each, tuple) and each not in sizes)


def number(x: Any) -> Any:
    """Return the number that TorchDynamo may pass as a tensor."""
    return x.item() if isinstance(x, torch.Tensor) else x


def _value(node: Node | None) -> Any:
    return node.meta["example_value"] if isinstance(node, torch.fx.Node) else node


def _described(node: Node, value: Any) -> tuple[str | None, ...] | str | None:
    if not isinstance(value, torch.Tensor):
        return _symbol(value)
    if value.ndim == 0 and node.users and all(user.target == "item" for user in node.users):
        return None
    return tuple(map(_symbol, value.shape))


def _symbol(size: Any) -> str | None:
    """Return the name of a symbolic size, None for a number."""
    node = getattr(size, "node", None)
    return None if node is None or node.maybe_as_int() is not None else str(node.expr)


def _order(value: object) -> list[int] | None:
    """Return the axes of a tensor from the outermost in memory, None if that is their own order."""
    if not isinstance(value, torch.Tensor) or value.is_contiguous():
        return None
    return sorted(range(value.ndim), key=lambda axis: -int(value.stride(axis)))


def _check_memory(inputs: Sequence[Any], outputs: Sequence[Node | None]) -> None:
    """Require dense tensors on the CPU, and outputs with memory of their own."""
    known = set()
    for x in inputs:
        if isinstance(x, torch.Tensor):
            found = f"one is {x.layout} on the device {x.device}"
            is_dense = x.device.type == "cpu" and x.layout is torch.strided
            require(is_dense, "inputs must be dense tensors on the CPU", found, EAGERLY)
            known.add(StorageWeakRef(x.untyped_storage()))
    for node in outputs:
        value = _value(node)
        if isinstance(value, torch.Tensor):
            memory = StorageWeakRef(value.untyped_storage())
            found = f"that of {_called(node)} is shared"
            repeats = any(isinstance(step, int) and step == 0 for step in value.stride())
            is_own = memory not in known and not repeats
            require(is_own, "each output must have memory of its own", found, EAGERLY)
            known.add(memory)


def _check_gradients(graph: GraphModule) -> None:
    """Refuse calls that change gradients: these must be those of operations."""
    for part in graph.modules():
        for node in getattr(part, "graph", graph.graph).nodes:
            is_own = any(name in str(node.target) for name in ("autograd_function", "inference_mode"))
            must = "a gradient must be that of the operations of a function"
            require(not is_own, must, f"{_called(node)} defines its own", EAGERLY)


def _called(node: Node) -> str:
    """Return the name of an operation, with its place in the user's code."""
    name = getattr(node.target, "__name__", node.target)
    return f"{name} in {place(node)}" if place(node) else str(name)
