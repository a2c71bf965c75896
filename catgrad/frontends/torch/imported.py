"""The imported module: its term, parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from catgrad import ops
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
from catgrad.frontends.torch.registry import require
from catgrad.initialisers import ZEROS, Filled, Initialiser, Normal
from catgrad.ops.literal import MAX_LITERAL_ELEMENTS
from catgrad.terms.build import build
from catgrad.terms.state import Buffer, Parameter
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType, as_numpy


@dataclass(frozen=True)
class Imported:
    """An imported model X → Y, and the values of its parameters and buffers.

    `parameters` have the names of the module's state_dict, in the order of the model; `buffers` are
    constants of more than 1000 elements, which are too large for source text. `inputs` are the types of
    X by the names of forward's arguments.
    """

    name: str
    model: Term
    parameters: Mapping[str, Array]
    inputs: Mapping[str, NdArrayType]
    buffers: Mapping[str, Array] = field(default_factory=dict)


def from_torch(module: Any, *example_inputs: Any, name: str = "model") -> Imported:
    """Import a module in evaluation mode as a term, at the shapes and dtypes of these tensors.

    Its parameters are those that require a gradient; all other tensors are constants. The module is not
    changed.

    Raises: UnsupportedOp, with the operation and the module it is in; OptionError for inputs that are
            not tensors; DtypeError for a dtype that terms do not have
    """
    program = exported(module, example_inputs)
    _check_effects(program)
    importer = _Importer(module, program)
    model = build(importer.forward, list(importer.inputs.values()))
    return Imported(name, model, importer.parameters, importer.inputs, importer.buffers)


class _Importer:
    """The translation of the values of one exported program."""

    def __init__(self, module: Any, program: Any) -> None:
        self.program, self.specs = program, program.graph_signature.input_specs
        self.nodes = {node.name: node for node in program.graph.nodes}
        self.trained = _trained(module)
        self.inputs = {
            spec.arg.name: type_of(self.nodes[spec.arg.name].meta["val"])
            for spec in self.specs
            if spec.kind.name == "USER_INPUT"
        }
        self.parameters: dict[str, Array] = {}
        self.buffers: dict[str, Array] = {}
        self.variables: dict[str, Any] = {}

    def forward(self, *inputs: Any) -> list[Any]:
        """Return the outputs of the graph that are tensors."""
        given = iter(inputs)
        values = [next(given) if spec.arg.name in self.inputs else self._held(spec) for spec in self.specs]
        results = [y for y in Walk(self._constant).run(self.program.graph_module, values) if y is not None]
        for result in results:
            found = f"one is {result!r}"
            require(isinstance(result, Var), "the outputs of a module must be tensors", found, "leave it out")
        return results

    def _held(self, spec: Any) -> Any:
        """Return a tensor of the module: a parameter that is read as a variable, any other as a tensor."""
        held = self.program.state_dict
        tensor = held[spec.target] if spec.target in held else self.program.constants[spec.target]
        if spec.target not in self.trained:
            return tensor.detach()
        return self._parameter(self.trained[spec.target], tensor) if self.nodes[spec.arg.name].users else None

    def _parameter(self, name: str, tensor: Any) -> Any:
        if name not in self.variables:
            value = self.parameters[name] = np.array(as_numpy(tensor))
            self.variables[name] = Parameter(name, type_of(tensor), _alike(value))()
        return self.variables[name]

    def _constant(self, node: str, tensor: Any) -> Any:
        """Turn a tensor that does not depend on inputs or parameters into a variable; `node` names it."""
        value, type = np.array(as_numpy(tensor)), type_of(tensor)
        same = value.tobytes() == value.reshape(-1)[:1].tobytes() * value.size
        if value.size <= MAX_LITERAL_ELEMENTS or same:
            return ops.array(value, type.dtype)
        names = {spec.arg.name: spec.target for spec in self.specs}
        name = names.get(node, f"constant.{node}")
        self.buffers[name] = value
        return Buffer(name, type)()


def _trained(module: Any) -> dict[str, str]:
    """Return the parameters that require a gradient; tied ones have the first of their names."""
    first: dict[int, str] = {}
    every = module.named_parameters(remove_duplicate=False)
    return {name: first.setdefault(id(p), name) for name, p in every if p.requires_grad}


def _alike(value: Array) -> Initialiser:
    """Return the distribution of `init`: normal, with the mean and deviation of the module's values."""
    wide = value.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # mean and deviation of numbers that are not finite
        mean, deviation = (float(np.float32(f(wide))) if value.size else 0.0 for f in (np.mean, np.std))
    if not np.isfinite([mean, deviation]).all():
        return ZEROS
    return Normal(mean, deviation) if deviation else Filled(mean)


def _check_effects(program: Any) -> None:
    """Raise UnsupportedOp if running the module changes more than its outputs."""
    for spec in program.graph_signature.output_specs:
        require(
            spec.kind.name == "USER_OUTPUT",
            "a module in evaluation must not change its buffers or inputs",
            f"it changes {spec.target or spec.arg.name}",
            "return the new value as an output",
        )
