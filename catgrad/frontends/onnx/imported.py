"""The imported model: its term, parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

import catgrad.frontends.onnx.operators  # noqa: F401  # registers the operators
from catgrad.dims import Dim, Size
from catgrad.errors import OptionError, UnsupportedOp, brief, translated
from catgrad.frontends.imported import Imported, alike, constant
from catgrad.frontends.onnx.conversion import graphs, prepared, versions
from catgrad.frontends.onnx.files import damaged, load
from catgrad.frontends.onnx.graph import Walk, constants, dotted
from catgrad.frontends.onnx.merged import separate
from catgrad.frontends.onnx.operators.operands import dtype_of, dtype_of_array
from catgrad.frontends.onnx.registry import RULES, fixed_places
from catgrad.frontends.onnx.types import Graph, Model
from catgrad.initialisers import Stored
from catgrad.naming import Namer
from catgrad.terms.build import build
from catgrad.terms.state import Parameter
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType


def from_onnx(
    model: str | Path | bytes | Any,
    name: str = "model",
    trainable: str | Sequence[str] = "*",
    sizes: Mapping[str, int] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> Imported:
    """Import a model of ONNX, given as a path, as bytes or as an onnx.ModelProto.

    Its parameters are the floating-point initialisers with an axis whose names match a pattern of
    `trainable`, except running statistics and what fixes sizes; all other arrays are constants. Arrays that
    the exporter merged, as their values are equal, are parameters of their own, where the file names them:
    `notes` of the result says so. A name of a
    size (`dim_param`) is a symbolic axis, which `sizes` may fix. `constants` are values of inputs, which the
    model then does not have.

    Raises: ArtifactError for a damaged file; UnsupportedOp, with all operators that the front end lacks;
            DtypeError for a dtype that terms do not have; OptionError for names that do not exist
    """
    with translated(lambda error: damaged(brief(error))):
        return _Importer(load(model), name, trainable, sizes or {}, constants or {}).imported()


class _Importer:
    """The translation of one model."""

    def __init__(
        self,
        model: Model,
        name: str,
        trainable: str | Sequence[str],
        sizes: Mapping[str, int],
        given: Mapping[str, Any],
    ) -> None:
        self.name = name
        model = prepared(model)
        self.graph = model.graph
        self.notes, self.made = separate(self.graph)
        self.versions = versions(model)
        self.arrays = constants(self.graph)
        self.fixed = {n: np.asarray(value) for n, value in given.items()}
        names = [each.name for each in self.graph.input]
        _require_names("constants", self.fixed, names)
        types = _Types(sizes)
        self.inputs = {
            each.name: types.of(each)
            for each in self.graph.input
            if each.name not in self.arrays and each.name not in self.fixed
        }
        _require_names("sizes", sizes, types.seen)
        self.namer: dict[str, str] = _names(self.arrays)
        self.trained = self._trained([trainable] if isinstance(trainable, str) else list(trainable))
        self.parameters: dict[str, Array] = {}
        self.buffers: dict[str, Array] = {}

    def imported(self) -> Imported:
        """Build the term X → Y."""
        model = self.model()
        outputs = tuple(each.name for each in self.graph.output)
        return Imported(
            self.name,
            model,
            self.parameters,
            self.inputs,
            self.buffers,
            notes=tuple(self.notes),
            outputs=outputs,
        )

    def model(self) -> Term:
        """Build the term X → Y."""
        return build(self.forward, list(self.inputs.values()))

    def forward(self, *inputs: Var) -> list[Var]:
        """Return the outputs of the graph."""
        walk = Walk(self.versions, self._constant)
        parameters = {name: self._parameter(name) for name in self.trained}
        values = {**self.arrays, **parameters, **self.fixed, **dict(zip(self.inputs, inputs, strict=True))}
        results = walk.run(self.graph, values)
        walk.raise_refusals()
        return [walk.variable(f"constant.{k}", result) for k, result in enumerate(results)]

    def _parameter(self, name: str) -> Var:
        value = np.array(self.arrays[name])
        self.parameters[self.namer[name]] = value
        type = NdArrayType(value.shape, dtype_of_array(value))
        return Parameter(self.namer[name], type, Stored(value, alike), outputs_first=True)()

    def _constant(self, name: str, value: Array) -> Var:
        dtype_of_array(value)
        return constant(self.namer.get(name) or f"constant.{dotted(name) or 'value'}", value, self.buffers)

    def _trained(self, patterns: Sequence[str]) -> list[str]:
        """Return the initialisers to train, in order. Raises: OptionError for a pattern that matches none"""
        read, fixes = _uses(self.graph)
        able = [
            n
            for n, value in self.arrays.items()
            if value.dtype.name in ("float16", "float32", "float64", "bfloat16")
            and n in read
            and n not in fixes
            and value.size
        ]
        for pattern in patterns:
            if pattern != "*" and not any(self._matches(n, pattern) for n in able):
                known = ", ".join(self.namer[n] for n in able) or "no initialisers"
                raise OptionError(
                    f"a pattern of `trainable` must match one of {known}",
                    f"{pattern!r} matches none",
                    "write for example '*.weight'",
                )
        return [
            n
            for n in able
            if any(self._matches(n, p) and (p != "*" or not self._is_number(n)) for p in patterns)
        ]

    def _is_number(self, name: str) -> bool:
        """Return whether an array must be named to be trained: a number, or a constant of the exporter."""
        return not self.arrays[name].ndim or name in self.made

    def _matches(self, name: str, pattern: str) -> bool:
        return fnmatchcase(name, pattern) or fnmatchcase(self.namer[name], pattern)


class _Types:
    """The types of inputs, whose symbolic sizes have names or get them."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes, self.seen = sizes, dict[str, Size]()
        self.namer = Namer()

    def of(self, value: Any) -> NdArrayType:
        """Return the type of an input. Raises: UnsupportedOp unless it is an array of a known rank"""
        kind = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
            raise UnsupportedOp(
                "an input must be an array of a known rank",
                f"{value.name!r} is not",
                "give its value by `constants`, or infer shapes by onnx.shape_inference",
            )
        shape = tuple(self._size(size, f"{value.name}_{k}") for k, size in enumerate(kind.shape.dim))
        return NdArrayType(shape, dtype_of(kind.elem_type))

    def _size(self, size: Any, name: str) -> Size:
        if size.HasField("dim_value"):
            return int(size.dim_value)
        known = size.dim_param or name
        if known in self.sizes:
            self.seen[known] = self.sizes[known]
        if known not in self.seen:
            self.seen[known] = Dim(self.namer.fresh(known))
        return self.seen[known]


def _uses(graph: Graph) -> tuple[set[str], set[str]]:
    """Return the names that nodes read, and those that they read as statistics or where constants must be."""
    read, fixes = {output.name for output in graph.output}, set[str]()
    for inside in graphs(graph):
        for node in inside.node:
            read.update(node.input)
            rule = RULES.get(("" if node.domain == "ai.onnx" else node.domain, node.op_type))
            known = [k for k in range(len(node.input)) if rule and rule.parameter(k) in rule.known]
            fixes.update(node.input[k] for k in (*known, *fixed_places(node)))
    return read, fixes


def _names(arrays: Mapping[str, Array]) -> dict[str, str]:
    """Give each initialiser a unique dotted name."""
    taken: dict[str, str] = {}
    for name in arrays:
        base = dotted(name) or "parameter"
        chosen, number = base, 2
        while chosen in taken:
            chosen, number = f"{base}_{number}", number + 1
        taken[chosen] = name
    return {name: chosen for chosen, name in taken.items()}


def _require_names(option: str, given: Mapping[str, Any], known: dict[str, Size] | list[str]) -> None:
    for name in given:
        if name not in known:
            raise OptionError(
                f"`{option}` must name one of {', '.join(known) or 'nothing'}",
                f"it names {name!r}",
                "check it",
            )
