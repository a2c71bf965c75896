"""A captured graph in C, with its gradient as a function of torch.autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from catgrad.backend import Backend
from catgrad.frontends.torch.dynamo.captured import Captured
from catgrad.frontends.torch.dynamo.differentiated import differentiated
from catgrad.frontends.torch.dynamo.signature import EAGERLY, Signature
from catgrad.frontends.torch.registry import require
from catgrad.frontends.torch.types import GraphModule, Tensor
from catgrad.functors import Expand
from catgrad.programs.program import Program, lower
from catgrad.types import Array, Dtype

FIRST_ORDER = "compute these without torch.compile"


class Version:
    """A function in C of the inputs of a graph.

    Raises: UnsupportedOp if the gradient is not only that of the outputs with respect to the inputs;
            ToolError without a compiler
    """

    def __init__(
        self, graph: GraphModule, signature: Signature, captured: Captured, inputs: Sequence[Any],
        target: Backend,
    ) -> None:  # fmt: skip
        self.graph, self.signature, self.captured = graph, signature, captured
        _check(signature, captured, inputs)
        pairs = zip(captured.outputs, signature.differentiable, strict=True)
        self.differentiable = [y[0] for y, requires_grad in pairs if requires_grad]
        terms, first = {"forward": captured.term}, len(captured.constants)
        if self.differentiable:
            tensors = enumerate(signature.tensors(inputs), first)
            wanted = [k for k, x in tensors if x.requires_grad and x.is_floating_point()]
            both = differentiated(captured.term, wanted, self.differentiable)
            require(bool(both.inputs), "outputs must depend on inputs", "a gradient is 0", EAGERLY)
            terms = {"forward": both.forward, "backward": both.backward}
            self.saved, self.gradients = both.saved, [k - first for k in both.inputs]
        expand = Expand(target.has)
        functions = tuple(lower(expand(term), name) for name, term in terms.items())
        self.functions = target.emit(Program("graph", functions)).load()

    def __call__(self, *inputs: Any) -> Any:
        """Return the outputs of the graph, and change its inputs as the graph does."""
        tensors = self.signature.tensors(inputs)
        if _overlap(tensors, self.captured.changed):
            return self.graph(*inputs)
        results = _Call.apply(self, *tensors) if self.differentiable else self.forward(tensors)
        with torch.no_grad():
            for position, new in zip(self.captured.changed, results, strict=False):
                tensors[position].copy_(new)
        pairs = zip(self.captured.outputs, self.signature.orders, strict=True)
        return tuple(_ordered(results[y[0]], order) if isinstance(y, list) else y for y, order in pairs)

    def forward(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the results N ⊗ Y, and the residual if there is a gradient."""
        arrays = [*self.captured.constants, *map(_as_array, tensors)]
        return list(map(_as_tensor, self.functions.forward(*arrays)))

    def residual(self, tensors: Sequence[Tensor], results: Sequence[Tensor]) -> list[Tensor]:
        """Return the residual; of inputs that are about to change, copies."""
        constants = list(map(_as_tensor, self.captured.constants))
        given = [*constants, *tensors]

        def saved(kind: str, k: int) -> Tensor:
            if kind == "result":
                return results[k]
            x = given[k]
            return x.clone() if k - len(constants) in self.captured.changed else x

        return [saved(kind, k) for kind, k in self.saved]


class _Call(torch.autograd.Function):  # type: ignore[misc]  # PyTorch is not annotated here
    """The results of a version, differentiable once."""

    @staticmethod
    def forward(ctx: Any, version: Version, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Compute the results, and save the residual."""
        results = version.forward(tensors)
        ctx.version, ctx.count = version, len(tensors)
        ctx.save_for_backward(*version.residual(tensors, results))
        results = results[: len(version.captured.term.target)]
        ctx.mark_non_differentiable(*(y for k, y in enumerate(results) if k not in version.differentiable))
        return tuple(results)

    @staticmethod
    @torch._dynamo.disable  # type: ignore[untyped-decorator]  # it runs between compiled graphs
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        """Compute the gradients; those of inputs without influence are None."""
        found = "create_graph=True asks for gradients of gradients"
        require(not torch.is_grad_enabled(), "gradients must be of the first order", found, FIRST_ORDER)
        given = [*ctx.saved_tensors, *(cotangents[k] for k in ctx.version.differentiable)]
        results = map(_as_tensor, ctx.version.functions.backward(*map(_as_array, given)))
        gradients = dict(zip(ctx.version.gradients, results, strict=True))
        return (None, *(gradients.get(k) for k in range(ctx.count)))


def _check(signature: Signature, captured: Captured, inputs: Sequence[Any]) -> None:
    """Refuse what a function of values cannot do: subclasses, and changes that are to be differentiated."""
    tensors = signature.tensors(inputs)
    for x in tensors:
        is_plain = type(x) in (torch.Tensor, torch.nn.Parameter)
        require(is_plain, "inputs must be plain tensors", f"one is a {type(x).__name__}", EAGERLY)
    for x, requires_grad in zip(tensors, signature.tensors(signature.requires_grad), strict=True):
        require(
            x.requires_grad == requires_grad,
            "inputs must not begin to require gradients",
            "one does",
            EAGERLY,
        )
    is_changed = any(tensors[k].requires_grad for k in captured.changed)
    found = "one is changed in place"
    require(not is_changed, "inputs that require gradients must stay as they are", found, EAGERLY)
    is_enabled = torch.is_grad_enabled() or not any(signature.differentiable)
    require(is_enabled, "gradients must be enabled around a graph", "they are enabled inside", EAGERLY)


def _overlap(tensors: Sequence[Tensor], changed: Sequence[int]) -> bool:
    """Return whether a tensor that is changed shares memory with another one."""
    memory = [x.untyped_storage().data_ptr() for x in tensors] if changed else []
    return any(memory.count(memory[k]) > 1 for k in changed)


def _ordered(y: Tensor, order: Sequence[int] | None) -> Tensor:
    """Lay out a tensor with its axes in this order, as PyTorch does."""
    if order is None:
        return y
    return y.permute(*order).contiguous().permute(*np.argsort(order).tolist())


def _as_array(x: Tensor) -> Any:
    """View a tensor as an array."""
    if x.dtype is torch.bfloat16:
        return x.detach().view(torch.int16).numpy().view(Dtype.bfloat16.numpy)
    return x.detach().numpy()


def _as_tensor(array: Array) -> Tensor:
    """View an array as a tensor."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
