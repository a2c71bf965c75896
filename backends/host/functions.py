"""Functions of whole tables, which return the new ones, on NumPy arrays, and the class that they are of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from catgrad.programs.ports import Kind
from catgrad.programs.program import Function, Program
from catgrad.types import Array

from .checks import Expected
from .learner import PureLearner


class PureFunction(ABC):
    """A function on arrays of tables and its own."""

    def __init__(self, function: Function) -> None:
        self.function, self.__name__, self.__doc__ = function, function.name, function.doc
        labels = tuple(function.names.get(v, "x") for v in function.arguments)
        self.expected = Expected(self.__name__, labels, function.argument_types, function.requirements)

    def __call__(self, *values: ArrayLike) -> list[Array]:
        """Call the function on arrays; returns the results in its order. Raises: as `on`"""
        return self.on((), values)

    def on(self, tables: Sequence[Array], own: Sequence[Any]) -> list[Array]:
        """Call the function on arrays of tables, which errors do not count, then on its own.

        Raises: TypeError, ValueError for arguments that do not fit; as `run`
        """
        return self.run(self.expected.checked([*tables, *own], len(tables)))

    @abstractmethod
    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Call the function on checked arrays."""


class LoadedFunctions:
    """The functions of a program, which take and return lists of arrays."""

    program: ClassVar[Program]


def compiled_model(
    program: Program, functions: Mapping[str, PureFunction], learner: type[PureLearner] = PureLearner
) -> type[LoadedFunctions]:
    """Return the class `CompiledModel` of functions by name, with a method `learner` if one is a step."""
    kinds = {kind: functions[function.name] for kind, function in program.kinds.items()}
    return class_of_models(program, functions, lambda model, seed: learner(program, kinds, seed))


def class_of_models(
    program: Program, attributes: Mapping[str, Any], learner: Callable[[Any, Any], Any]
) -> type[LoadedFunctions]:
    """Return the class `CompiledModel` with these attributes, and the method `learner` if there is a step.

    The learner is of this class, and not of a derived one, whose functions may be others.
    """
    own: dict[str, Any] = {"program": program, **attributes}
    if Kind.STEP in program.kinds:
        own["learner"] = lambda self, seed=0: learner(model, seed)
    model: type[LoadedFunctions] = type("CompiledModel", (LoadedFunctions,), own)
    return model
