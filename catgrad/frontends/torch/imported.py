"""The imported module: its term, parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from catgrad.errors import OptionError
from catgrad.frontends.imported import Imported as Imported
from catgrad.frontends.imported import alike
from catgrad.frontends.torch import (  # noqa: F401  # each registers a family of operations
    activations,
    alignment,
    antialiasing,
    arithmetic,
    attention,
    comparisons,
    complex,
    complex_functions,
    composites,
    contractions,
    convolutions,
    creation,
    cumulative,
    diagonals,
    elementwise,
    experts,
    fourier,
    indexing,
    linalg,
    losses,
    masks,
    native_norms,
    normalisation,
    parts,
    pools,
    products,
    randomness,
    rearranging,
    rectifiers,
    recurrent,
    reductions,
    resampling,
    sampling,
    scattering,
    shapes,
    sorting,
    special,
    statistics,
    transcendental,
)
from catgrad.frontends.torch.axes import Dynamic
from catgrad.frontends.torch.export import Export
from catgrad.frontends.torch.graph import Walk
from catgrad.frontends.torch.operands import type_of
from catgrad.frontends.torch.pairs import require_real
from catgrad.frontends.torch.registry import require
from catgrad.frontends.torch.tensors import constant, held
from catgrad.initialisers import Filled, Stored
from catgrad.ops.literal import is_uniform
from catgrad.terms.build import build
from catgrad.terms.state import Buffer, Parameter, Update
from catgrad.terms.structural import Assume
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType, as_numpy


def from_torch(
    module: Any,
    *example_inputs: Any,
    name: str = "model",
    train: bool = False,
    dynamic: Dynamic = (),
    trainable: str | Sequence[str] = "*",
) -> Imported:
    """Import a module as a term, at the shapes and dtypes of these tensors.

    Its parameters are those that require a gradient and whose names match a pattern of `trainable`; all
    other tensors are constants. The module is not changed. It is imported in evaluation mode, or with
    `train` in training mode: dropout drops, and batch norm uses statistics of the batch and updates the
    running ones; evaluation of the model is that of the module. `dynamic` names the leading axes of every
    input that are symbolic, as ("batch",), or maps names of inputs to such tuples; None keeps an axis fixed.

    Raises: UnsupportedOp, with all operations that the front end lacks and the modules they are in, or if the
            module fixes a symbolic axis; OptionError for inputs that are not tensors; DtypeError for a dtype
            that terms do not have
    """
    export = Export(module, example_inputs, train, dynamic)
    trained = _trained(module, trainable)
    importer = _Importer(export, trained)
    model = importer.model()
    inference = _inference(importer, module, example_inputs, dynamic) if train else None
    aliases = {n: first for n, first in trained.items() if n != first}
    values = {**importer.buffers, **(inference.buffers if inference else {})}
    return Imported(
        name,
        model,
        importer.parameters,
        importer.inputs,
        values,
        inference.model() if inference else None,
        aliases,
    )


def _inference(training: _Importer, module: Any, inputs: Sequence[Any], dynamic: Dynamic) -> _Importer | None:
    """Import evaluation mode too, if its operations are others than those of training."""
    export = Export(module, inputs, False, dynamic)
    return (
        None
        if export.operations == training.operations
        else _Importer(export, training.trained, training.changed)
    )


class _Importer:
    """The translation of the values of one exported program."""

    def __init__(
        self, export: Export, trained: Mapping[str, str], changed: frozenset[str] = frozenset()
    ) -> None:
        # Read before the decomposition, which changes the graph; evaluation alone is compared with nothing.
        self.operations = export.operations if export.train else []
        self.program = export.decomposed()
        self.axes = export.axes
        self.specs = self.program.graph_signature.input_specs
        self.nodes = {node.name: node for node in self.program.graph.nodes}
        self.changed = changed | _changed(self.program, export.train)
        self.trained = trained
        self.inputs = {
            spec.arg.name: self._type(spec.arg.name) for spec in self.specs if spec.kind.name == "USER_INPUT"
        }
        self.assumed = tuple(self.axes.assumptions(export.inputs))
        self.parameters: dict[str, Array] = {}
        self.buffers: dict[str, Array] = {}
        self.variables: dict[str, Any] = {}

    def _type(self, name: str) -> NdArrayType:
        """Return the type of an input."""
        value = self.nodes[name].meta["val"]
        require_real(value, f"the input {name}")
        return type_of(value, self.axes.size)

    def model(self) -> Term:
        """Build the term X → Y."""
        return build(self.forward, list(self.inputs.values()))

    def forward(self, *inputs: Any) -> list[Any]:
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
            if spec.kind.name == "BUFFER_MUTATION":
                Update(spec.target, result.type).apply(result)
            elif spec.kind.name == "USER_OUTPUT" and result is not None:
                outputs.append(result)
        for output in outputs:
            found = f"one is {output!r}"
            require(isinstance(output, Var), "the outputs of a module must be tensors", found, "leave it out")
        return outputs

    def _held(self, spec: Any) -> Any:
        """Return a tensor of the module: a variable if it is trained or updated, else the tensor."""
        if spec.kind.name == "TOKEN":
            return None
        tensor = held(self.program, spec)
        if spec.target in self.changed or spec.target in self.trained:
            require_real(tensor, spec.target)
        if spec.target in self.changed:
            return self._buffer(spec.target, tensor)
        if spec.target not in self.trained:
            return tensor.detach()
        return self._parameter(self.trained[spec.target], tensor) if self.nodes[spec.arg.name].users else None

    def _parameter(self, name: str, tensor: Any) -> Any:
        if name not in self.variables:
            value = self.parameters[name] = np.array(as_numpy(tensor))
            self.variables[name] = Parameter(
                name, type_of(tensor), Stored(value, alike), outputs_first=True
            )()
        return self.variables[name]

    def _buffer(self, name: str, tensor: Any) -> Any:
        type = type_of(tensor)
        value = as_numpy(tensor).astype(type.dtype.numpy)
        self.buffers[name] = value
        is_one_number = value.size and is_uniform(value) and np.isfinite(value).all()
        drawn = Filled(value.flat[0].item()) if is_one_number else None
        return Buffer(name, type, Stored(value, drawn))()

    def _constant(self, node: str, tensor: Any) -> Any:
        """Turn a tensor that does not depend on inputs or parameters into a variable; `node` names it."""
        names = {spec.arg.name: spec.target for spec in self.specs}
        return constant(names.get(node, f"constant.{node}"), tensor, self.buffers)


def _trained(module: Any, trainable: str | Sequence[str]) -> dict[str, str]:
    """Return the parameters to train; tied ones have the first of their names.

    Raises: OptionError if a pattern matches no parameter
    """
    patterns = [trainable] if isinstance(trainable, str) else list(trainable)
    every = dict(module.named_parameters(remove_duplicate=False))
    for pattern in patterns:
        if pattern != "*" and not any(fnmatchcase(name, pattern) for name in every):
            raise OptionError(
                f"a pattern of `trainable` must match one of {', '.join(every) or 'no parameters'}",
                f"{pattern!r} matches none",
                "write for example '*.weight'",
            )
    first: dict[int, str] = {}
    return {
        name: first.setdefault(id(p), name)
        for name, p in every.items()
        if p.requires_grad and any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def _changed(program: Any, train: bool) -> frozenset[str]:
    """Return the buffers that the module changes.

    Raises: UnsupportedOp if it changes more than its buffers, or changes them in evaluation mode
    """
    changed = set()
    for spec in program.graph_signature.output_specs:
        kind = spec.kind.name
        if kind == "BUFFER_MUTATION" and train:
            changed.add(spec.target)
            continue
        require(
            kind in ("USER_OUTPUT", "TOKEN"),
            "a module must change nothing but its buffers"
            if train
            else "a module in evaluation must not change its buffers or inputs",
            f"it changes {spec.target or spec.arg.name}",
            "return the new value as an output",
        )
    return frozenset(changed)
