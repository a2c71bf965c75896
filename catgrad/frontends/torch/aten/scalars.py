"""Scalars along an axis: PyTorch takes one for a vector of one element."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.registry import F
from catgrad.terms.var import Var


def takes_scalars(like: int = 0) -> Callable[[F], F]:
    """Extend a function along an axis to scalars; its results are scalars if the argument `like` is."""

    def extend(meaning: F) -> F:
        @functools.wraps(meaning)
        def extended(*args: Any, **named: Any) -> Any:
            vectors = {name: as_vector(x) for name, x in named.items()}
            results = meaning(*map(as_vector, args), **vectors)
            if not _is_scalar(args[like]):
                return results
            return tuple(map(ops.reshape, results)) if isinstance(results, tuple) else ops.reshape(results)

        return extended  # type: ignore[return-value]

    return extend


def as_vector(x: Any) -> Any:
    """Return a scalar as a vector of one element, and anything else as it is."""
    return ops.reshape(x, 1) if _is_scalar(x) else x


def _is_scalar(x: object) -> bool:
    return isinstance(x, Var) and not x.type.rank
