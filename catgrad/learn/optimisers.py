"""Optimisers: lenses with state, one for each parameter.

Forward, S ⊗ P → P gives the parameter at which the model is evaluated; back, S ⊗ P ⊗ P′ → S ⊗ P
takes the gradient found there and gives the new state and parameter. Each has the numbers of
`torch.optim` where it is there.

Source: Cruttwell et al. 2022, Categorical foundations of gradient-based learning
(arXiv:2103.01931), section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.types import NdArrayType


@dataclass(frozen=True)
class StateArray:
    """One array of the state, at first 0: of the parameter's type, or a number of its dtype."""

    name: str
    is_number: bool = False

    def type(self, parameter: NdArrayType) -> NdArrayType:
        """Its type, for a parameter of this type."""
        return parameter.with_shape(()) if self.is_number else parameter


@dataclass(frozen=True)
class Optimiser:
    """A lens with state. `state` lists the arrays of S for one parameter.

    `get(*s, p)` is the forward map; `put(*s, p, dp)` returns `(*s, p)`. Both are functions on
    variables.
    """

    name: str
    put: Callable[..., Any]
    state: tuple[StateArray, ...] = ()
    get: Callable[..., Any] = lambda *state_and_parameter: state_and_parameter[-1]


STEP = StateArray("step", is_number=True)


def sgd(
    learning_rate: float, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0
) -> Optimiser:
    """Gradient descent: p ← p − η · g with g = dp + λ p, or with momentum v ← μ v + g, p ← p − η v.

    With `nesterov`, p ← p − η (g + μ v).

    Units:  η > 0; 0 ≤ μ < 1; λ ≥ 0
    State:  `momentum`, v, only where μ > 0, as in torch.optim.SGD without dampening
    Raises: OptionError for values outside their range
    Source: Polyak 1964; Sutskever et al. 2013, equation 1
    """
    eta, mu, decay = _rates(learning_rate, momentum=momentum), float(momentum), _decay(weight_decay)
    if nesterov and not mu:
        raise OptionError("nesterov must have momentum", f"it is {mu}", "give momentum=0.9")

    def descend(p: Any, dp: Any) -> Any:
        return (p - eta * decayed(p, dp, decay),)

    def descend_with_momentum(velocity: Any, p: Any, dp: Any) -> Any:
        gradient = decayed(p, dp, decay)
        velocity = mu * velocity + gradient
        return velocity, p - eta * (gradient + mu * velocity if nesterov else velocity)

    if not mu:
        return Optimiser("sgd", descend)
    return Optimiser("sgd", descend_with_momentum, (StateArray("momentum"),))


def adam(
    learning_rate: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> Optimiser:
    """Adam: m ← β₁ m + (1−β₁) g, v ← β₂ v + (1−β₂) g², p ← p − η m̂ / (√v̂ + ε), with g = dp + λ p.

    m̂ = m / (1−β₁ᵗ) and v̂ = v / (1−β₂ᵗ) at step t.

    Units:  η > 0; 0 ≤ β < 1; λ ≥ 0
    State:  `step` t, `exp_avg` m and `exp_avg_sq` v, as in torch.optim.Adam
    Raises: OptionError for values outside their range
    Source: Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1
    """
    eta = _rates(learning_rate, beta1=beta1, beta2=beta2)
    decay = _decay(weight_decay)

    def put(step: Any, m: Any, v: Any, p: Any, dp: Any) -> Any:
        step, m, v, change = _adam_change(step, m, v, decayed(p, dp, decay), eta, beta1, beta2, epsilon)
        return step, m, v, p - change

    return Optimiser("adam", put, (STEP, StateArray("exp_avg"), StateArray("exp_avg_sq")))


def adamw(
    learning_rate: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 1e-2,
) -> Optimiser:
    """Adam with decoupled weight decay: p ← (1 − η λ) p − η m̂ / (√v̂ + ε), with g = dp.

    Units:  η > 0; 0 ≤ β < 1; λ ≥ 0
    State:  `step`, `exp_avg` and `exp_avg_sq`, as in torch.optim.AdamW
    Raises: OptionError for values outside their range
    Source: Loshchilov and Hutter 2019 (arXiv:1711.05101), algorithm 2
    """
    eta = _rates(learning_rate, beta1=beta1, beta2=beta2)
    decay = _decay(weight_decay)

    def put(step: Any, m: Any, v: Any, p: Any, dp: Any) -> Any:
        step, m, v, change = _adam_change(step, m, v, dp, eta, beta1, beta2, epsilon)
        return step, m, v, (1 - eta * decay) * p - change

    return Optimiser("adamw", put, (STEP, StateArray("exp_avg"), StateArray("exp_avg_sq")))


def rmsprop(
    learning_rate: float = 1e-2, alpha: float = 0.99, epsilon: float = 1e-8, weight_decay: float = 0.0
) -> Optimiser:
    """RMSprop: v ← α v + (1−α) g², p ← p − η g / (√v + ε), with g = dp + λ p.

    Units:  η > 0; 0 ≤ α < 1; λ ≥ 0
    State:  `square_avg` v, as in torch.optim.RMSprop
    Raises: OptionError for values outside their range
    Source: Tieleman and Hinton 2012, lecture 6.5
    """
    eta, decay = _rates(learning_rate, alpha=alpha), _decay(weight_decay)

    def put(v: Any, p: Any, dp: Any) -> Any:
        gradient = decayed(p, dp, decay)
        v = alpha * v + (1 - alpha) * ops.square(gradient)
        return v, p - eta * (gradient / (ops.sqrt(v) + epsilon))

    return Optimiser("rmsprop", put, (StateArray("square_avg"),))


def adagrad(learning_rate: float = 1e-2, epsilon: float = 1e-10, weight_decay: float = 0.0) -> Optimiser:
    """Adagrad: v ← v + g², p ← p − η g / (√v + ε), with g = dp + λ p.

    Units:  η > 0; λ ≥ 0
    State:  `sum` v, as in torch.optim.Adagrad
    Raises: OptionError for values outside their range
    Source: Duchi et al. 2011, figure 1
    """
    eta, decay = _rates(learning_rate), _decay(weight_decay)

    def put(v: Any, p: Any, dp: Any) -> Any:
        gradient = decayed(p, dp, decay)
        v = v + ops.square(gradient)
        return v, p - eta * (gradient / (ops.sqrt(v) + epsilon))

    return Optimiser("adagrad", put, (StateArray("sum"),))


def lion(
    learning_rate: float = 1e-4, beta1: float = 0.9, beta2: float = 0.99, weight_decay: float = 0.0
) -> Optimiser:
    """Lion: p ← (1 − η λ) p − η sign(β₁ m + (1−β₁) dp), m ← β₂ m + (1−β₂) dp.

    Units:  η > 0; 0 ≤ β < 1; λ ≥ 0
    State:  `exp_avg` m
    Raises: OptionError for values outside their range
    Source: Chen et al. 2023 (arXiv:2302.06675), algorithm 2
    """
    eta = _rates(learning_rate, beta1=beta1, beta2=beta2)
    decay = _decay(weight_decay)

    def put(m: Any, p: Any, dp: Any) -> Any:
        direction = ops.sign(beta1 * m + (1 - beta1) * dp)
        return beta2 * m + (1 - beta2) * dp, (1 - eta * decay) * p - eta * direction

    return Optimiser("lion", put, (StateArray("exp_avg"),))


def decayed(p: Any, dp: Any, decay: float) -> Any:
    """The gradient of the loss with decay · |p|² / 2 added to it."""
    return dp + decay * p if decay else dp


def _adam_change(
    step: Any, m: Any, v: Any, dp: Any, eta: float, beta1: float, beta2: float, epsilon: float
) -> tuple[Any, Any, Any, Any]:
    step = step + 1
    m = beta1 * m + (1 - beta1) * dp
    v = beta2 * v + (1 - beta2) * ops.square(dp)
    rate = eta / (1 - beta1**step)
    correction = ops.sqrt(1 - beta2**step)
    spread = ops.sqrt(v) / ops.broadcast(correction, v.shape) + epsilon
    return step, m, v, ops.broadcast(rate, m.shape) * (m / spread)


def _rates(learning_rate: float, **decays: float) -> float:
    """The learning rate, after a check that it is positive and that the others lie in [0, 1)."""
    for name, value in decays.items():
        if not 0 <= _number(value, name) < 1:
            raise OptionError(f"{name} must lie in [0, 1)", f"it is {value}", "try 0.9")
    if not _number(learning_rate, "learning rate") > 0:
        raise OptionError("a learning rate must be positive", f"it is {learning_rate}", "try 0.01")
    return float(learning_rate)


def _decay(value: float) -> float:
    if not _number(value, "weight decay") >= 0:
        raise OptionError("weight decay must be at least 0", f"it is {value}", "try 0.01")
    return float(value)


def _number(value: float, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise OptionError(
            f"the {name} must be a number", f"it is {value!r}", "write for example 0.1"
        ) from None
