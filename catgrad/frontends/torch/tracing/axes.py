"""Symbolic axes of example inputs, by `torch.export.Dim`: names, sizes, and what a module assumes of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from catgrad.dims import Dim, Size, coefficients, exact_quotient, product
from catgrad.errors import FixedSize, OptionError, ShapeError, require_one_of
from catgrad.frontends.torch.types import Graph, Tensor

Dynamic = Sequence[str | Dim | None] | Mapping[str, Sequence[str | Dim | None]]
"""Names, or sizes, of leading axes: of every input, or of inputs by the names of forward's arguments."""

COMBINED: dict[str, Callable[[tuple[Size, ...]], Size]] = {
    "Add": sum,
    "Mul": product,
    "FloorDiv": lambda pair: exact_quotient(*pair),
    "Mod": lambda pair: 0 * exact_quotient(*pair),  # inexact division is refused
}
"""Functions of sizes by the classes of their expressions in sympy."""


class Axes:
    """The symbolic axes of some inputs: `sizes` maps symbols of torch.export to sizes."""

    def __init__(self, dynamic: Dynamic, arguments: Sequence[str], inputs: Sequence[object]) -> None:
        import torch

        flat, self._tree = torch.utils._pytree.tree_flatten(tuple(inputs))
        owners = [name for name, x in zip(arguments, inputs, strict=False) for _ in _leaves(x)]
        self.wanted = wanted_axes(dynamic, owners, flat)
        self.sizes: dict[str, Size] = {}
        self.inputs = torch.utils._pytree.tree_unflatten(list(map(_enlarged, flat, self.wanted)), self._tree)

    @property
    def specification(self) -> Any:
        """The argument `dynamic_shapes` of torch.export, None if all axes are fixed."""
        import torch

        if not any(self.wanted):
            return None
        each = [dict.fromkeys(axes, torch.export.Dim.AUTO) for axes in self.wanted]
        return torch.utils._pytree.tree_unflatten(each, self._tree)

    def read(self, values: Sequence[Tensor], graph: Graph) -> None:
        """Read the symbols of the axes from the inputs of an exported graph.

        Raises: FixedSize if the module fixes an axis, or the size of one to that of another
        """
        every = [
            (value.shape[axis], size)
            for value, axes in zip(values, self.wanted, strict=True)
            for axis, size in axes.items()
        ]
        for found, size in every:
            if isinstance(found, int) or found.node.expr.is_Integer:
                raise _fixed(size, int(found), graph)
            if found.node.expr.is_Symbol:
                self.sizes.setdefault(str(found.node.expr), size)
        for found, size in every:
            must = "axes with different names must not depend on each other"
            if self.size(found) != size:
                raise FixedSize(must, f"{size} must have the size of {self.size(found)}")

    def size(self, size: Any) -> Size:
        """Convert a size of PyTorch. Raises: FixedSize unless it is a polynomial in the symbolic axes"""
        return size if isinstance(size, int) else self._polynomial(size.node.expr)

    def assumptions(self, values: Sequence[Tensor]) -> Iterator[tuple[Dim, int]]:
        """Yield sizes and their least values, as the module assumes them of its inputs.

        Raises: FixedSize if it takes a branch for sizes of another kind
        """
        for environment in {id(v.fake_mode): v.fake_mode.shape_env for v in values}.values():
            for guard in environment.guards if environment else []:
                expression = guard.expr.subs(environment.replacements)
                if expression.free_symbols and not self._is_about_ones(expression):
                    yield from self._bounds(expression, guard.sloc)

    def _bounds(self, relation: Any, place: Any) -> Iterator[tuple[Dim, int]]:
        """Yield what a relation requires: nothing, if it holds for all sizes, as n ≤ n does."""
        import sympy

        if isinstance(relation, sympy.And):
            for part in relation.args:
                yield from self._bounds(part, place)
            return
        surplus, least = self._surplus(relation)
        if isinstance(surplus, Dim):
            yield surplus, least
        elif surplus < least:
            raise FixedSize(
                "a module must compute the same for all sizes of a symbolic axis",
                f"{_line(place) or 'it'} needs {self._renamed(relation)}",
            )

    def _surplus(self, relation: Any) -> tuple[Size, int]:
        """Return a size whose least value is what a relation states; (0, 1) if there is none."""
        import sympy

        strict = isinstance(relation, (sympy.StrictGreaterThan, sympy.StrictLessThan))
        if strict or isinstance(relation, (sympy.GreaterThan, sympy.LessThan)):
            return self._polynomial(relation.gts - relation.lts), int(strict)
        try:
            difference = _evaluated(relation.lhs - relation.rhs, self.sizes)
        except (AttributeError, KeyError, ShapeError):  # not a relation of polynomials
            return 0, 1
        if isinstance(difference, int):
            return int(bool(relation.func(difference, 0))), 1
        signs = {coefficient > 0 for coefficient in coefficients(difference).values()}
        if isinstance(relation, sympy.Ne) and len(signs) == 1:
            return difference if True in signs else -difference, 1
        return 0, 1

    def _is_about_ones(self, relation: Any) -> bool:
        """Return whether a guard only excludes broadcasting: symbolic axes do not broadcast in a term."""
        import sympy

        return isinstance(relation, sympy.Ne) and relation.rhs in (0, 1)

    def _polynomial(self, expression: Any) -> Size:
        try:
            return _evaluated(expression, self.sizes)
        except (ShapeError, KeyError):
            raise FixedSize(
                "sizes must be polynomials in the symbolic axes", f"one is {self._renamed(expression)}"
            ) from None

    def _renamed(self, expression: Any) -> str:
        """Format an expression with the names of the axes."""
        return re.sub(r"\bs\d+\b", lambda m: str(self.sizes.get(m[0], m[0])), str(expression))


def _evaluated(expression: Any, sizes: Mapping[str, Size]) -> Size:
    """Evaluate an expression of sympy. Raises: ShapeError, KeyError unless it is a polynomial in the sizes"""
    if expression.is_Integer:
        return int(expression)
    if expression.is_Symbol:
        return sizes[str(expression)]
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
        return product((_evaluated(expression.base, sizes),) * int(expression.exp))
    parts = tuple(_evaluated(part, sizes) for part in expression.args)
    return COMBINED[type(expression).__name__](parts)


def _leaves(x: object) -> list[Any]:
    import torch

    return list(torch.utils._pytree.tree_leaves(x))


def wanted_axes(dynamic: Dynamic, owners: Sequence[str], inputs: Sequence[Tensor]) -> list[dict[int, Dim]]:
    """Return the sizes of the symbolic axes of each input, by axis.

    Names for all inputs are given to axes of the size that the first such axis has.

    Raises: OptionError for a name of no input, or for axes of one name that differ in size
    """
    if isinstance(dynamic, Mapping):
        for name in dynamic:
            require_one_of("an input", name, dict.fromkeys(owners), "name an argument of forward")
        each = [names_of_axes(dynamic.get(owner, ())) for owner in owners]
        chosen = [
            {axis: size for axis, size in sizes.items() if axis < x.ndim}
            for sizes, x in zip(each, inputs, strict=True)
        ]
        _check_sizes(chosen, owners, inputs)
        return chosen
    names = names_of_axes(dynamic)
    first = {axis: next((x.shape[axis] for x in inputs if axis < x.ndim), None) for axis in names}
    return [
        {axis: size for axis, size in names.items() if axis < x.ndim and x.shape[axis] == first[axis]}
        for x in inputs
    ]


def _check_sizes(chosen: Sequence[dict[int, Dim]], owners: Sequence[str], inputs: Sequence[Tensor]) -> None:
    known: dict[Dim, tuple[int, str]] = {}
    for sizes, owner, x in zip(chosen, owners, inputs, strict=True):
        for axis, size in sizes.items():
            number, first = known.setdefault(size, (x.shape[axis], owner))
            if number != x.shape[axis]:
                raise OptionError(
                    "axes of one name must have one size in the example inputs",
                    f"{size} is {number} in {first} and {x.shape[axis]} in {owner}",
                    "give the axes two names, or pass other examples",
                )


def names_of_axes(axes: Sequence[str | Dim | None]) -> dict[int, Dim]:
    """Return the sizes that leading axes are named by. Raises: OptionError for a name that is none"""
    if isinstance(axes, str):
        raise OptionError(
            "the names of symbolic axes must be a tuple", f"they are {axes!r}", f'write ("{axes}",)'
        )
    sizes = [Dim(name) if isinstance(name, str) else name for name in axes]
    return {axis: size for axis, size in enumerate(sizes) if size is not None}


def _enlarged(x: Tensor, axes: Mapping[int, Dim]) -> Tensor:
    """Return a new tensor, repeated along symbolic axes of size 1, which torch.export would take for fixed.

    It would also take one tensor in two places for one input, and a parameter for no input at all.
    """
    x = x.detach().requires_grad_(x.requires_grad)
    for axis in axes:
        x = x.repeat_interleave(2, axis) if x.shape[axis] == 1 else x
    return x


def _fixed(name: Dim, size: int, graph: Graph) -> FixedSize:
    """Return the error for an axis that the module fixes, with the operation that takes its size.

    Recurrent layers, which torch.export unrolls to find their types, fix the length of a sequence.
    """
    from catgrad.frontends.torch.graph import place

    calls = [node for node in graph.nodes if node.op == "call_function"]
    fixing = [node for node in calls if size in _leaves((node.args, node.kwargs))]
    fixing += [node for node in calls if str(node.target).endswith((".input", "with_effects"))]
    where = f"{fixing[0].target} in {place(fixing[0]) or 'the module'}" if fixing else "an operation"
    return FixedSize(f"the axis {name} must be free", f"{where} fixes it to {size}")


def _line(place: Any) -> str:
    """Format the user's line of a source location: `forward (net.py, line 7)`."""
    text = str(place.maybe_user_loc or place)
    found = re.search(r"([^/\\(]+\.py):(\d+) in (\S+?)\)?$", text)
    return f"{found[3]} ({found[1]}, line {found[2]})" if found else text
