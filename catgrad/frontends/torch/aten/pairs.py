"""Complex arrays as pairs of real ones: linear functions apply to both parts, products are bilinear."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

from catgrad.dims import Dim
from catgrad.frontends.torch.registry import Meaning, require
from catgrad.frontends.torch.types import Node
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import NdArrayType


@dataclass(frozen=True)
class Pair:
    """A complex array: its real and its imaginary part, two arrays of one type."""

    real: Var
    imag: Var

    @property
    def type(self) -> NdArrayType:
        """The type of each part."""
        return self.real.type

    @property
    def shape(self) -> Any:
        """The sizes of its axes."""
        return self.real.shape


Complex: TypeAlias = Var | Pair | Dim | complex
"""An operand that may be complex: an array, a pair, or a number."""


def real_of(x: Any) -> Any:
    """Return the real part of an array or a number."""
    return x.real if isinstance(x, (Pair, complex)) else x


def imaginary_of(x: Any) -> Any:
    """Return the imaginary part of an array or a number."""
    if isinstance(x, (Pair, complex)):
        return x.imag
    return zeros_like(x) if isinstance(x, Var) else 0 if isinstance(x, (int, float, Dim)) else x


def conjugate(x: Var | Pair) -> Var | Pair:
    """Complex conjugate of an array."""
    return Pair(x.real, -x.imag) if isinstance(x, Pair) else x


def in_parts(meaning: Meaning, arrays: Collection[str] = ()) -> Meaning:
    """Extend a real-linear function to complex arrays: it applies to the real, and to the imaginary parts.

    Real arrays and numbers among the arguments `arrays` have the imaginary part 0; others stay as they are,
    such as indices.
    """
    signature = inspect.signature(meaning)

    @functools.wraps(meaning, assigned=())
    def extended(*args: Any, **named: Any) -> Any:
        if not is_complex([*args, *named.values()]):
            return meaning(*args, **named)

        def applied(part: Callable[[Any], Any]) -> Any:
            bound = signature.bind(*args, **named)
            for name, value in bound.arguments.items():
                bound.arguments[name] = _mapped(value, part, name in arrays)
            return meaning(*bound.args, **bound.kwargs)

        return _paired(applied(real_of), applied(imaginary_of))

    return extended


def bilinear(product: Callable[[Any, Any], Var], x: Complex, y: Complex) -> Any:
    """Extend a product of real arrays: (a + bi) · (c + di) = ac - bd + (ad + bc) i."""
    if isinstance(x, (Pair, complex)) and isinstance(y, (Pair, complex)):
        return Pair(
            product(x.real, y.real) - product(x.imag, y.imag),
            product(x.real, y.imag) + product(x.imag, y.real),
        )
    if isinstance(x, (Pair, complex)):
        return Pair(product(x.real, y), product(x.imag, y))
    if isinstance(y, (Pair, complex)):
        return Pair(product(x, y.real), product(x, y.imag))
    return product(x, y)


def is_complex(value: object) -> bool:
    """Return whether a value is complex: a pair, a tensor, a number, a dtype, or one of several."""
    import torch

    if isinstance(value, torch.Tensor):
        return is_complex(value.dtype)
    if isinstance(value, torch.dtype):
        return bool(value.is_complex)
    if isinstance(value, (list, tuple)):
        return any(map(is_complex, value))
    return isinstance(value, (Pair, complex))


def reads_complex(node: Node) -> bool:
    """Return whether an operation of a graph has a complex argument."""
    leaves = [*node.all_input_nodes, *node.args, *node.kwargs.values()]
    return any(is_complex(getattr(leaf, "meta", {}).get("val", leaf)) for leaf in leaves)


def require_real(value: object, name: str) -> None:
    """Raise UnsupportedOp if a value that enters or leaves a module is complex."""
    require(
        not is_complex(value),
        "inputs, outputs, parameters and updated buffers of a module must be real",
        f"{name} is complex",
        "pass torch.view_as_real of it, and apply torch.view_as_complex inside the module",
    )


def _mapped(value: Any, part: Callable[[Any], Any], is_array: bool) -> Any:
    import torch

    if isinstance(value, (list, tuple)):
        return [_mapped(each, part, is_array) for each in value]
    if isinstance(value, torch.dtype):
        return value.to_real()
    must = "a factor or an exponent must be real"
    require(is_array or not isinstance(value, complex), must, f"it is {value}", "multiply by it first")
    return part(value) if is_array or isinstance(value, Pair) else value


def _paired(real: Any, imag: Any) -> Pair | list[Pair]:
    if isinstance(real, (list, tuple)):
        return [Pair(a, b) for a, b in zip(real, imag, strict=True)]
    return Pair(real, imag)
