"""Optimisers as lenses with state, and combinators: grouped, frozen, clipped.

Forward, S ⊗ P → P gives the parameter at which the model is evaluated; back, S ⊗ P ⊗ P′ → S ⊗ P
takes its gradient and returns the new state and parameter.

Source: Cruttwell et al. 2022, Categorical foundations of gradient-based learning
(arXiv:2103.01931), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar, cast

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.initialisers import ZEROS, Initialiser
from catgrad.learn.options import number
from catgrad.learn.schedules import RATE, Rate, Schedule, adjustable, value_now
from catgrad.terms.op import BUILDER
from catgrad.terms.state import LEARNING_RATE, STEP, Slot
from catgrad.terms.structural import Constant, Label
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

Gradients = Callable[[Sequence[Var]], Sequence[Var]]
T = TypeVar("T")


class Run:
    """The numbers that all parameters' updates share, each computed once.

    With `runtime_rates`, constant learning rates become run numbers. The updates of some parameters may have
    begun `behind` steps later than those of the `whole` run.
    """

    def __init__(self, runtime_rates: bool = False, behind: int = 0, whole: Run | None = None) -> None:
        self._known: dict[Hashable, Any] = {}
        self._adjustable: dict[float, Schedule] | None = {} if runtime_rates else None
        self._behind, self._whole, self._builder = behind, whole, BUILDER.get()

    def anew(self) -> Run:
        """Return the numbers in another construction."""
        return Run(self._adjustable is not None)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return compute(), cached by key, outside of loops over layers."""
        if key not in self._known:
            token = BUILDER.set(self._builder)
            try:
                self._known[key] = compute()
            finally:
                BUILDER.reset(token)
        return cast(T, self._known[key])

    def number(self, name: str, meaning: Hashable, dtype: Dtype, compute: Callable[[], Any]) -> Var:
        """Return compute(), a float64 scalar of the term, rounded to a dtype and cached by its meaning."""
        return self.once((name, meaning, dtype), lambda: Label(name)(ops.cast(compute(), dtype)))

    def count(self) -> Var:
        """The number of this update of a parameter, from 1, as a float64 scalar of the term."""
        first = 1 - self._behind
        return self.once("count", lambda: Label("count")(ops.cast(STEP(), Dtype.float64) + first))

    def is_first(self) -> Var:
        """The truth value of this being the first update of a parameter, as a scalar of the term."""
        return self.once("first", lambda: STEP() == self._behind)

    def later(self, behind: int) -> Run:
        """The numbers of parameters whose updates began `behind` steps later; their rates are the same."""
        return self.once(("later", behind), lambda: Run(behind=behind, whole=self))

    def rate(self, rate: Rate, dtype: Dtype) -> Var | float:
        """The learning rate now: a number, or one of the term."""
        if self._whole is not None:
            return self._whole.rate(rate, dtype)
        if self._adjustable is not None and not isinstance(rate, Schedule):
            place = len(self._adjustable) + 1
            name = LEARNING_RATE if place == 1 else f"{LEARNING_RATE}_{place}"
            rate = self._adjustable.setdefault(rate, adjustable(rate, name))
        return self.setting("rate", rate if isinstance(rate, Schedule) else number(RATE, rate), dtype)

    def setting(self, name: str, value: float | Schedule, dtype: Dtype) -> Var | float:
        """A hyperparameter now: a number, or one of the term if it is a schedule."""
        if self._whole is not None:
            return self._whole.setting(name, value, dtype)
        return self.once((name, value, dtype), lambda: value_now(name, value, dtype))


def _same(type: NdArrayType) -> NdArrayType:
    return type


@dataclass(frozen=True)
class StateArray:
    """An array of the state for each parameter: its name, initial value, and type from the parameter's."""

    name: str
    initial: Initialiser = ZEROS
    type: Callable[[NdArrayType], NdArrayType] = _same


@dataclass(frozen=True)
class Optimiser:
    """A lens with state for each parameter; a name in `state` is an array like the parameter, initially 0.

    `get(*s, p)` is the forward map; `put(run, *s, p, dp)` returns `(*s, p)`. Both are functions on
    variables. `prepare` transforms all gradients together before that; `choose` returns the
    optimiser of one parameter in its place, if it is set. `settings` are its hyperparameters.
    """

    name: str
    put: Callable[..., Sequence[Var]]
    state: tuple[str | StateArray, ...] = ()
    get: Callable[..., Var] = lambda *state_and_parameter: state_and_parameter[-1]
    prepare: Gradients = field(default=list)
    choose: Callable[[Slot], Optimiser] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def of(self, parameter: Slot) -> Optimiser:
        """Return the optimiser of one parameter."""
        return self if self.choose is None else self.choose(parameter).of(parameter)

    @property
    def is_constant(self) -> bool:
        """Tell whether it is `frozen()`."""
        return self.put is _same_parameter

    def is_frozen(self, parameter: Slot) -> bool:
        """Tell whether the optimiser of a parameter is `frozen()`."""
        return self.of(parameter).is_constant

    def slots(self, parameter: Slot) -> tuple[Slot, ...]:
        """Return the slots of the state of one parameter, `momentum.<parameter>` and so on."""
        arrays = (StateArray(array) if isinstance(array, str) else array for array in self.state)
        return tuple(Slot(f"{a.name}.{parameter.name}", a.type(parameter.type), a.initial) for a in arrays)


def require_optimiser(value: object) -> Optimiser:
    """Return the value. Raises: OptionError unless it is an optimiser."""
    if not isinstance(value, Optimiser):
        raise OptionError(
            "an optimiser must be an instance of Optimiser",
            f"it is {value!r}",
            "write for example adamw(1e-3)",
        )
    return value


def grouped(choose: Callable[[Slot], Optimiser]) -> Optimiser:
    """Parameter groups: an optimiser for each parameter, selected by name, type or rank.

    `grouped(lambda p: adamw(1e-3) if p.type.rank > 1 else adamw(1e-3, weight_decay=0))` applies weight
    decay to matrices only.

    Raises: OptionError if it returns no optimiser for a parameter, or a clipped one
    """

    def chosen(parameter: Slot) -> Optimiser:
        found = choose(parameter)
        if not isinstance(found, Optimiser):
            raise OptionError(
                "the function of grouped must return an optimiser for each parameter",
                f"for {parameter.name} it returns {found!r}",
                "return for example sgd(0.01), or frozen()",
            )
        if found.prepare is not list:
            raise OptionError(
                "clipped must wrap grouped, because it scales all gradients together",
                f"inside it wraps {found.name}, for {parameter.name}",
                "write clipped(grouped(...), 1.0)",
            )
        return found

    return Optimiser("grouped", _never, choose=chosen)


def _same_parameter(run: Run, p: Var, dp: Var) -> tuple[Var]:
    return (p,)


def frozen() -> Optimiser:
    """Constant parameters: p ← p."""
    return Optimiser("frozen", _same_parameter)


def freezing(optimiser: Optimiser, parameters: Collection[Slot]) -> Optimiser:
    """The optimiser for all but these parameters, which stay constant."""
    names = {parameter.name for parameter in parameters}
    return replace(optimiser, choose=lambda slot: frozen() if slot.name in names else optimiser.of(slot))


def clipped(optimiser: Optimiser, norm: float) -> Optimiser:
    """The optimiser on gradients scaled down together to a global norm: g ← g · min(1, c / (‖g‖ + 10⁻⁶)).

    ‖g‖ is the Euclidean norm of all gradients as one vector, as in torch.nn.utils.clip_grad_norm_;
    those of frozen parameters are among them.

    Units:  c > 0
    Raises: OptionError unless c is positive
    Source: Pascanu et al. 2013 (arXiv:1211.5063), algorithm 1
    """
    require_optimiser(optimiser)
    if not (isinstance(norm, (int, float)) and not isinstance(norm, bool) and norm > 0):
        raise OptionError("the norm to clip to must be a positive number", f"it is {norm!r}", "try 1.0")

    def clip(gradients: Sequence[Var]) -> Sequence[Var]:
        if not gradients:
            return []
        # One sum after the other, in the order of the parameters, so that it is the same everywhere;
        # in 32 bits at least, for the square of a norm of 256 is beyond float16.
        square = Label("squared_norm")
        total = square(sum_of_squares(gradients[0]))
        for gradient in gradients[1:]:
            total = square(total + ops.cast(sum_of_squares(gradient), total.dtype))
        ratio = norm / (Label("norm")(ops.sqrt(total)) + 1e-6)
        scale = Label("scale")(ops.minimum(ratio, Constant(NdArrayType((), total.dtype), 1)()))
        return optimiser.prepare([g * ops.broadcast(ops.cast(scale, g.dtype), g.shape) for g in gradients])

    return replace(optimiser, name=f"clipped {optimiser.name}", prepare=clip)


def begun_later(optimiser: Optimiser, behind: int) -> Optimiser:
    """The optimiser of parameters whose updates began `behind` steps later: their count is lower by that."""

    def put(run: Run, *state_p_dp: Var) -> Sequence[Var]:
        return optimiser.put(run.later(behind), *state_p_dp)

    choose = optimiser.choose
    later = None if choose is None else lambda parameter: begun_later(choose(parameter), behind)
    return replace(optimiser, put=put, choose=later)


def sum_of_squares(x: Var) -> Var:
    """Compute Σ x² in 32 bits at least."""
    wide = ops.cast(x, x.dtype.wide)
    return ops.contract(wide, wide, x.type.rank)


def scaled(factor: Var | float, x: Var) -> Var:
    """Factor · x, for a number or a scalar of the term."""
    return factor * x if isinstance(factor, float) else ops.broadcast(factor, x.shape) * x


def _never(*_: object) -> NoReturn:
    raise OptionError("grouped must be resolved to the optimiser of a parameter", "it was not", "use .of")


__all__ = [
    "Optimiser",
    "Rate",
    "Run",
    "Schedule",
    "StateArray",
    "clipped",
    "freezing",
    "frozen",
    "grouped",
    "scaled",
]
