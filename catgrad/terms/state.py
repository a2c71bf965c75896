"""Model state: generators without inputs in a term, which become arguments when it is compiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from catgrad.errors import OptionError, TermError
from catgrad.initialisers import ZEROS, Filled, Initialiser
from catgrad.naming import require_name_of_array
from catgrad.terms.op import NOTHING, Examples, Types, same
from catgrad.terms.structural import Named
from catgrad.types import Array, Dtype, NdArrayType


class Persistent(Named, register=False):
    """() -> T: an array that exists before a run, under a dotted name."""

    array_type: NdArrayType
    initial: Initialiser = ZEROS
    saves = NOTHING

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.initial, Initialiser):
            raise OptionError(
                "an initialiser must be Uniform, Normal, Filled or Stored",
                f"that of {self.name} is {self.initial!r}",
                "import one from catgrad.initialisers",
            )

    def type(self) -> Types:
        return self.array_type

    def outputs(self, *inputs: NdArrayType) -> tuple[NdArrayType, ...]:
        """Return its type, uncached: a cache would keep stored arrays, and compare their elements."""
        return super().outputs(*inputs) if inputs else (self.array_type,)

    def ref(self) -> Any:
        raise self._inside("be given a value")

    def rev(self, dy: Any) -> Any:
        raise self._inside("be factored out before its model is differentiated")

    def _inside(self, must: str) -> TermError:
        kind = type(self).__name__.lower()
        return TermError(
            f"a {kind} must {must}",
            f"{self.name!r} is still inside the term",
            "wrap the term as Functions or as a Task, or apply factor_parameters and factor_buffers first",
        )

    @classmethod
    def examples(cls) -> Examples:
        return []


class Parameter(Persistent):
    """A parameter, updated from its gradient; `factor_parameters` turns it into an argument.

    The rows of a matrix are inputs and its columns outputs, or with `outputs_first`, as in PyTorch, the
    other way round. Optimisers that distinguish them read this.

    Type:     () -> T
    Gradient: none; a model is differentiated after its parameters are factored out
    """

    outputs_first: bool = False


class Buffer(Persistent):
    """A buffer, updated by the model itself; `factor_buffers` turns it into an argument.

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


class RunNumber(Persistent):
    """A scalar of the whole run, shared by all layers and parameters.

    Its name has no prefix of a layer. One that `counts` is incremented in each step.

    Type:     () -> T[]
    Gradient: none
    """

    counts: bool = False


STEP = RunNumber("step", NdArrayType((), Dtype.int64), counts=True)
"""The number of updates of the parameters."""
SEED = RunNumber("seed", NdArrayType((), Dtype.int64))
"""The seed of all random numbers of a run."""
DRAWS = RunNumber("draws", NdArrayType((), Dtype.int64), counts=True)
"""The number of runs of the model that drew random numbers."""
FIRST_ROW = RunNumber("first_row", NdArrayType((), Dtype.int64))
"""The number of rows of the whole batch before those of this process."""


LEARNING_RATE = "learning_rate"
"""The name of a learning rate that can be set, unless its schedule names it."""


def is_learning_rate(name: str) -> bool:
    """Tell a learning rate by its name: several are numbered, as in `learning_rate_2`."""
    return name.startswith(LEARNING_RATE)


def learning_rate(initial: float, name: str = LEARNING_RATE) -> RunNumber:
    """Return the learning rate as a scalar of the run."""
    return RunNumber(name, NdArrayType((), Dtype.float64), Filled(initial))


@dataclass(frozen=True)
class Slot:
    """Name, type and initial value of an array: a parameter, a buffer, or optimiser state.

    `outputs_first` is that of a parameter; arrays that differ in it alone are equal.
    """

    name: str
    type: NdArrayType
    initial: Initialiser = ZEROS
    outputs_first: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        require_name_of_array(self.name)

    @property
    def is_learning_rate(self) -> bool:
        """Tell whether a user may set this number of the state to train faster or slower."""
        return is_learning_rate(self.name)


def slot(kept: Persistent) -> Slot:
    """Return the slot of a generator."""
    outputs_first = isinstance(kept, Parameter) and kept.outputs_first
    return Slot(kept.name, kept.array_type, kept.initial, outputs_first)
