"""Functions of a program as models of ONNX, with names of arrays as users know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catgrad.backend import Backend
from catgrad.dims import Dim
from catgrad.manifest import terms_sha256
from catgrad.programs.ports import Kind, Port
from catgrad.programs.program import Function, Program, symbol_sources
from catgrad.types import Array

from .compute import computed
from .graph import Graph, value_info

OPSET = 18
"""The operator set of emitted models: the first with operations on bits, and sums of axes as inputs."""

IR_VERSION = 8
"""The version of the format that came with this operator set."""


def input_names(function: Function) -> list[str]:
    """Return the names of the inputs: those of arrays of tables are dotted."""
    return _distinct([port.label for port in function.inputs], "x", ())


def output_names(function: Function) -> list[str]:
    """Return the names of the outputs: `new_` before those of arrays that a function changes."""
    taken = input_names(function)
    names = [_new(port) for port in function.outputs]
    return _distinct(names, "y", taken)


def _new(port: Port) -> str:
    return f"new_{port.name}" if port.role.is_table else port.label


def _distinct(names: Sequence[str], other: str, taken: Sequence[str]) -> list[str]:
    """Give each array a name that no other has."""
    used, found = set(taken), []
    for name in names:
        chosen, number = name or other, 2
        while chosen in used:
            chosen, number = f"{name or other}_{number}", number + 1
        used.add(chosen)
        found.append(chosen)
    return found


def model(program: Program, function: Function, arrays: Mapping[str, Array], are_inputs: bool = True) -> Any:
    """Return the ModelProto of a function.

    `arrays` are initialisers, which callers may replace if they `are_inputs` too.
    """
    from onnx import helper, numpy_helper

    inputs, outputs = input_names(function), output_names(function)
    g = Graph(reserved=(*inputs, *outputs))
    for symbol, (position, axis) in symbol_sources(function.argument_types).items():
        g.sizes[Dim(symbol)] = g.add("Shape", inputs[position], start=axis, end=axis + 1)
    results = computed(g, function, inputs)
    for name, value in zip(outputs, results, strict=True):
        g.add("Identity", value, outputs=[name])
    types = zip(inputs, function.argument_types, strict=True)
    infos = [value_info(n, type) for n, type in types if are_inputs or n not in arrays]
    constants = [numpy_helper.from_array(array, name) for name, array in g.constants.values()]
    given = [numpy_helper.from_array(arrays[n], n) for n in inputs if n in arrays]
    proto = g.proto(
        f"{program.name}.{function.name}",
        infos,
        [value_info(n, v.type) for n, v in zip(outputs, results, strict=True)],
        [*given, *constants],
    )
    made = helper.make_model(
        proto,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="catgrad",
        doc_string=function.doc,
    )
    helper.set_model_props(made, dict(terms_sha256(program)))
    return made


def template_context(backend: Backend, program: Program) -> dict[str, Any]:
    """Return the models of all functions, which are no text.

    `predict`, and functions that no training has, begin with stored arrays.
    """
    from .tools import ONNX

    ONNX.require("target onnx")
    models = {}
    for function in program.functions:
        arrays = program.stored if function.kind in (Kind.PREDICT, Kind.FUNCTION) else {}
        models[f"{function.name}.onnx"] = model(program, function, arrays)
    functions = [
        {
            "name": function.name,
            "doc": function.doc,
            "inputs": list(zip(input_names(function), function.argument_types, strict=True)),
            "outputs": [(n, p.type) for n, p in zip(output_names(function), function.outputs, strict=True)],
        }
        for function in program.functions
    ]
    return {"models": models, "functions": functions, "opset": OPSET}


def postprocess(context: Mapping[str, Any], files: dict[str, str]) -> dict[str, str | bytes]:
    """Add the models to the files."""
    return {**files, **{name: each.SerializeToString() for name, each in context["models"].items()}}
