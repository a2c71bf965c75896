"""Classes of PyTorch and other libraries, recognised by themselves, not by their names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from catgrad.errors import OptionError

WITHOUT_MEANING = {
    "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__classdictcell__",
    "__dict__", "__doc__", "__firstlineno__", "__module__", "__orig_bases__", "__parameters__",
    "__qualname__", "__static_attributes__", "__weakref__",
}  # fmt: skip
"""Names that are in every class, or come from annotations."""

WRAPPERS = {"torch.optim.optimizer", "torch.optim.lr_scheduler", "torch.utils._contextlib"}
"""Modules that wrap functions: steps, to profile them and to see that they are called, and those that run
without gradients."""


def known_class(one: object, paths: Iterable[str], what: str, advice: str) -> str:
    """Return the path of the class of an object, among these; a subclass that overrides nothing is the class.

    Raises: OptionError if it is none of them, or if its class, or the object itself, overrides something
    """
    definitions: list[Mapping[str, Any]] = [vars(one)] if hasattr(one, "__dict__") else []
    every, kind = list(paths), type(one).__qualname__
    for base in type(one).__mro__:
        path = next((path for path in every if _is_at(base, path)), None)
        if path is None:
            definitions.append(vars(base))
            continue
        overridden = {name for each in definitions for name in each if _overrides(each, name, base)}
        if not overridden:
            return path
        raise OptionError(
            f"{what} must compute what its class does in its library",
            f"{kind} overrides {', '.join(sorted(overridden))} of {path}",
            advice,
        )
    names = ", ".join(path.replace("torch.optim.", "").replace("lr_scheduler.", "") for path in every)
    raise OptionError(
        f"{what} must be of a class with a counterpart in catgrad: {names}",
        f"{kind} has none (it is {type(one).__module__}.{kind})",
        advice,
    )


def _is_at(kind: type, path: str) -> bool:
    """Return whether a class is the one of this path; one of a module that is not loaded has its name."""
    module, _, name = path.rpartition(".")
    if module in sys.modules:
        return getattr(sys.modules[module], name, None) is kind
    return f"{kind.__module__}.{kind.__qualname__}" == path


def _overrides(definitions: Mapping[str, Any], name: str, base: type) -> bool:
    """Return whether a name is defined anew where the class has it."""
    own, inherited = definitions[name], getattr(base, name, None)
    is_data = not callable(inherited) and not isinstance(inherited, property)
    if name in WITHOUT_MEANING or not hasattr(base, name) or (is_data and not callable(own)):
        return False
    return unwrapped(own) is not unwrapped(inherited)


def unwrapped(function: Any) -> Any:
    """Remove the wrappers of PyTorch's own; those of a user may do anything."""
    while hasattr(function, "__wrapped__") and function.__globals__["__name__"] in WRAPPERS:
        function = function.__wrapped__
    return function
