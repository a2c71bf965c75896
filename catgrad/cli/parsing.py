"""Texts of the command line: array types, and names with options, which are never evaluated."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import Any

from catgrad.dims import Dim
from catgrad.errors import CatgradError, OptionError, nearest, require_one_of
from catgrad.types import Dtype, NdArrayType

DTYPES = {name: dtype for dtype in Dtype for name in (dtype.value, dtype.name)}
"""Dtypes by their short and their long names."""


def array_type(text: str) -> NdArrayType:
    """Read an array type such as `f32[batch,1,28,28]`, whose names are symbolic sizes.

    Raises: OptionError for any other text
    """
    found = re.fullmatch(r"\s*(\w+)\s*\[([^][]*)\]\s*", text, re.ASCII)
    if found is None or found[1] not in DTYPES:
        raise _no_type(text, f"{nearest(found[1], DTYPES)}the dtypes are" if found else "the dtypes are")
    sizes = [size.strip() for size in found[2].split(",")] if found[2].strip() else []
    try:
        return NdArrayType(tuple(_size(size) for size in sizes), DTYPES[found[1]])
    except (CatgradError, ValueError):
        raise _no_type(text, "a size is a number or a name, and the dtypes are") from None


def _size(text: str) -> int | Dim:
    return int(text) if text.isascii() and text.isdigit() else Dim(text)


def _no_type(text: str, hint: str) -> OptionError:
    return OptionError(
        "an input must be an array type such as f32[batch,1,28,28]",
        f"it is {text!r}",
        f"{hint} {', '.join(dtype.value for dtype in Dtype)}",
    )


def call(text: str) -> tuple[str, dict[str, Any]]:
    """Read a name with options, such as `adamw(lr=1e-3, betas=(0.9, 0.95))`, which are literals.

    Raises: OptionError for any other text
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, {}
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.args:
            options = {each.arg: ast.literal_eval(each.value) for each in tree.keywords}
            if None not in options:
                return tree.func.id, {str(name): value for name, value in options.items()}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        pass
    raise OptionError(
        "it must be a name, or a name with options that are numbers, texts or tuples",
        f"it is {text!r}",
        "write for example 'adamw(lr=1e-3, weight_decay=0.1)'",
    )


def require_options(kind: str, function: Callable[..., Any], options: Iterable[str], positions: int) -> None:
    """Raise OptionError unless a function takes these options; its first arguments are none."""
    taken = [
        name
        for name, parameter in list(signature(function).parameters.items())[positions:]
        if parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    ]
    for name in options:
        require_one_of(f"an option of {kind}", name, sorted(taken))
