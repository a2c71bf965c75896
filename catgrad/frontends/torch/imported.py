"""A module of PyTorch as a term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.build import build
from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch import (  # noqa: F401  # each registers a family of operations
    activations,
    attention,
    comparisons,
    contractions,
    convolutions,
    creation,
    elementwise,
    indexing,
    normalisation,
    parts,
    pools,
    recurrent,
    reductions,
    shapes,
)
from catgrad.frontends.torch.export import exported
from catgrad.frontends.torch.graph import Walk
from catgrad.frontends.torch.operands import type_of
from catgrad.initialisers import ZEROS, Filled, Initialiser, Normal
from catgrad.ops.literal import MOST_ELEMENTS
from catgrad.state import Buffer, Parameter
from catgrad.term import Term
from catgrad.types import Array, NdArrayType, as_numpy


@dataclass(frozen=True)
class Imported:
    """A model X → Y made of a module, and the values that the module holds.

    `parameters` are by the names of the module's state_dict, in the order in which the model has them;
    `buffers` are constants of more than 1000 elements, which no source text should hold. `inputs` are
    the types of X by the names of forward's arguments.
    """

    name: str
    model: Term
    parameters: Mapping[str, Array]
    inputs: Mapping[str, NdArrayType]
    buffers: Mapping[str, Array] = field(default_factory=dict)


def from_torch(module: Any, *example_inputs: Any, name: str = "model") -> Imported:
    """The module as it is in evaluation, at the shapes and dtypes of these tensors, as a term.

    Its parameters are those that require a gradient; all else that it holds is constant. The module is
    not changed. `compile_model` trains the model like any other.

    Raises: UnsupportedOp, with the operation and the module it is in; OptionError for inputs that are
            no tensors; DtypeError for a dtype that terms do not have
    """
    program = exported(module, example_inputs)
    _check_effects(program)
    importer = _Importer(module, program)
    model = build(importer.forward, list(importer.inputs.values()))
    return Imported(name, model, importer.parameters, importer.inputs, importer.buffers)


class _Importer:
    """The values of one exported program, and what becomes of them."""

    def __init__(self, module: Any, program: Any) -> None:
        self.program = program
        self.parameters: dict[str, Array] = {}
        self.buffers: dict[str, Array] = {}
        self.inputs: dict[str, NdArrayType] = {}
        self.trained: dict[str, Any] = {}
        first: dict[int, str] = {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            # Tied weights are one parameter, under the first of its names.
            if parameter.requires_grad:
                self.trained[name] = first.setdefault(id(parameter), name)
        nodes = {node.name: node for node in program.graph.nodes}
        for spec in self._specs("USER_INPUT"):
            self.inputs[spec.arg.name] = type_of(nodes[spec.arg.name].meta["val"])
        self.read = {name for name, node in nodes.items() if node.users}
        self.names = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}

    def forward(self, *inputs: Any) -> list[Any]:
        """The outputs of the graph that are tensors."""
        variables = self._parameters()
        given = iter(inputs)
        values = [
            next(given) if spec.kind.name == "USER_INPUT" else self._held(spec, variables)
            for spec in self.program.graph_signature.input_specs
        ]
        results = Walk(self._constant).run(self.program.graph_module, values)
        return [result for result in results if result is not None]

    def _specs(self, kind: str) -> list[Any]:
        return [spec for spec in self.program.graph_signature.input_specs if spec.kind.name == kind]

    def _parameters(self) -> dict[str, Any]:
        """A variable for each parameter that is read, in the order of the state_dict."""
        used = {
            self.trained[spec.target]
            for spec in self._specs("PARAMETER")
            if spec.target in self.trained and spec.arg.name in self.read
        }
        variables = {}
        for name in dict.fromkeys(self.trained.values()):
            if name in used:
                value = np.array(as_numpy(self.program.state_dict[name]))
                type = type_of(self.program.state_dict[name])
                self.parameters[name] = value
                variables[name] = Parameter(name, type, _alike(value))()
        return variables

    def _held(self, spec: Any, variables: dict[str, Any]) -> Any:
        """What the module holds: a parameter as a variable, all else as a tensor."""
        if spec.target in self.trained:
            return variables.get(self.trained[spec.target])
        held = self.program.state_dict
        return (held[spec.target] if spec.target in held else self.program.constants[spec.target]).detach()

    def _constant(self, node: str, tensor: Any) -> Any:
        """A tensor that does not depend on inputs or parameters, as a variable; `node` is what gives it."""
        value, type = np.array(as_numpy(tensor)), type_of(tensor)
        same = value.tobytes() == value.reshape(-1)[:1].tobytes() * value.size
        if value.size <= MOST_ELEMENTS or same:
            return ops.array(value, type.dtype)
        name = self.names.get(node, f"constant.{node}")
        self.buffers[name] = value
        return Buffer(name, type)()


def _alike(value: Array) -> Initialiser:
    """What `init` draws: numbers of the mean and deviation that the module's have."""
    wide = value.astype(np.float64)
    mean, deviation = (float(np.float32(f(wide))) if value.size else 0.0 for f in (np.mean, np.std))
    if not np.isfinite([mean, deviation]).all():
        return ZEROS
    return Normal(mean, deviation) if deviation else Filled(mean)


def _check_effects(program: Any) -> None:
    """Raises UnsupportedOp if running the module changes more than its outputs."""
    for spec in program.graph_signature.output_specs:
        if spec.kind.name not in ("USER_OUTPUT", "LOSS_OUTPUT"):
            raise UnsupportedOp(
                "a module in evaluation must change neither its buffers nor its inputs",
                f"it changes {spec.target or spec.arg.name}",
                "return the new value as an output",
            )
