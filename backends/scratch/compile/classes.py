"""Classes of a classifier: names and labels of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.backend import Backend
from catgrad.errors import OptionError, ShapeError

from ..demo.examples import Column, Examples
from .interface import Interface


@dataclass(frozen=True)
class Classes:
    """Classes, as many as an output has scores; `names` may be missing.

    `label` is the encoding of the examples' targets: "number", "one-hot", or "" for none.
    """

    count: int
    names: tuple[str, ...]
    label: str


def classes(backend: Backend, interface: Interface, found: Examples | None) -> Classes | None:
    """Derive the classes, where they have names or examples of them.

    Raises: OptionError if names are not as many as the numbers that they are for; ShapeError if the number
    of a target is that of no class
    """
    names = tuple(backend.options.classes)
    if (names or backend.options.features) and len(interface.by_block) > 1:
        raise OptionError(
            "features and classes must be for one function",
            f"there are {', '.join(interface.by_block)}",
            "leave them out",
        )
    _check_features(backend, interface)
    outputs = interface.first.outputs
    count = outputs[0][1].size if len(outputs) == 1 else 0
    if names and not count:
        raise OptionError(
            "classes must be for one output", f"the model has {len(outputs)}", "leave classes out"
        )
    if names and len(names) != count:
        raise OptionError(
            f"classes must name each of the {count} numbers of the output",
            f"they are {len(names)}",
            "name as many, and leave predict_batch at 1",
        )
    label = ""
    if found is not None and backend.options.predict_batch == 1 and count > 1:
        label = _label(interface, found.targets, count)
    return Classes(count, names, label) if names or label else None


def _label(interface: Interface, targets: Sequence[Column], count: int) -> str:
    if len(targets) != 1 or interface.step is None:
        return ""
    [target] = targets
    if target.width == count:
        return "one-hot" if target.is_one_hot else ""
    [below] = [reading.below for reading in interface.step.readings if reading.shared == target.shared]
    if target.width != 1 or below != count:
        return ""
    if not ((target.array >= 0) & (target.array < count)).all():
        raise ShapeError(
            f"{target.name} must hold numbers of classes from 0 to {count - 1}",
            f"they are from {target.array.min()} to {target.array.max()}",
            "number the classes from 0",
        )
    return "number"


def _check_features(backend: Backend, interface: Interface) -> None:
    inputs = interface.first.inputs
    count = inputs[0][1].size // backend.options.predict_batch if inputs else 0
    if (features := backend.options.features) and len(features) != count:
        raise OptionError(
            f"features must name each of the {count} numbers of an input",
            f"they are {len(features)}",
            "name as many",
        )
