"""Packed weights: `prepare` copies those of a prediction's products once, and another function reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from catgrad.backend import Backend
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.passes.pack import Matrix, pack
from catgrad.loops.printing.functions import FunctionPrinter
from catgrad.naming import Namer
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Function, Program
from catgrad.types import Dtype

from .entries import CFunction, Library
from .interface import prefix


@dataclass(frozen=True)
class PackedWeight:
    """A member of the struct of packed weights: the parameter it is packed from, and the place of the matrix.

    `sizes` are its rows and columns, `strides` the elements from one of these to the next.
    """

    identifier: str
    name: str
    dtype: Dtype
    source: str
    sizes: tuple[str, str]
    strides: tuple[str, str]


class PreparingLibrary(Library):
    """C functions, and beside the one that predicts another that takes packed weights, if it has any."""

    weights: tuple[PackedWeight, ...] = ()
    prepared: CFunction | None = None

    def function(self, function: Function) -> CFunction:
        """Print a function, and after a prediction the one that takes packed weights."""
        printer = FunctionPrinter(self.kernels, function)
        printed = self.printed(printer, function)
        if function.kind is Kind.PREDICT:
            self._prepare(printer, function)
        return printed

    def context(self) -> dict[str, Any]:
        """Print all functions; returns the variables that templates read."""
        context = super().context()
        functions: dict[str, CFunction] = {}
        for name, function in context["functions"].items():
            functions[name] = function
            if function.kind is Kind.PREDICT and self.prepared:
                functions[self.prepared.name] = self.prepared
        return context | {"functions": functions, "prepared": self.weights}

    def _prepare(self, plain: FunctionPrinter, function: Function) -> None:
        """Print the function that takes packed weights."""
        arguments = zip(plain.lowered.arguments, function.inputs, strict=True)
        names = {buffer: port.name for buffer, port in arguments if port.role is Role.PARAMETER}
        lowered, packed = pack(plain.lowered, names)
        if not packed:
            return
        printer, namer = FunctionPrinter(self.kernels, function, lowered), Namer(self.dialect.reserved)
        weights = []
        for matrix, array in packed.items():
            weights.append(self._weight(printer, matrix, names, namer))
            printer.names[array] = self.dialect.macros["member"]("prepared", weights[-1].identifier)
        printed = self.printed(printer, function)
        self.weights = tuple(weights)
        self.prepared = replace(
            printed,
            name=f"{function.name}_prepared",
            doc=f"{function.doc} Weights are read as {prefix(self.program)}_prepare packed them.",
            entry=replace(printed.entry, name=f"{function.name}_prepared", is_prepared=True),
        )

    def _weight(
        self, printer: FunctionPrinter, matrix: Matrix, names: Mapping[Buffer, str], namer: Namer
    ) -> PackedWeight:
        name, size = names[matrix.array], printer.expressions.size
        member, macros = self.members[name], self.dialect.macros
        array = macros["member"](Role.PARAMETER, member)
        return PackedWeight(
            namer.fresh(member),
            name,
            matrix.array.type.dtype,
            macros["pointer"](array, size(matrix.first), matrix.first == 0),
            (size(matrix.rows), size(matrix.columns)),
            (size(matrix.row_stride), size(matrix.column_stride)),
        )


def template_context(backend: Backend, program: Program) -> dict[str, Any]:
    """Return the variables that the templates of the target c read."""
    return PreparingLibrary(backend, program).context()
