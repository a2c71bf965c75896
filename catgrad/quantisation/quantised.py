"""Tasks whose model computes in int8."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from catgrad.errors import OptionError
from catgrad.learn.task import Task
from catgrad.programs.ports import Kind, Port, Role
from catgrad.programs.signatures import SIGNATURES
from catgrad.quantisation.affine import Affine
from catgrad.quantisation.levels import stored, stored_slot
from catgrad.terms.state import Slot
from catgrad.terms.term import Term
from catgrad.types import Array


@dataclass(frozen=True, repr=False)
class Quantised(Task):
    """A task whose model computes in int8; its weights, biases and tables are buffers.

    `input_scales` and `output_scales` have the scale and the zero point of each input and output that is
    int8, and None for others. What is kept in float32 trains as that of any task. Parameters that are stored
    in int8 have `parameter_scales`.

    If no parameter is kept, it has `predict` alone.
    """

    input_scales: tuple[Affine | None, ...] = ()
    output_scales: tuple[Affine | None, ...] = ()
    parameter_scales: Mapping[str, Array] = field(default_factory=dict)

    @cached_property
    def stored(self) -> tuple[Slot, ...]:
        """P, of which those with scales are int8."""
        return tuple(stored_slot(slot, self.parameter_scales.keys()) for slot in self.parameters)

    def entry(self, kind: Kind) -> tuple[Term, tuple[Port, ...], tuple[Port, ...]]:
        """Return one of the functions of a task, with parameters as they are stored."""
        return stored(super().entry(kind), self.parameter_scales.keys())

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """All functions if some parameters are kept, without gradients of levels; else `predict`."""
        if not self.parameters:
            return (Kind.PREDICT,)
        return tuple(kind for kind in super().kinds if not (self.parameter_scales and _has_gradients(kind)))

    def require(self, kinds: Iterable[Kind]) -> None:
        """Raise OptionError unless it has these functions."""
        kinds = tuple(kinds)
        if self.parameter_scales and any(map(_has_gradients, kinds)):
            raise OptionError(
                "gradients must be of parameters in float32",
                f"{self.name} has some in int8, {next(iter(self.parameter_scales))} among them",
                "emit predict and step, or leave out parameters=Dtype.int8",
            )
        super().require(kinds)


def _has_gradients(kind: Kind) -> bool:
    """Tell whether a function takes or returns the gradients of parameters."""
    return any(Role.GRADIENT in roles for roles in SIGNATURES[kind])
