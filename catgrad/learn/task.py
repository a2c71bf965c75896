"""Learning tasks: a model, an optimiser and a loss, composed to the terms that training evaluates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from catgrad.errors import OptionError
from catgrad.functors import (
    Reverse,
    evaluation,
    factor_buffers,
    factor_parameters,
    factor_run_numbers,
    reverse,
    roll,
)
from catgrad.functors.reverse import cotangents
from catgrad.learn.checks import Loss, check_is_inference, check_is_loss, check_parts, check_takes
from catgrad.learn.functions import Opened, opened_term, united
from catgrad.learn.optimiser import Optimiser, Run
from catgrad.learn.reports.communication import Communication, communication
from catgrad.learn.reports.costs import Costs, task_costs
from catgrad.learn.reports.descriptions import described
from catgrad.learn.reports.summary import Summary, task_summary
from catgrad.learn.updates import Layer, Updates, forward, stacks_of
from catgrad.naming import numbered, require_dotted
from catgrad.programs.ports import Kind, Port, Role, check_distinct
from catgrad.programs.signatures import SIGNATURES
from catgrad.tables import Table, Tabular
from catgrad.terms.build import build
from catgrad.terms.dead_code import narrowed, selected, unused_inputs
from catgrad.terms.differentiable import inputs_with_gradient
from catgrad.terms.state import RunNumber, Slot, slot
from catgrad.terms.structural import Constant, Label
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import NdArrayType

COMPILED = (
    Kind.PREDICT,
    Kind.LOSS,
    Kind.REV,
    Kind.REV_P,
    Kind.GRADS,
    Kind.UPDATE,
    Kind.STEP,
)
"""The functions of the class that `compile_model` returns."""

EMITTED = (Kind.PREDICT, Kind.STEP)
"""The functions that `emit` emits unless others are named."""

LEARNER = (Kind.PREDICT, Kind.LOSS, Kind.GRADS, Kind.UPDATE, Kind.STEP)
"""The functions that a learner calls."""

TERMS = ("model", *COMPILED)
"""The terms of a task, by name."""


@dataclass(frozen=True, repr=False)
class Task(Tabular):
    """A model X → Ŷ, the optimiser that updates its parameters P, and the loss (Ŷ, Y) -> number.

    Y has the types of `labels`, by default those of the model's outputs. With `runtime_learning_rate`, a
    constant learning rate becomes a run number in the state S, `learning_rate`. `inference` is the model in
    evaluation mode where that is another term than `evaluation` finds. It reads parameters of the model, and
    may have other buffers and outputs; if the outputs differ in type, `loss` is that of the model with
    dropout and batch norm in evaluation. With `rolls`, stacks of equal layers are loops in all terms, and so
    are the updates of their parameters. `notes` are sentences for the readers of what is emitted. Its
    terms, where S is the optimiser's state and M the model's own (running statistics, the counter of random
    numbers), which a term leaves out if it does not read them:

        predict     M ⊗ P ⊗ X → Ŷ                  the model in evaluation
        trained     M ⊗ P ⊗ X → M ⊗ Ŷ              the model in training
        criterion   Ŷ ⊗ Y → R                      the loss alone
        loss        M ⊗ P ⊗ X ⊗ Y → R              the same
        rev         M ⊗ P ⊗ X ⊗ Ŷ′ → P′ ⊗ X′       the reverse derivative of predict
        rev_p       M ⊗ P ⊗ X ⊗ Ŷ′ → P′
        grads       S ⊗ M ⊗ P ⊗ X ⊗ Y → R ⊗ M ⊗ P′ the loss in training, and its gradient
        update      S ⊗ P ⊗ P′ → S ⊗ P
        step        S ⊗ M ⊗ P ⊗ X ⊗ Y → R ⊗ S ⊗ M ⊗ P, with the loss before the step

    Raises: OptionError if a part is no model, optimiser, loss or tuple of types, or if `inference` has other
            inputs than the model or reads a parameter that it does not have; ShapeError if the loss is not a
            scalar, DtypeError if it is not floating; TermError if an array differs between both.
    """

    model: Term
    optimiser: Optimiser
    loss: Loss
    name: str = "model"
    labels: tuple[NdArrayType, ...] | None = None
    runtime_learning_rate: bool = False
    inference: Term | None = None
    notes: tuple[str, ...] = ()
    rolls: bool = False

    def __post_init__(self) -> None:
        require_dotted(self.name)
        check_parts(self.model, self.optimiser, self.loss, self.labels)
        _ = self.buffers if self.inference is not None else ()

    @cached_property
    def _factored(self) -> tuple[tuple[Slot, ...], tuple[Slot, ...], tuple[RunNumber, ...], Term]:
        """P, the buffers and numbers of M, and the model in training from M ⊗ P ⊗ X to buffers ⊗ Ŷ."""
        parameters, opened = factor_parameters(self._layered)
        buffers, opened = factor_buffers(opened)
        numbers, opened = factor_run_numbers(opened)
        check_distinct({Role.BUFFER: (*map(slot, numbers), *buffers), Role.PARAMETER: parameters})
        return parameters, buffers, numbers, opened

    @cached_property
    def _layered(self) -> Term:
        """The model, with loops over equal layers if it `rolls`."""
        return self._rolled(self.model)

    @cached_property
    def _evaluated(self) -> Opened | None:
        """The model in evaluation mode with its own arrays, if it is a term of its own."""
        if self.inference is None:
            return None
        opened = opened_term(self._rolled(self.inference))
        check_is_inference(self.inputs, opened.inputs, self.parameters, opened.parameters)
        return opened

    @cached_property
    def _reverse(self) -> Reverse:
        return Reverse()

    @property
    def parameters(self) -> tuple[Slot, ...]:
        """P: the parameters by dotted name, in the order of every function."""
        return self._factored[0]

    @cached_property
    def buffers(self) -> tuple[Slot, ...]:
        """M: the run numbers, then the buffers, of training and of evaluation."""
        _, buffers, numbers, _ = self._factored
        own = self._evaluated
        return united([map(slot, numbers), own.numbers if own else (), buffers, own.buffers if own else ()])

    @property
    def stored(self) -> tuple[Slot, ...]:
        """P as programs and files have it."""
        return self.parameters

    @cached_property
    def without_gradient(self) -> tuple[Slot, ...]:
        """The parameters from which no path of derivatives leads to the loss; their gradient is always 0."""
        m, reached = len(self.buffers), inputs_with_gradient(self._lossy, [0])
        return tuple(slot for k, slot in enumerate(self.parameters, m) if k not in reached)

    @cached_property
    def state(self) -> tuple[Slot, ...]:
        """S: the optimiser's run numbers, then its arrays, `momentum.<parameter>` and so on."""
        return (*self.run_numbers, *self._moments)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The functions that it has; one that cannot train has `predict` alone."""
        return tuple(SIGNATURES)

    def require(self, kinds: Iterable[Kind]) -> None:
        """Raise OptionError unless it has these functions."""
        for kind in kinds:
            if kind not in self.kinds:
                raise OptionError(
                    f"a task that has {kind} must train, and so have parameters",
                    f"{self.name} has none",
                    "emit predict alone, or quantise it with keep=(its last layer,)",
                )

    @property
    def run_numbers(self) -> tuple[Slot, ...]:
        """The scalars of S that all parameters share, such as the number of steps."""
        return tuple(map(slot, self._updated[0]))

    @cached_property
    def moments(self) -> Mapping[Slot, tuple[Slot, ...]]:
        """The optimiser's arrays of each parameter."""
        every = zip(self.parameters, self._optimisers, strict=True)
        return {parameter: tuple(optimiser.slots(parameter)) for parameter, optimiser in every}

    @property
    def inputs(self) -> tuple[NdArrayType, ...]:
        """X."""
        return tuple(self.model.source.table)

    @property
    def outputs(self) -> tuple[NdArrayType, ...]:
        """Ŷ, in evaluation."""
        return tuple((self.model if self.inference is None else self.inference).target.table)

    @property
    def has_same_outputs(self) -> bool:
        """Tell whether Ŷ has the same types in training and in evaluation."""
        return self.outputs == tuple(self.model.target.table)

    @property
    def _trained_name(self) -> str:
        return "y_hat" if self.has_same_outputs else "y_trained"

    @property
    def targets(self) -> tuple[NdArrayType, ...]:
        """Y."""
        return tuple(self.model.target.table if self.labels is None else self.labels)

    @cached_property
    def trained_term(self) -> Term:
        """M ⊗ P ⊗ X → M ⊗ Ŷ, with its arguments and results labelled."""
        parameters, buffers, numbers, opened = self._factored
        slots = (*self.buffers, *parameters)

        def trained(*arguments: Var) -> list[Var]:
            given = {s.name: a for s, a in zip(slots, arguments, strict=False)}
            read = [*(n.name for n in numbers), *(s.name for s in (*buffers, *parameters))]
            values = opened.apply(*map(given.__getitem__, read), *_labelled("x", arguments[len(slots) :]))
            new = given | {n.name: given[n.name] + 1 for n in numbers if n.counts}
            new |= {s.name: value for s, value in zip(buffers, values, strict=False)}
            return [
                *(new[s.name] for s in self.buffers),
                *_labelled(self._trained_name, values[len(buffers) :]),
            ]

        return build(trained, [s.type for s in slots] + list(self.inputs))

    @cached_property
    def predict_term(self) -> Term:
        """M ⊗ P ⊗ X → Ŷ, in evaluation mode."""
        own = self._evaluated
        if own is None:
            return self._trained_in_evaluation
        slots = (*self.buffers, *self.parameters)

        def predict(*arguments: Var) -> list[Var]:
            given = {s.name: a for s, a in zip(slots, arguments, strict=False)}
            read = (given[s.name] for s in (*own.numbers, *own.buffers, *own.parameters))
            values = own.term.apply(*read, *_labelled("x", arguments[len(slots) :]))
            return _labelled("y_hat", values[len(own.buffers) :])

        return build(predict, [s.type for s in slots] + list(self.inputs))

    @cached_property
    def _trained_in_evaluation(self) -> Term:
        """M ⊗ P ⊗ X → Ŷ, the graph of training in evaluation mode."""
        return selected(evaluation(self.trained_term), slice(len(self.buffers), None))

    @cached_property
    def criterion_term(self) -> Term:
        """Ŷ ⊗ Y → R."""
        return self._with_loss(build(lambda *y_hat: list(y_hat), list(self.model.target.table)))

    @cached_property
    def loss_term(self) -> Term:
        """M ⊗ P ⊗ X ⊗ Y → R."""
        return self._with_loss(self.predict_term if self.has_same_outputs else self._trained_in_evaluation)

    @cached_property
    def rev_term(self) -> Term:
        """M ⊗ P ⊗ X ⊗ Ŷ′ → P′ ⊗ X′."""
        optic, kept = reverse(self.predict_term, self._reverse), len(self._cotangents_of_buffers)
        return selected(optic, slice(len(self.outputs) + kept, None))

    @cached_property
    def rev_p_term(self) -> Term:
        """M ⊗ P ⊗ X ⊗ Ŷ′ → P′."""
        return selected(self.rev_term, slice(len(self.parameters)))

    @cached_property
    def _lossy(self) -> Term:
        """M ⊗ P ⊗ X ⊗ Y → R ⊗ M, in training."""
        return self._with_loss(self.trained_term)

    @cached_property
    def grads_term(self) -> Term:
        """S ⊗ M ⊗ P ⊗ X ⊗ Y → R ⊗ M ⊗ P′, at the parameters to which the optimiser maps S ⊗ P."""
        lossy, kept = self._lossy, self._cotangents_of_buffers
        optic = reverse(lossy, self._reverse)
        s, m, p = len(self.state), len(self.buffers), len(self.parameters)

        def grads(*arguments: Var) -> list[Var]:
            state, buffers, parameters = arguments[:s], arguments[s : s + m], arguments[s + m : s + m + p]
            at = self._at(state[len(self.run_numbers) :], parameters)
            # The loss does not depend on a buffer's new value, so its cotangent is 0.
            seeds = [Constant(lossy.target.table[0], 1)(), *(Constant(type, 0)() for type in kept)]
            values = optic.apply(*buffers, *at, *arguments[s + m + p :], *seeds)
            return [*values[: 1 + m], *values[1 + m + len(kept) :][:p]]

        return build(grads, [*(slot.type for slot in self.state), *lossy.source.table])

    @cached_property
    def _updated(self) -> tuple[tuple[RunNumber, ...], Term]:
        """The numbers of S, and from them, its arrays, P and P′ to the new arrays and P."""
        p = [slot.type for slot in self.parameters]
        kept = (*self._moments, *self.parameters)
        count, names = len(kept), [*(s.name for s in kept), *(f"d_{slot.name}" for slot in self.parameters)]
        stacks = self._stacks

        def update(*arguments: Var) -> list[Var]:
            prepare = self.optimiser.prepare
            arrays = zip(self._lenses(arguments[:count]), prepare(list(arguments[count:])), strict=True)
            named = zip(self._lenses(names[:count]), names[count:], strict=True)
            updates = Updates(
                Run(self.runtime_learning_rate),
                self._optimisers,
                [(*lens, dp) for lens, dp in arrays],
                [(*lens, name if prepare is list else "") for lens, name in named],
            )
            new = updates.apply(stacks)
            return [*(array for *arrays, _ in new for array in arrays), *(last for *_, last in new)]

        term = build(update, [*(slot.type for slot in self._moments), *p, *p])
        # Without loops, gradients are used where they are computed, one after the other.
        return factor_run_numbers(roll(term, names) if stacks else term)

    @cached_property
    def update_term(self) -> Term:
        """S ⊗ P ⊗ P′ → S ⊗ P."""
        numbers, updated = self._updated
        slots = (*self.state, *self.parameters)

        def update(*arguments: Var) -> list[Var]:
            return [*_counted(numbers, arguments), *updated.apply(*arguments)]

        return build(update, [*(s.type for s in slots), *(p.type for p in self.parameters)])

    @cached_property
    def step_term(self) -> Term:
        """S ⊗ M ⊗ P ⊗ X ⊗ Y → R ⊗ S ⊗ M ⊗ P: loss, reverse derivative and optimiser composed."""
        s, m, p = len(self.state), len(self.buffers), len(self.parameters)

        def step(*arguments: Var) -> list[Var]:
            loss, *rest = self.grads_term.apply(*arguments)
            named = [Label(f"d_{s.name}")(dp) for s, dp in zip(self.parameters, rest[m:], strict=True)]
            new = self.update_term.apply(*arguments[:s], *arguments[s + m : s + m + p], *named)
            return [loss, *new[:s], *rest[:m], *new[s:]]

        return build(step, list(self.grads_term.source.table))

    def mapped(self, functor: Callable[[Term], Term]) -> Self:
        """Apply a functor to the model, in training and in evaluation."""
        inference = None if self.inference is None else functor(self.inference)
        return replace(self, model=functor(self.model), inference=inference)

    def summary(self, depth: int | None = None, **sizes: int) -> Summary:
        """Summarise layers, shapes, parameters, operations and bytes: `catgrad.learn.reports.summary`."""
        return task_summary(self, depth, **sizes)

    def cost(self, **sizes: int) -> Costs:
        """Count operations, bytes moved and communicated of each function: `catgrad.learn.reports.costs`."""
        return task_costs(self, **sizes)

    def communication(self, devices: int, **sizes: int) -> Communication:
        """Count bytes that each of some devices sends in a step: `catgrad.learn.reports.communication`."""
        return communication(self, devices, **sizes)

    @property
    def table(self) -> Table:
        """The types of the model, the arrays, the optimiser and the loss."""
        return described(self)

    def term(self, name: str) -> Term:
        """Return one of the terms, by its name among TERMS."""
        return self.model if name == "model" else self.entry(Kind(name))[0]

    def entry(self, kind: Kind) -> tuple[Term, tuple[Port, ...], tuple[Port, ...]]:
        """Return one of the functions: its term, and its ports of arguments and results. Raises: `require`"""
        self.require((kind,))
        term: Term = getattr(self, f"{kind}_term")
        taken, returned = SIGNATURES[kind]
        inputs = [port for role in taken for port in self._ports_of(kind, role)]
        ignored = unused_inputs(term)
        needed = {port.role for k, port in enumerate(inputs) if k not in ignored}
        optional = {Role.STATE, Role.BUFFER}.difference(needed, returned)
        kept = [port.role not in optional for port in inputs]
        outputs = tuple(port for role in returned for port in self._ports_of(kind, role))
        if not all(kept):
            term = narrowed(term, kept)
        return term, tuple(port for port, is_kept in zip(inputs, kept, strict=True) if is_kept), outputs

    def ports(self, role: Role) -> tuple[Port, ...]:
        """List all arrays of a role."""
        if role in self._ports:
            return self._ports[role]
        if role is Role.LOSS:
            return (Port(role, "loss", self.criterion_term.target.table[0]),)
        name, types = {
            Role.INPUT: ("x", self.inputs),
            Role.OUTPUT: ("y_hat", self.outputs),
            Role.TARGET: ("y", self.targets),
            Role.INPUT_COTANGENT: ("d_x", cotangents(self.inputs)),
            Role.OUTPUT_COTANGENT: ("d_y_hat", cotangents(self.outputs)),
        }[role]
        return tuple(Port(role, n, type) for n, type in zip(numbered(name, len(types)), types, strict=True))

    @cached_property
    def _ports(self) -> Mapping[Role, tuple[Port, ...]]:
        tables = {Role.STATE: self.state, Role.BUFFER: self.buffers, Role.PARAMETER: self.parameters}
        tables[Role.GRADIENT] = self.parameters
        return {role: tuple(Port(role, s.name, s.type) for s in slots) for role, slots in tables.items()}

    def _ports_of(self, kind: Kind, role: Role) -> tuple[Port, ...]:
        """List the arrays of a role in a function; Ŷ is that of training in those that train with it."""
        if role is not Role.OUTPUT or kind not in (Kind.TRAINED, Kind.CRITERION):
            return self.ports(role)
        types = self.model.target.table
        names = numbered(self._trained_name, len(types))
        return tuple(Port(role, n, type) for n, type in zip(names, types, strict=True))

    @cached_property
    def _optimisers(self) -> list[Optimiser]:
        return [self.optimiser.of(parameter) for parameter in self.parameters]

    @property
    def _moments(self) -> tuple[Slot, ...]:
        """The optimiser's arrays, parameter by parameter."""
        return tuple(array for arrays in self.moments.values() for array in arrays)

    @property
    def _cotangents_of_buffers(self) -> tuple[NdArrayType, ...]:
        return cotangents(tuple(slot.type for slot in self.buffers))

    def _rolled(self, term: Term) -> Term:
        return roll(term) if self.rolls else term

    def _lenses(self, arrays: Sequence[Any]) -> list[tuple[Any, ...]]:
        """S ⊗ P, parameter by parameter."""
        p = len(self.parameters)
        state = iter(arrays[: len(arrays) - p])
        return [
            (*(next(state) for _ in optimiser.state), parameter)
            for optimiser, parameter in zip(self._optimisers, arrays[len(arrays) - p :], strict=True)
        ]

    def _at(self, moments: Sequence[Var], parameters: Sequence[Var]) -> list[Var]:
        """Return the parameters at which gradients are computed, by the forward maps of the optimisers."""
        if all(optimiser.get is Optimiser.get for optimiser in self._optimisers):
            return list(parameters)
        lenses, names = (
            self._lenses(each)
            for each in ((*moments, *parameters), [s.name for s in (*self._moments, *self.parameters)])
        )
        maps = Updates(Run(), self._optimisers, lenses, names, forward)
        return [at for (at,) in maps.apply(self._stacks)]

    @cached_property
    def _stacks(self) -> list[list[Layer]]:
        return stacks_of(self._layered, self.parameters) if self.rolls else []

    def _with_loss(self, term: Term) -> Term:
        """M ⊗ P ⊗ X → A ⊗ Ŷ as M ⊗ P ⊗ X ⊗ Y → R ⊗ A."""
        given, kept = len(term.source), len(term.target) - len(self.model.target)

        def lossy(*arguments: Var) -> list[Var]:
            values, y = term.apply(*arguments[:given]), arguments[given:]
            check_takes(self.loss, (*values[kept:], *y))
            loss = self.loss(*values[kept:], *y)
            check_is_loss(loss)
            return [Label("loss")(loss), *values[:kept]]

        return build(lossy, [*term.source.table, *self.targets])


def _labelled(name: str, values: Sequence[Var]) -> list[Var]:
    return [Label(n)(value) for n, value in zip(numbered(name, len(values)), values, strict=True)]


def _counted(numbers: Sequence[RunNumber], values: Sequence[Var]) -> list[Var]:
    """Increment the run numbers that count steps."""
    return [value + 1 if n.counts else value for n, value in zip(numbers, values, strict=False)]
