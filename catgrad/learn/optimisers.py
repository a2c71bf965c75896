"""Optimisers: lenses with state, one for each parameter.

Forward, S ⊗ P → P gives the parameter at which the model is evaluated; back, S ⊗ P ⊗ P′ → S ⊗ P
takes the gradient found there and gives the new state and parameter.

Source: Cruttwell et al. 2022, Categorical foundations of gradient-based learning
(arXiv:2103.01931), section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catgrad.errors import OptionError


@dataclass(frozen=True)
class Optimiser:
    """A lens with state. `state` names the arrays of S, each of the parameter's type, at first 0.

    `get(*s, p)` is the forward map; `put(*s, p, dp)` returns `(*s, p)`. Both are functions on
    variables.
    """

    name: str
    put: Callable[..., Any]
    state: tuple[str, ...] = ()
    get: Callable[..., Any] = lambda *state_and_parameter: state_and_parameter[-1]


def sgd(learning_rate: float, momentum: float = 0.0) -> Optimiser:
    """Gradient descent: p ← p − η · dp, or with momentum v ← μ · v + dp, p ← p − η · v.

    Units:  η > 0; 0 ≤ μ < 1
    State:  v, only with momentum, as in torch.optim.SGD without dampening
    Raises: OptionError for values outside their range
    Source: Polyak 1964; Sutskever et al. 2013, equation 1
    """
    learning_rate, momentum = _number(learning_rate, "learning rate"), _number(momentum, "momentum")
    if not learning_rate > 0:
        raise OptionError("a learning rate must be positive", f"it is {learning_rate}", "try 0.01")
    if not 0 <= momentum < 1:
        raise OptionError("momentum must lie in [0, 1)", f"it is {momentum}", "try 0.9")

    def descend(p: Any, dp: Any) -> Any:
        return (p - learning_rate * dp,)

    def descend_with_momentum(velocity: Any, p: Any, dp: Any) -> Any:
        velocity = momentum * velocity + dp
        return velocity, p - learning_rate * velocity

    if momentum == 0:
        return Optimiser("sgd", descend)
    return Optimiser("sgd", descend_with_momentum, state=("momentum",))


def _number(value: float, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise OptionError(
            f"the {name} must be a number", f"it is {value!r}", "write for example 0.1"
        ) from None
