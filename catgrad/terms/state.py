"""What a model keeps between runs: generators inside its term, arguments once it is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catgrad.errors import OptionError, TermError
from catgrad.initialisers import ZEROS, Filled, Initialiser
from catgrad.naming import require_dotted
from catgrad.terms.op import NOTHING, Examples, Types, same
from catgrad.terms.structural import Named
from catgrad.types import Array, Dtype, NdArrayType


class Kept(Named, register=False):
    """() -> T: an array that is there before a run, under a dotted name."""

    array_type: NdArrayType
    initial: Initialiser = ZEROS
    saves = NOTHING

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.initial, Initialiser):
            raise OptionError(
                "an initialiser must be Uniform, Normal or Filled",
                f"that of {self.name} is {self.initial!r}",
                "import one from catgrad.initialisers",
            )

    def type(self) -> Types:
        return self.array_type

    def ref(self) -> Any:
        raise self._inside("be given a value")

    def rev(self, dy: Any) -> Any:
        raise self._inside("be factored out before its model is differentiated")

    def _inside(self, must: str) -> TermError:
        kind = type(self).__name__.lower()
        return TermError(
            f"a {kind} must {must}",
            f"{self.name!r} is still inside the term",
            "apply factor_parameters and factor_buffers first",
        )

    @classmethod
    def examples(cls) -> Examples:
        return []


class Parameter(Kept):
    """An array that training moves along its gradient, until `factor_parameters` makes it an argument.

    Type:     () -> T
    Gradient: none; a model is differentiated after its parameters are factored out
    """


class Buffer(Kept):
    """An array that training changes otherwise, until `factor_buffers` makes it an argument.

    Type:     () -> T
    Gradient: none
    """


class Update(Named):
    """The new value of the buffer of this name.

    Type:     (T) -> ()
    Gradient: dx = 0
    """

    array_type: NdArrayType
    saves = NOTHING

    def type(self, x: NdArrayType) -> Types:
        same(self.array_type, x)
        return ()

    def ref(self, x: Array) -> Any:
        return ()

    @classmethod
    def examples(cls) -> Examples:
        return []


class RunNumber(Kept):
    """A number of the whole run, the same for all layers and parameters that read it.

    It keeps its name wherever it is read. One that `counts` is 1 greater after each step.

    Type:     () -> T[]
    Gradient: none
    """

    counts: bool = False


STEP = RunNumber("step", NdArrayType((), Dtype.int64), counts=True)
"""How many updates the parameters have had."""
SEED = RunNumber("seed", NdArrayType((), Dtype.int64))
"""The key of all random numbers of a run."""
DRAWS = RunNumber("draws", NdArrayType((), Dtype.int64), counts=True)
"""How often the model has drawn random numbers."""


def learning_rate(initial: float, name: str = "learning_rate") -> RunNumber:
    """The learning rate as a number of the run."""
    return RunNumber(name, NdArrayType((), Dtype.float64), Filled(initial))


@dataclass(frozen=True)
class Slot:
    """A place for a named array: a parameter, a buffer, or a part of the optimiser's state."""

    name: str
    type: NdArrayType
    initial: Initialiser = ZEROS

    def __post_init__(self) -> None:
        require_dotted(self.name)


def slot(kept: Kept) -> Slot:
    """The place of something kept."""
    return Slot(kept.name, kept.array_type, kept.initial)
