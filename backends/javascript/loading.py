"""Emitted modules in Node.js: their functions on arrays, and a learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from numpy.typing import ArrayLike

from catgrad.artifact import Artifact
from catgrad.programs.ports import INITIAL, TABLES, Kind, Role
from catgrad.programs.program import Function, Program
from catgrad.types import Array, symbols

from ..host.checks import Expected
from ..host.functions import class_of_models
from ..host.learner import FunctionLearner
from ..host.tables import DeviceTable
from ..kernels.signatures import separate
from .functions import methods
from .session import Model, Module, Place, Wire


def load(artifact: Artifact) -> type:
    """Import the emitted module; returns the class `CompiledModel`."""
    return loaded(artifact.program, Module(artifact.source, Wire(has_int64=False)))


def loaded(program: Program, module: Module) -> type:
    """Return the class `CompiledModel` with the functions of a module, and its learner."""
    attributes: dict[str, Any] = {"module": module}
    names = methods(program)
    for function in program.functions:
        if function.kind.is_initial:
            attributes[function.name] = staticmethod(partial(initial, module, program, function))
        else:
            attributes[function.name] = ModuleFunction(module, function, names[function.name])
    return class_of_models(program, attributes, ModuleLearner)


def initial(module: Module, program: Program, function: Function, seed: ArrayLike = 0) -> list[Array]:
    """Compute the initial values of a table, determined by the seed."""
    [checked] = Expected(function.name, ("seed",), function.argument_types).checked([seed])
    [role] = [role for role, kind in INITIAL.items() if kind is function.kind]
    slots = program.tables.get(role, ())
    arrays = module.model(int(checked)).ask(function.name, read=[role] if slots else [])["tables"]
    return [module.wire.decoded(arrays[role][slot.name], slot.type) for slot in slots]


class ModuleFunction:
    """A function of a module on arrays: those of tables, then its own. Its results are new arrays."""

    def __init__(self, module: Module, function: Function, method: str) -> None:
        self.module, self.function, self.method = module, function, method
        self.__name__, self.__doc__ = function.name, function.doc
        names = tuple(function.names.get(v, "x") for v in function.arguments)
        self.expected = Expected(function.name, names, function.argument_types, function.requirements)
        first = sum(port.role.is_table for port in function.inputs)
        types = function.argument_types[first:]
        self.own = replace(self.expected, names=names[first:], types=types)

    @cached_property
    def model(self) -> Model:
        """The model whose tables calls set first."""
        return self.module.model()

    def __call__(self, *values: ArrayLike) -> list[Array]:
        """Call the function; returns the results in its order."""
        arrays, wire = self.expected.checked(values), self.module.wire
        tables: dict[Role, dict[str, object]] = {}
        ports = self.function.inputs
        for port, array in zip(ports, arrays, strict=True):
            if port.role.is_table:
                tables.setdefault(port.role, {})[port.name] = wire.encoded(array, port.type)
        given = [array for port, array in zip(ports, arrays, strict=True) if not port.role.is_table]
        return self.run(self.model, given, self.expected.sizes(arrays), tables, self.function.changes)

    def bound(self, model: Model, *values: ArrayLike) -> list[Any]:
        """Call the function on the tables of a model; returns its own results, then gradients."""
        arrays = self.own.checked(values)
        results = self.run(model, arrays, self.own.sizes(arrays))
        return [y if y.ndim else y[()] for y in results]

    def run(
        self,
        model: Model,
        arrays: Sequence[Array],
        sizes: Mapping[str, int],
        tables: Mapping[Role, object] | None = None,
        read: Sequence[Role] = (),
    ) -> list[Array]:
        """Call the method; returns its results, and the arrays of the tables that are read, in order."""
        wire, own_ports = self.module.wire, [p for p in self.function.inputs if not p.role.is_table]
        given: list[object] = [sizes[name] for name in symbols(self.function.argument_types)]
        gradients: dict[str, object] = {}
        for port, array in zip(own_ports, arrays, strict=True):
            if port.role is Role.GRADIENT:
                gradients[port.name] = wire.encoded(array, port.type)
            else:
                given.append(wire.encoded(array, port.type))
        given += [gradients] if gradients else []
        answer = model.ask(
            self.function.name, method=self.method, passed=given, tables=tables or {}, read=read
        )
        return self._results(answer, sizes, read)

    def _results(self, answer: Any, sizes: Mapping[str, int], read: Sequence[Role]) -> list[Array]:
        results, gradients = answer["result"], {}
        if any(port.role is Role.GRADIENT for port in self.function.outputs):
            gradients = results.pop("gradients")
            results = list(results.values())
        elif len(separate(self.function.outputs)) == 1:
            results = [results]
        rest = iter(results)
        found = []
        for port in self.function.outputs:
            if port.role.is_table:
                value = answer["tables"][port.role][port.name] if port.role in read else None
            else:
                value = gradients[port.name] if port.role is Role.GRADIENT else next(rest)
            if value is not None:
                found.append(self.module.wire.decoded(value, port.type, sizes))
        return found


class ModuleLearner(FunctionLearner):
    """A learner whose tables are in Node.js."""

    def __init__(self, model: Any, seed: int = 0) -> None:
        self.model = model()
        program, module = self.model.program, self.model.module
        self.instance = module.model(seed)
        slots = {role: program.tables.get(role, ()) for role in TABLES}
        self._own(
            {
                role: DeviceTable(
                    role, slots[role], [Place(self.instance, role, slot) for slot in slots[role]]
                )
                for role in TABLES
            }
        )
        self._functions: Mapping[Kind, Callable[..., list[Any]]] = {
            kind: partial(getattr(self.model, function.name).bound, self.instance)
            for kind, function in program.kinds.items()
            if not kind.is_initial
        }

    def another(self) -> ModuleLearner:
        """Return another learner of the same program."""
        return ModuleLearner(type(self.model))
