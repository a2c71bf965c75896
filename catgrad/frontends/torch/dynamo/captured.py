"""Import a graph that TorchDynamo captured as a term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from catgrad.dims import Dim
from catgrad.frontends.torch.aten.operands import type_of
from catgrad.frontends.torch.aten.pairs import require_real
from catgrad.frontends.torch.aten.short_integers import is_widened
from catgrad.frontends.torch.dynamo.signature import EAGERLY, Signature, number
from catgrad.frontends.torch.graph import Walk
from catgrad.frontends.torch.registry import require, translation
from catgrad.frontends.torch.tensors import constant, held
from catgrad.frontends.torch.tracing.export import Export
from catgrad.frontends.torch.types import GraphModule, InputSpec, Tensor
from catgrad.functors import factor_buffers, factor_run_numbers
from catgrad.initialisers import Stored
from catgrad.terms.build import build
from catgrad.terms.dead_code import selected
from catgrad.terms.structural import Assume
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array


@dataclass(frozen=True)
class Captured:
    """A graph as a term C ⊗ X → N ⊗ Y.

    C are `constants`, X tensors, N new values of those at positions `changed` of X, which the graph changes
    in place. `outputs` are those of the graph: a position in N ⊗ Y in a list, or a number.
    """

    term: Term
    constants: tuple[Array, ...]
    changed: tuple[int, ...]
    outputs: tuple[Any, ...]


def captured(graph: GraphModule, signature: Signature, inputs: Sequence[Any], is_symbolic: bool) -> Captured:
    """Import a graph with its symbolic axes, or at the sizes of these inputs.

    Raises: UnsupportedOp, with all operations that the front end lacks; DtypeError for a dtype that terms do
    not have
    """
    axes = signature.axes if is_symbolic else [()] * len(signature.axes)
    module = _OnTensors(graph, signature, inputs, axes)
    dynamic = {f"tensors_{k}": names for k, names in enumerate(axes)}
    tensors = [x.detach().requires_grad_(x.requires_grad) for x in signature.tensors(inputs)]
    return _Import(Export(module, tensors, graph.training, dynamic)).captured()


class _OnTensors(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not annotated here
    """A graph as a module of its tensors; sizes of named axes are read, and other numbers fixed."""

    def __init__(
        self, graph: GraphModule, signature: Signature, inputs: Sequence[Any],
        axes: Sequence[tuple[str | None, ...]],
    ) -> None:  # fmt: skip
        super().__init__()
        self.graph, self.training, self.axes = graph, graph.training, axes
        kinds = zip(signature.inputs, inputs, strict=True)
        self.inputs = [(kind, None if isinstance(kind, tuple) else number(x)) for kind, x in kinds]

    def forward(self, *tensors: Tensor) -> Any:
        """Interpret the graph; operations keep their places in the user's code."""
        pairs = (
            (axis, x.shape) for x, names in zip(tensors, self.axes, strict=True) for axis in enumerate(names)
        )
        sizes: dict[Any, Any] = {name: shape[axis] for (axis, name), shape in pairs if name is not None}
        given = iter(tensors)
        each = [next(given) if isinstance(kind, tuple) else sizes.get(kind, n) for kind, n in self.inputs]
        with torch.fx.traceback.preserve_node_meta():
            return _Interpreter(self.graph).run(*each)


class _Interpreter(torch.fx.Interpreter):  # type: ignore[misc]
    """An interpreter that takes numbers in place of tensors that hold one, and inlines checkpoints."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a function; a checkpoint computes what its function does."""
        if target is torch.ops.higher_order.tag_activation_checkpoint:
            return _Interpreter(args[0]).run(*args[1:])
        return super().call_function(target, args, kwargs)

    def call_method(self, target: str, args: Any, kwargs: Any) -> Any:
        """Call a method; a number is its own item."""
        is_number = target == "item" and not isinstance(args[0], torch.Tensor)
        return args[0] if is_number else super().call_method(target, args, kwargs)


class _Import:
    """The translation of the values of an exported graph."""

    def __init__(self, export: Export) -> None:
        self.program, self.size = export.decomposed, export.axes.size
        self.assumed = export.assumptions()
        nodes = self.program.graph.nodes
        widened = next((str(node.target) for node in nodes if is_widened(node.meta.get("val"))), "")
        require(not widened, "integers must have 8, 32 or 64 bits", f"those of {widened} have 16", EAGERLY)
        for k, value in enumerate(export.inputs):
            require_real(value, f"input {k}")
        self.types = [type_of(value, self.size) for value in export.inputs]
        self.outputs: list[Any] = []
        self.changed: list[int] = []

    def captured(self) -> Captured:
        """Build the term. Raises: UnsupportedOp if it draws random numbers"""
        slots, opened = factor_buffers(build(self._results, self.types))
        drawn = [str(node.target) for node in self.program.graph.nodes if translation(node.target).is_random]
        numbers, _ = factor_run_numbers(opened)
        found = f"{', '.join(dict.fromkeys(drawn))} would draw others"
        require(not numbers, "random numbers must be those of PyTorch", found, EAGERLY)
        constants = tuple(slot.initial.array for slot in slots if isinstance(slot.initial, Stored))
        term = selected(opened, slice(len(slots), None))
        return Captured(term, constants, tuple(self.changed), tuple(self.outputs))

    def _results(self, *inputs: Var) -> list[Var]:
        """Return the new values of inputs, then the outputs that are tensors."""
        specs, given = self.program.graph_signature, iter(inputs)
        values = [next(given) if s.kind.name == "USER_INPUT" else self._held(s) for s in specs.input_specs]
        results = Walk(self._constant, self.size).run(self.program.graph_module, values)
        names = [spec.arg.name for spec in specs.input_specs if spec.kind.name == "USER_INPUT"]
        new: list[Any] = []
        outputs: list[Any] = []
        for k, (spec, result) in enumerate(zip(specs.output_specs, results, strict=True)):
            require_real(result, f"output {k}")
            if spec.kind.name == "USER_INPUT_MUTATION":
                self.changed.append(names.index(spec.target))
                new.append(result)
            elif spec.kind.name != "TOKEN":
                found = f"{spec.target} is changed"
                require(spec.kind.name == "USER_OUTPUT", "only inputs may change", found, EAGERLY)
                require(not isinstance(result, Dim), "outputs must be tensors", "one is a size", EAGERLY)
                self.outputs.append([len(outputs)] if isinstance(result, Var) else result)
                outputs += [result] if isinstance(result, Var) else []
        self.outputs = [[k + len(new) for k in y] if isinstance(y, list) else y for y in self.outputs]
        results = [*new, *outputs]
        if self.assumed:  # required of symbolic sizes, at the first result
            results[:1] = Assume(1, self.assumed).apply(results[0])
        return results

    def _held(self, spec: InputSpec) -> Any:
        """Return a constant tensor of the graph."""
        if spec.kind.name == "TOKEN":
            return None
        tensor = held(self.program, spec)
        found = f"{spec.target} is a part of the graph"
        require(not tensor.requires_grad, "parameters must be inputs", found, EAGERLY)
        return tensor

    def _constant(self, node: str, tensor: Tensor) -> Var:
        """Turn a tensor that does not depend on inputs into a variable: a literal, or an argument."""
        return constant(f"constant.{node}", tensor, {})
