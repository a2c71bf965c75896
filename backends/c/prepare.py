"""Packed weights: `prepare` copies those of a prediction's products once, and another function reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from catgrad.backend import Backend
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.passes.vectors.pack import Matrix, pack
from catgrad.loops.printing.functions import FunctionPrinter
from catgrad.naming import Namer
from catgrad.programs.ports import Kind, Port, Role
from catgrad.programs.program import Function, Program
from catgrad.types import Dtype

from .functions import CFunction, CFunctions
from .interface import prefix
from .machine import machine_of


@dataclass(frozen=True)
class PackedWeight:
    """A member of the struct of packed weights: the array of a table it is packed from, and the matrix there.

    `sizes` are its rows and columns, `strides` the elements from one of these to the next.
    """

    identifier: str
    name: str
    dtype: Dtype
    table: Role
    source: str
    sizes: tuple[str, str]
    strides: tuple[str, str]


PREDICT_PREPARED = "predict_prepared"
"""The variant of `predict` that takes packed weights."""


class PreparingFunctions(CFunctions):
    """C functions, and beside the one that predicts another that takes packed weights, if it has any."""

    def __init__(self, backend: Backend, program: Program) -> None:
        self.machine = machine_of(backend.options)
        super().__init__(backend, program)
        self.packed: dict[Matrix, Buffer] = {}
        self.weights: tuple[PackedWeight, ...] = ()
        self.prepared: CFunction | None = None

    def compiled(self) -> dict[str, FunctionPrinter]:
        """Compile all functions, and the prediction again, with packed weights."""
        printers = super().compiled()
        if PREDICT_PREPARED in self.program.variants:
            plain = self.program.kinds[Kind.PREDICT]
            lowered = printers[plain.name].lowered
            arguments = zip(lowered.arguments, plain.inputs, strict=True)
            tables = {role for role in plain.tables if role not in plain.changes}
            lowered, self.packed = pack(lowered, [each for each, port in arguments if port.role in tables])
            if self.packed:
                printers[prepared_name(plain.name)] = FunctionPrinter(self.kernels, plain, lowered)
        return printers

    def function(self, function: Function) -> CFunction:
        """Print a function, and after a prediction the one that takes packed weights."""
        printed = super().function(function)
        if function.kind is Kind.PREDICT and self.packed:
            self._prepare(function)
        return printed

    def context(self) -> dict[str, Any]:
        """Print all functions; returns the variables that templates read."""
        context = super().context()
        functions: dict[str, CFunction] = {}
        for name, function in context["functions"].items():
            functions[name] = function
            if function.kind is Kind.PREDICT and self.prepared:
                functions[self.prepared.name] = self.prepared
        packed = {weight.table for weight in self.weights}
        tables = [table for table in context["placed"] if table in packed]
        return context | {"functions": functions, "prepared": self.weights, "packed_tables": tables}

    def _prepare(self, plain: Function) -> None:
        """Print the function that takes packed weights."""
        doc = f"{plain.doc} Weights are read as {prefix(self.program)}_prepare packed them."
        function = replace(plain, name=prepared_name(plain.name), doc=doc)
        printer, namer = self.printers[function.name], Namer(self.dialect.reserved)
        arguments = zip(printer.lowered.arguments, plain.inputs, strict=True)
        ports = dict(arguments)
        weights = []
        for matrix, array in self.packed.items():
            weights.append(self._weight(printer, matrix, ports[matrix.array], namer))
            printer.names[array] = self.dialect.macros["member"]("prepared", weights[-1].identifier)
        self.weights, printed = tuple(weights), super().function(function)
        self.prepared = replace(printed, convention=replace(printed.convention, is_prepared=True))

    def _weight(self, printer: FunctionPrinter, matrix: Matrix, port: Port, namer: Namer) -> PackedWeight:
        size, macros = printer.expressions.size, self.dialect.macros
        member = self.structs.members[port.name].identifier
        array = macros["member"](port.role, member)
        return PackedWeight(
            namer.fresh(member),
            port.name,
            matrix.array.type.dtype,
            port.role,
            macros["pointer"](array, size(matrix.first), matrix.first == 0),
            (size(matrix.rows), size(matrix.columns)),
            (size(matrix.row_stride), size(matrix.column_stride)),
        )


def prepared_name(name: str) -> str:
    """Name the function that takes packed weights."""
    return f"{name}_prepared"


def template_context(backend: Backend, program: Program) -> dict[str, Any]:
    """Return the variables that the templates of the target c read."""
    options = backend.options
    context = PreparingFunctions(backend, program).context()
    return context | {"single_file": options.single_file, "scalar": options.microcontroller}
