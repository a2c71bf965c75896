"""What is to be learned, and the terms that learning it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any

from catgrad.build import build
from catgrad.errors import OptionError, ShapeError, TypeMismatch
from catgrad.functors import Expand, Reverse, factor_parameters, reverse
from catgrad.functors.reverse import cotangents
from catgrad.initialisers import ZEROS
from catgrad.learn.optimisers import Optimiser
from catgrad.naming import require_dotted
from catgrad.op import Op
from catgrad.program import Program, lower
from catgrad.structural import Constant, Label, Slot
from catgrad.term import Term
from catgrad.types import NdArrayType

Loss = Callable[..., Any]

TERMS = ("model", "predict", "loss", "rev", "rev_p", "step", "train_step")
"""The terms of a task, by name."""


@dataclass(frozen=True)
class Task:
    """A model X → Ŷ, the optimiser that moves its parameters P, and the loss (Ŷ, Y) -> number.

    Y has the types of `labels`, by default those of the model's outputs. Its terms, where S is the
    optimiser's state:

        predict     P ⊗ X → Ŷ
        loss        P ⊗ X ⊗ Y → R
        rev         P ⊗ X ⊗ Ŷ′ → P′ ⊗ X′           the reverse derivative of predict
        rev_p       P ⊗ X ⊗ Ŷ′ → P′
        step        S ⊗ P ⊗ X ⊗ Y → S ⊗ P
        train_step  S ⊗ P ⊗ X ⊗ Y → R ⊗ S ⊗ P      the same, with the loss before the step

    Raises: ShapeError if the loss is not a scalar.
    """

    model: Term
    optimiser: Optimiser
    loss: Loss
    name: str = "model"
    labels: tuple[NdArrayType, ...] | None = None

    def __post_init__(self) -> None:
        require_dotted(self.name)
        for value, wanted in ((self.model, Term), (self.optimiser, Optimiser)):
            if not isinstance(value, wanted):
                raise OptionError(
                    f"a task must have a model, an optimiser and a loss, so this a {wanted.__name__}",
                    f"it is {value!r}",
                    "write Task(model, sgd(0.01), mse)",
                )

    @cached_property
    def _factored(self) -> tuple[tuple[Slot, ...], Term]:
        return factor_parameters(self.model)

    @cached_property
    def _reverse(self) -> Reverse:
        return Reverse()

    @property
    def parameters(self) -> tuple[Slot, ...]:
        """P: the parameters by dotted name, in the order of every function."""
        return self._factored[0]

    @property
    def state(self) -> tuple[Slot, ...]:
        """S: the optimiser's arrays, `momentum.<parameter>` and so on, parameter by parameter."""
        return tuple(
            Slot(f"{array.name}.{p.name}", array.type(p.type), ZEROS)
            for p in self.parameters
            for array in self.optimiser.state
        )

    @property
    def inputs(self) -> tuple[NdArrayType, ...]:
        """X."""
        return tuple(self.model.source.table)

    @property
    def outputs(self) -> tuple[NdArrayType, ...]:
        """Ŷ."""
        return tuple(self.model.target.table)

    @property
    def targets(self) -> tuple[NdArrayType, ...]:
        """Y."""
        return self.outputs if self.labels is None else tuple(self.labels)

    @cached_property
    def predict_term(self) -> Term:
        """P ⊗ X → Ŷ, with its arguments and results labelled."""
        argument_names = [*(p.name for p in self.parameters), *_numbered("x", self.inputs)]
        result_names = _numbered("y_hat", self.outputs)
        factored = self._factored[1]

        def predict(*arguments: Any) -> Any:
            labelled = [Label(n)(a) for n, a in zip(argument_names, arguments, strict=True)]
            return [Label(n)(y) for n, y in zip(result_names, factored.apply(*labelled), strict=True)]

        return build(predict, [p.type for p in self.parameters] + list(self.inputs))

    @cached_property
    def loss_term(self) -> Term:
        """P ⊗ X ⊗ Y → R."""
        given = len(self.parameters) + len(self.inputs)

        def loss(*arguments: Any) -> Any:
            y_hat, y = self.predict_term.apply(*arguments[:given]), arguments[given:]
            _check_takes(self.loss, (*y_hat, *y))
            value = self.loss(*y_hat, *y)
            if getattr(value, "shape", None) != ():
                raise ShapeError(
                    "a loss must be one number of the term",
                    f"it is {value!r}",
                    "end it with mean or sum",
                    subject="loss",
                )
            return Label("loss")(value)

        return build(loss, [*self.predict_term.source.table, *self.targets])

    @cached_property
    def rev_term(self) -> Term:
        """P ⊗ X ⊗ Ŷ′ → P′ ⊗ X′."""
        optic = reverse(self.predict_term, self._reverse)
        return build(lambda *a: optic.apply(*a)[len(self.outputs) :], list(optic.source.table))

    @cached_property
    def rev_p_term(self) -> Term:
        """P ⊗ X ⊗ Ŷ′ → P′."""
        count = len(cotangents(tuple(p.type for p in self.parameters)))
        return build(lambda *a: self.rev_term.apply(*a)[:count], list(self.rev_term.source.table))

    @cached_property
    def train_step_term(self) -> Term:
        """S ⊗ P ⊗ X ⊗ Y → R ⊗ S ⊗ P: loss, reverse derivative and optimiser composed."""
        optic = reverse(self.loss_term, self._reverse)
        s, p = len(self.state), len(self.parameters)

        def train_step(*arguments: Any) -> Any:
            lenses = self._lenses(arguments[:s], arguments[s : s + p])
            seed = Constant(self.loss_term.target.table[0], 1)()
            evaluated = [self.optimiser.get(*lens) for lens in lenses]
            loss, *gradients = optic.apply(*evaluated, *arguments[s + p :], seed)
            new = [self._put(lens, dp) for lens, dp in zip(lenses, gradients[:p], strict=True)]
            state = [array for *arrays, _ in new for array in arrays]
            results = [*state, *(parameter for *_, parameter in new)]
            slots = [*self.state, *self.parameters]
            return [loss, *(Label(f"new_{slot.name}")(a) for slot, a in zip(slots, results, strict=True))]

        return build(train_step, [slot.type for slot in self.state] + list(self.loss_term.source.table))

    @cached_property
    def step_term(self) -> Term:
        """S ⊗ P ⊗ X ⊗ Y → S ⊗ P."""
        types = list(self.train_step_term.source.table)
        return build(lambda *a: self.train_step_term.apply(*a)[1:], types)

    def _lenses(self, state: Sequence[Any], parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        width = len(self.optimiser.state)
        return [(*state[i * width : (i + 1) * width], p) for i, p in enumerate(parameters)]

    def _put(self, lens: tuple[Any, ...], gradient: Any) -> tuple[Any, ...]:
        new: tuple[Any, ...] = self.optimiser.put(*lens, gradient)
        if [array.type for array in new] != [array.type for array in lens]:
            raise TypeMismatch(
                f"the optimiser {self.optimiser.name} must return state and parameter as it got them",
                f"it got {lens} and returned {new}",
                "return (*state, parameter) with the types unchanged",
            )
        return new

    def term(self, name: str) -> Term:
        """One of the terms, by its name among TERMS."""
        term: Term = self.model if name == "model" else getattr(self, f"{name}_term")
        return term

    def program(self, has: Callable[[Op], bool] = lambda op: True) -> Program:
        """All terms as straight-line code, with definitions expanded that `has` does not name."""
        x, y = _numbered("x", self.inputs), _numbered("y", self.targets)
        dy = _numbered("d_y_hat", cotangents(self.outputs))
        p = [slot.name for slot in self.parameters]
        s = [slot.name for slot in self.state]
        S = "S × " if s else ""
        entries = [
            ("predict", [], x, "P × X → Ŷ: the model's output."),
            ("loss", [], x + y, "P × X × Y → R: how far the output is from y."),
            ("rev", [], x + dy, "P × X × Ŷ′ → P′ × X′: the reverse derivative of predict."),
            ("rev_p", [], x + dy, "P × X × Ŷ′ → P′: the part of rev that parameters need."),
            ("step", s, x + y, f"{S}P × X × Y → {S}P: one step of training."),
            ("train_step", s, x + y, f"{S}P × X × Y → R × {S}P: one step, and the loss before it."),
        ]
        expand = Expand(has)
        functions = [
            replace(
                lower(expand(self.term(name)), name, state + p + own, doc),
                takes_state=bool(state),
                takes_parameters=True,
            )
            for name, state, own, doc in entries
        ]
        return Program(self.name, tuple(functions), self.parameters, self.state)


def _numbered(name: str, types: Sequence[NdArrayType]) -> list[str]:
    return [name] if len(types) == 1 else [f"{name}_{i}" for i in range(len(types))]


def _check_takes(loss: Loss, arguments: tuple[Any, ...]) -> None:
    try:
        signature(loss).bind(*arguments)
    except TypeError:
        raise OptionError(
            "a loss must take the model's outputs, then a target for each",
            f"these are {len(arguments)} arguments and it takes {signature(loss)}",
            "write a function (y_hat, y) for one output, (y_hat_0, y_hat_1, y_0, y_1) for two",
            subject="loss",
        ) from None
