"""Checks of the arguments of layers, by their annotations."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import BoundArguments, Signature, signature
from typing import Any, ParamSpec, TypeVar

import numpy as np

from catgrad.errors import OptionError, nearest
from catgrad.terms.op import Op
from catgrad.terms.term import Term, require_term
from catgrad.types import NdArrayType

P = ParamSpec("P")
R = TypeVar("R")

ACTIVATIONS = (
    "elu", "gelu", "identity", "leaky_relu", "log_softmax", "relu", "sigmoid", "silu", "softmax",
    "softplus", "tanh",
)  # fmt: skip
"""Names of layers without parameters, for suggestions."""


def checked(layer: Callable[P, R]) -> Callable[P, R]:
    """Return a layer that raises OptionError for arguments of other types, names or numbers than it takes."""
    call = signature(layer)
    kinds = {name: each.annotation.removesuffix(" | None") for name, each in call.parameters.items()}

    @wraps(layer)
    def refusing(*arguments: P.args, **named: P.kwargs) -> R:
        given = _bound(call, call.bind_partial, layer.__name__, arguments, named)
        for name, value in given.items():
            for each in value if name == "layers" else [value]:
                check = CHECKS.get(kinds[name])
                if check is not None and each is not None:
                    check(f"the argument {name}", each, layer.__name__)
        _bound(call, call.bind, layer.__name__, arguments, named)
        return layer(*arguments, **named)

    return refusing


def _bound(
    call: Signature,
    bind: Callable[..., BoundArguments],
    layer: str,
    arguments: tuple[object, ...],
    named: dict[str, object],
) -> dict[str, Any]:
    """Return arguments by name. Raises: OptionError unless the layer takes them"""
    try:
        return bind(*arguments, **named).arguments
    except TypeError as error:
        raise OptionError(
            f"it must be called as {layer}({', '.join(call.parameters)})",
            f"it is not: {error}",
            "correct the call",
            subject=layer,
        ) from None


def require_type(must: str, value: Any, layer: str = "") -> None:
    """Raise OptionError unless a value is an array type."""
    if isinstance(value, NdArrayType):
        return
    is_shape = isinstance(value, (tuple, list)) and all(isinstance(size, int) for size in value)
    shape = (value,) if isinstance(value, int) else tuple(value) if is_shape else (4,)
    written = f"write NdArrayType({shape})"
    if must.endswith(" A"):
        features = f"then the types of the features, NdArrayType({shape})"
        written = f'write NdArrayType((Dim("batch"),)) for the batch axes, {features}'
    raise OptionError(f"{must} must be an array type", f"it is {value!r}", written, subject=layer)


def _require_activation(must: str, value: Any, layer: str) -> None:
    if callable(value) and not isinstance(value, (Op, Term, np.ufunc)):
        return
    hint = "write activation=layers.pointwise(...) of a function on one variable"
    if not callable(value):
        near = nearest(value, ACTIVATIONS).partition("'")[2].partition("'")[0]
        hint = f"write activation=layers.{near or 'relu'}"
    raise OptionError(f"{must} must be a layer without parameters", f"it is {value!r}", hint, subject=layer)


CHECKS: dict[str, Callable[[str, Any, str], None]] = {
    "NdArrayType": require_type,
    "Activation": _require_activation,
    "Term": require_term,
}
"""The check of an argument, by its annotation."""
