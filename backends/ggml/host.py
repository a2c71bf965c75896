"""Functions in C for what ggml lacks: a program of the target c, which nodes of the graphs call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from catgrad.backend import Backend
from catgrad.dims import Dim
from catgrad.functors import Expand
from catgrad.naming import Namer
from catgrad.ops.cast import cast
from catgrad.programs.cones import Cone
from catgrad.programs.ports import Kind
from catgrad.programs.program import Function, Program, lower
from catgrad.targets import get_backend
from catgrad.terms.build import build
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType, symbols

from .nodes import Fused, HostCall


@dataclass(frozen=True)
class HostFunction:
    """A function in C, and the number of arrays it takes before those that only tell it sizes."""

    function: Function
    operands: int

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the sizes that it takes."""
        return tuple(symbols(self.function.argument_types))


class HostFunctions:
    """The functions of one program; equal ones are shared."""

    def __init__(self, name: str) -> None:
        self.target: Backend = get_backend("c").configured(single_file=True)
        self.name, self.namer = f"{name}_host", Namer(self.target.dialect.reserved)
        self.functions: dict[object, HostFunction] = {}
        self.expand = Expand(self.target.has)

    def call(self, cone: Cone, function: Function, have_nodes: bool, is_exact: bool) -> HostCall:
        """Return a call of the function that computes a cone, with its nodes where it has them.

        It `is_exact` where the nodes are not.
        """
        types = [function.types[value] for value in cone.inputs]
        place = {value: k for k, value in enumerate(cone.inputs)}
        for apply in cone.body:
            place |= {value: len(place) + k for k, value in enumerate(apply.outputs)}
        steps = tuple((a.op, tuple(place[v] for v in a.inputs)) for a in cone.body)
        key = steps, place[cone.result], tuple(types)
        if key not in self.functions:
            self.functions[key] = HostFunction(self._lowered(cone, types, function), len(types))
        made = self.functions[key]
        call = made.function.name, made.sizes, in_memory(function.types[cone.result])
        nodes = replace(function, arguments=cone.inputs, body=cone.body, results=(cone.result,))
        return Fused(*call, nodes, is_exact) if have_nodes else HostCall(*call)

    @cached_property
    def program(self) -> Program:
        """The functions that were called, as a program."""
        return Program(self.name, tuple(made.function for made in self.functions.values()))

    @cached_property
    def files(self) -> Mapping[str, str | bytes]:
        """The emitted program."""
        return self.target.emit(self.program).files

    def _lowered(self, cone: Cone, types: Sequence[NdArrayType], function: Function) -> Function:
        def compute(*arguments: Var) -> Var:
            values = dict(zip(cone.inputs, arguments, strict=False))
            for value, type in zip(cone.inputs, types, strict=True):
                values[value] = cast(values[value], type.dtype)
            for op, inputs, outputs in cone.body:
                values |= zip(outputs, op.apply(*(values[v] for v in inputs)), strict=True)
            result = values[cone.result]
            return cast(result, in_memory(result.type).dtype)

        passed = [in_memory(type) for type in types]
        everything = (*passed, *(function.types[v] for apply in cone.body for v in apply.outputs))
        passed += [NdArrayType((Dim(size), 0)) for size in untold(everything, passed)]
        op = next(apply.op for apply in cone.body if cone.result in apply.outputs)
        arguments = Namer([*self.target.dialect.reserved, *symbols(everything)])
        # Arrays of several names are passed; the text of a kernel, so its rounding, depends on names.
        names = [arguments.fresh("x" if k < len(types) else "rows") for k in range(len(passed))]
        term = self.expand(build(compute, passed))
        name = self.namer.fresh(function.names.get(cone.result) or op.macro.lower())
        return replace(lower(term, name, names), kind=Kind.FUNCTION)


def in_memory(type: NdArrayType) -> NdArrayType:
    """Return the type of a tensor's memory, in which truth and integers of 8 bits are float32."""
    return type if type.dtype.is_numeric else NdArrayType(type.shape, Dtype.float32)


def untold(types: Sequence[NdArrayType], passed: Sequence[NdArrayType]) -> list[str]:
    """List the sizes in types that no array has as a whole axis: an empty array must tell them."""
    axes = (size for type in passed for size in type.shape if isinstance(size, Dim))
    told = {min(size.symbols) for size in axes if size == Dim(min(size.symbols))}
    return [size for size in symbols(tuple(types)) if size not in told]
