"""Options of a target, and the precision of a model, on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from catgrad.errors import OptionError, require_one_of

if TYPE_CHECKING:
    from catgrad.learn.precision import Model

PRECISIONS = ("f32", "bf16")

OF_MODULES = ("loss", "optimizer", "lr", "evaluation", "trainable")
"""The options that say how to train a PyTorch module, which --input declares."""


def parsed(texts: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE texts, where `true`, `false` and digits are values of other types.

    Raises: OptionError for a text without `=`, or a name that occurs twice
    """
    found: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(
                "an option must be given as NAME=VALUE", f"it is {text!r}", "write for example skeleton=true"
            )
        if name in found:
            raise OptionError("an option must be given once", f"{name!r} is given twice", "leave one out")
        found[name] = _value(value)
    return found


def with_bindings(texts: Sequence[str], languages: Sequence[str]) -> list[str]:
    """Return NAME=VALUE texts with one more for the languages of bindings, if there are any."""
    return [*texts, *([f"bindings={','.join(languages)}"] if languages else [])]


def require_unused(context: Any, names: Sequence[str], where: str) -> None:
    """Raise OptionError if the command line has one of these options, which has no effect `where` it is."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if parameter.name in names and source is not None and source.name == "COMMANDLINE":
            option = parameter.opts[0]
            raise OptionError(
                f"{option} must be left out {where}", "it is given and would have no effect", f"omit {option}"
            )


def spelled(value: object) -> str:
    """Format a value such that `parsed` reads it; empty for None."""
    return str(value).lower() if isinstance(value, bool) else "" if value in (None, ()) else str(value)


def in_precision(model: Model, precision: str) -> Model:
    """Return a model in mixed precision for `bf16`, as it is for `f32`. Raises: OptionError for another."""
    from catgrad.learn.precision import mixed_precision

    require_one_of("the precision", precision, PRECISIONS)
    return model if precision == "f32" else mixed_precision(model)


def _value(text: str) -> Any:
    if text.isascii() and text.isdigit():
        try:
            return int(text)
        except ValueError:  # Python limits the number of digits
            return text
    return {"true": True, "false": False}.get(text, text)
