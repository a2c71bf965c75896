"""Import one mode of a module: its exported graph as a term, over a table of parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from catgrad.frontends.imported import alike
from catgrad.frontends.torch.aten.operands import type_of
from catgrad.frontends.torch.aten.pairs import require_real
from catgrad.frontends.torch.graph import Walk
from catgrad.frontends.torch.registry import require
from catgrad.frontends.torch.tensors import constant, held, stored
from catgrad.frontends.torch.tracing.export import Export
from catgrad.frontends.torch.types import InputSpec, Tensor
from catgrad.functors.expand import Expand
from catgrad.initialisers import Filled, Stored
from catgrad.ops.literal import is_uniform
from catgrad.terms.build import build
from catgrad.terms.state import Buffer, Parameter, Update
from catgrad.terms.structural import Assume
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType, as_numpy

MUTATIONS = ("BUFFER_MUTATION", "PARAMETER_MUTATION")


class Importer:
    """The translation of the values of one exported program.

    Evaluation shares the arrays of `training`, the import of that mode. A parameter that evaluation alone
    reads is a buffer, as no step of training changes it.
    """

    def __init__(self, export: Export, trained: Mapping[str, str], training: Importer | None = None) -> None:
        self.train, self.trained, self.training = export.train, trained, training
        self.program = export.decomposed
        self.axes = export.axes
        self.specs = self.program.graph_signature.input_specs
        self.nodes = {node.name: node for node in self.program.graph.nodes}
        self.changed: set[str] = self._changed() | (training.changed if training else set())
        self.inputs = {
            spec.arg.name: self._type(spec.arg.name) for spec in self.specs if spec.kind.name == "USER_INPUT"
        }
        self.assumed = export.assumptions()
        self.parameters: dict[str, Array] = {}
        self.buffers: dict[str, Array] = {}
        self.variables: dict[str, Var] = {}

    def model(self) -> Term:
        """Build the term X → Y; that of evaluation computes what PyTorch drops or normalises in any mode."""
        model = build(self.forward, list(self.inputs.values()))
        return model if self.train else Expand(lambda op: op.evaluated is None)(model)

    def forward(self, *inputs: Var) -> list[Var]:
        """Return the outputs of the graph that are tensors, and update the buffers that it changes."""
        if self.assumed:
            inputs = Assume(len(inputs), self.assumed).apply(*inputs)
        given = iter(inputs)
        values = [next(given) if spec.arg.name in self.inputs else self._held(spec) for spec in self.specs]
        walk = Walk(self._constant, self.axes.size)
        results = walk.run(self.program.graph_module, values)
        outputs = []
        for k, (spec, result) in enumerate(
            zip(self.program.graph_signature.output_specs, results, strict=True)
        ):
            require_real(result, spec.target or f"output {k}")
            if spec.kind.name in MUTATIONS and self.training is None:
                Update(spec.target, result.type).apply(result)
            elif spec.kind.name == "USER_OUTPUT" and result is not None:
                outputs.append(result)
        for output in outputs:
            found = f"one is {output!r}"
            require(isinstance(output, Var), "the outputs of a module must be tensors", found, "leave it out")
        return outputs

    def _type(self, name: str) -> NdArrayType:
        """Return the type of an input."""
        value = self.nodes[name].meta["val"]
        require_real(value, f"the input {name}")
        return type_of(value, self.axes.size)

    def _held(self, spec: InputSpec) -> Tensor | Var | None:
        """Return a tensor of the module: a variable if it is trained or updated, else the tensor."""
        if spec.kind.name == "TOKEN" or not (self.nodes[spec.arg.name].users or spec.target in self.changed):
            return None
        tensor, name = held(self.program, spec), self.trained.get(spec.target, spec.target)
        if spec.target not in self.changed and spec.target not in self.trained:
            return tensor.detach()
        require_real(tensor, spec.target)
        if name not in self.variables:
            is_buffer = spec.target in self.changed or (
                self.training is not None and name not in self.training.parameters
            )
            self.variables[name] = (self._buffer if is_buffer else self._parameter)(name, tensor)
        return self.variables[name]

    def _parameter(self, name: str, tensor: Tensor) -> Var:
        value = self.parameters[name] = np.array(as_numpy(tensor))
        return Parameter(name, type_of(tensor), Stored(value, alike), outputs_first=True)()

    def _buffer(self, name: str, tensor: Tensor) -> Var:
        type = type_of(tensor)
        value = as_numpy(tensor).astype(type.dtype.numpy)
        self.buffers[name] = value
        is_one_number = value.size and is_uniform(value) and np.isfinite(value).all()
        drawn = Filled(value.flat[0].item()) if is_one_number else None
        return Buffer(name, type, Stored(value, drawn))()

    def _constant(self, node: str, tensor: Tensor) -> Var:
        """Turn a tensor that does not depend on inputs or parameters into a variable; `node` names it."""
        names = {spec.arg.name: spec.target for spec in self.specs}
        name = names.get(node) or self._name(node, stored(tensor))
        if name not in self.variables:
            self.variables[name] = constant(name, tensor, self.buffers)
        return self.variables[name]

    def _name(self, node: str, value: Array) -> str:
        """Name a computed constant: in evaluation as an equal one of training, or apart from all of them."""
        if self.training is None:
            return f"constant.{node}"
        known = ((n, x) for n, x in self.training.buffers.items() if n not in self.changed)
        equal = (name for name, x in known if x.dtype == value.dtype and np.array_equal(x, value))
        return next(equal, f"constant.evaluation.{node}")

    def _changed(self) -> set[str]:
        """Return the arrays that the module changes. Evaluation may change those of training, and keeps none.

        Raises: UnsupportedOp if it changes inputs or what is trained, or changes more in evaluation
        """
        kept = self.training.changed if self.training else set()
        changed = set()
        for spec in self.program.graph_signature.output_specs:
            kind = spec.kind.name
            if kind in MUTATIONS and (
                spec.target in kept or (self.train and spec.target not in self.trained)
            ):
                changed.add(spec.target)
                continue
            require(
                kind in ("USER_OUTPUT", "TOKEN"),
                "a module must change nothing but its buffers and frozen parameters"
                if self.train
                else "a module in evaluation must change nothing but what training changes",
                f"it changes {spec.target or spec.arg.name}",
                "return the new value as an output",
            )
        return changed
