"""Types of a loss's targets: from examples of them, with symbolic axes of their own, or from the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catgrad.dims import Dim, Size
from catgrad.errors import OptionError, require_one_of
from catgrad.frontends.imported import Imported
from catgrad.frontends.torch.aten.operands import dtype_from
from catgrad.frontends.torch.tracing.axes import Dynamic, names_of_axes, wanted_axes
from catgrad.frontends.torch.types import Tensor
from catgrad.types import NdArrayType

Types = tuple[NdArrayType, ...]


def split_dynamic(dynamic: Dynamic, arguments: Sequence[str]) -> tuple[Dynamic, Mapping[str, Any]]:
    """Split the names of symbolic axes into those of the arguments of forward, and of `targets`."""
    if not isinstance(dynamic, Mapping):
        return dynamic, {}
    of_targets = {
        name: axes
        for name, axes in dynamic.items()
        if name not in arguments and name.partition("_")[0] == "targets"
    }
    return {name: axes for name, axes in dynamic.items() if name not in of_targets}, of_targets


def target_types(
    imported: Imported, inputs: Sequence[Any], targets: Any, dynamic: Mapping[str, Any]
) -> Types | None:
    """Return the types of targets like these examples, a tensor or several; None without any.

    Raises: OptionError for names of axes without examples; as `Sizes.of_targets`
    """
    if targets is None:
        if dynamic:
            raise OptionError(
                "axes of targets must be named for examples of them",
                f"there are names for {', '.join(dynamic)}, and no examples",
                "pass targets=",
            )
        return None
    import torch

    arrays = torch.utils._pytree.tree_leaves(tuple(inputs))
    sizes = Sizes(tuple(imported.inputs.values()), tuple(imported.model.target.table), arrays)
    return sizes.of_targets(targets if isinstance(targets, (tuple, list)) else (targets,), dynamic)


class Sizes:
    """The sizes of the inputs and outputs of a module, and the numbers that they are in example inputs."""

    def __init__(self, inputs: Types, outputs: Types, examples: Sequence[Any]) -> None:
        self.shapes = [type.shape for type in (*inputs, *outputs)]
        self.numbers: dict[str, int] = {
            str(size): number
            for type, x in zip(inputs, examples, strict=True)
            for size, number in zip(type.shape, x.shape, strict=True)
            if isinstance(size, Dim)
        }

    def of_targets(self, targets: Sequence[Tensor], dynamic: Mapping[str, Any]) -> Types:
        """Return the types of targets like these, whose symbolic axes are those of `dynamic`, or found.

        Raises: OptionError for a target that is no tensor, or for an axis that has not the size of its name
        """
        for target in targets:
            if not (hasattr(target, "shape") and hasattr(target, "dtype")):
                raise OptionError(
                    "the examples of targets must be tensors",
                    f"one is of {type(target).__name__}",
                    "pass a tensor, or a tuple with one for each target of the loss",
                )
        named = _named(targets, dynamic)
        shapes = [
            tuple(self._found(axis, int(number)) for axis, number in enumerate(target.shape))
            if axes is None
            else self._checked(target.shape, axes)
            for target, axes in zip(targets, named, strict=True)
        ]
        return tuple(NdArrayType(s, dtype_from(t.dtype)) for s, t in zip(shapes, targets, strict=True))

    def _found(self, axis: int, number: int) -> Size:
        """Return the symbolic size that an input or output has on this axis, and with this number.

        That of the first axis may be on any of theirs.
        """
        here = [shape[axis] for shape in self.shapes if axis < len(shape)]
        anywhere = [size for shape in self.shapes for size in shape] if axis == 0 else []
        symbolic = (size for size in [*here, *anywhere] if isinstance(size, Dim))
        return next((size for size in symbolic if size.substitute(self.numbers) == number), number)

    def _checked(self, numbers: Sequence[int], axes: Mapping[int, Dim]) -> tuple[Size, ...]:
        for axis, size in axes.items():
            expected = self.numbers.setdefault(str(size), int(numbers[axis]))
            if numbers[axis] != expected:
                raise OptionError(
                    "axes of one name must have one size in the examples",
                    f"{size} is {expected}, and {numbers[axis]} in a target",
                    "give the axes two names, or pass other examples",
                )
        return tuple(axes.get(axis, int(number)) for axis, number in enumerate(numbers))


def _named(targets: Sequence[Tensor], dynamic: Mapping[str, Any]) -> list[dict[int, Dim] | None]:
    """Return the named axes of each target; None where none are given."""
    owners = [f"targets_{k}" for k in range(len(targets))]
    for name in dynamic:
        require_one_of("a target", name, ("targets", *owners), "count targets from 0")
    shared = wanted_axes(dynamic.get("targets", ()), owners, targets)
    named = [axes if "targets" in dynamic else None for axes in shared]
    for k, (owner, target) in enumerate(zip(owners, targets, strict=True)):
        if owner in dynamic:
            axes = names_of_axes(dynamic[owner])
            named[k] = {axis: size for axis, size in axes.items() if axis < len(target.shape)}
    return named
