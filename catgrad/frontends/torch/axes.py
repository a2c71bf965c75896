"""Symbolic axes of example inputs, by `torch.export.Dim`: names, sizes, and what a module assumes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catgrad.dims import Dim, Size
from catgrad.errors import OptionError, UnsupportedOp

Dynamic = Sequence[str | None] | Mapping[str, Sequence[str | None]]
"""Names of leading axes: of every input, or of inputs by the names of forward's arguments."""

FIX = "leave it out of `dynamic`, or rewrite that line"


class Axes:
    """The symbolic axes of some inputs: `names` maps symbols of torch.export to names of dimensions."""

    def __init__(self, dynamic: Dynamic, arguments: Sequence[str], inputs: Sequence[Any]) -> None:
        import torch

        flat, self._tree = torch.utils._pytree.tree_flatten(tuple(inputs))
        owners = [name for name, x in zip(arguments, inputs, strict=False) for _ in _leaves(x)]
        self.wanted = _wanted(dynamic, owners, flat)
        self.names: dict[str, str] = {}
        self.inputs = torch.utils._pytree.tree_unflatten(list(map(_enlarged, flat, self.wanted)), self._tree)

    @property
    def specification(self) -> Any:
        """The argument `dynamic_shapes` of torch.export, None if all axes are fixed."""
        import torch

        if not any(self.wanted):
            return None
        each = [dict.fromkeys(axes, torch.export.Dim.AUTO) for axes in self.wanted]
        return torch.utils._pytree.tree_unflatten(each, self._tree)

    def read(self, values: Sequence[Any], graph: Any) -> None:
        """Read the symbols of the axes from the inputs of an exported graph.

        Raises: UnsupportedOp if the module fixes an axis, or the size of one to that of another
        """
        for value, axes in zip(values, self.wanted, strict=True):
            for axis, name in axes.items():
                symbol = str(getattr(value.shape[axis], "node", value.shape[axis]))
                if symbol.isdecimal():
                    raise _fixed(name, int(symbol), graph)
                if self.names.setdefault(symbol, name) != name:
                    raise UnsupportedOp(
                        "axes with different names must not depend on each other",
                        f"{name} must have the size of {self.names[symbol]}",
                        FIX,
                    )

    def size(self, size: Any) -> Size:
        """Convert a size of PyTorch. Raises: UnsupportedOp unless it is a polynomial in the symbolic axes"""
        return size if isinstance(size, int) else self._polynomial(size.node.expr)

    def assumptions(self, values: Sequence[Any]) -> Iterator[tuple[Dim, int]]:
        """Yield sizes and their least values, as the module assumes them of its inputs.

        Raises: UnsupportedOp if it takes a branch for sizes of another kind
        """
        for environment in {id(v.fake_mode): v.fake_mode.shape_env for v in values}.values():
            for guard in environment.guards if environment else []:
                expression = guard.expr.subs(environment.replacements)
                if expression.free_symbols and not self._is_about_ones(expression):
                    yield self._bound(expression, guard.sloc)

    def _bound(self, relation: Any, place: Any) -> tuple[Dim, int]:
        import sympy

        strict = isinstance(relation, (sympy.StrictGreaterThan, sympy.StrictLessThan))
        if strict or isinstance(relation, (sympy.GreaterThan, sympy.LessThan)):
            surplus = self._polynomial(relation.gts - relation.lts)
            if isinstance(surplus, Dim):
                return surplus, int(strict)
        where = _line(place)
        raise UnsupportedOp(
            "a module must compute the same for all sizes of a symbolic axis",
            f"{where or 'it'} needs {self._renamed(relation)}",
            FIX,
        )

    def _is_about_ones(self, relation: Any) -> bool:
        """Return whether a guard only excludes broadcasting: symbolic axes do not broadcast in a term."""
        import sympy

        return isinstance(relation, sympy.Ne) and relation.rhs in (0, 1)

    def _polynomial(self, expression: Any) -> Size:
        import sympy

        symbols = sorted(expression.free_symbols, key=str)
        if not symbols:
            return int(expression)
        try:
            terms = sympy.Poly(expression, *symbols).terms()
            total: Size = 0
            for powers, coefficient in terms:
                product: Size = int(coefficient)
                for symbol, power in zip(symbols, powers, strict=True):
                    for _ in range(power):
                        product = product * Dim(self.names[str(symbol)])
                total = total + product
        except (sympy.PolynomialError, KeyError):
            raise UnsupportedOp(
                "sizes must be polynomials in the symbolic axes",
                f"one is {self._renamed(expression)}",
                FIX,
            ) from None
        return total

    def _renamed(self, expression: Any) -> str:
        """Format an expression with the names of the axes."""
        return re.sub(r"\bs\d+\b", lambda m: self.names.get(m[0], m[0]), str(expression))


def _leaves(x: Any) -> list[Any]:
    import torch

    return list(torch.utils._pytree.tree_leaves(x))


def _wanted(dynamic: Dynamic, owners: Sequence[str], inputs: Sequence[Any]) -> list[dict[int, str]]:
    """Return the names of the symbolic axes of each input, by axis.

    Names for all inputs are given to axes of the size that the first such axis has.
    """
    if isinstance(dynamic, Mapping):
        for name in dynamic:
            if name not in owners:
                raise OptionError(
                    f"an input must be one of {', '.join(dict.fromkeys(owners))}",
                    f"it is {name!r}",
                    "write the name of an argument of forward",
                )
        each = [_names(dynamic.get(owner, ())) for owner in owners]
        return [
            {axis: name for axis, name in names.items() if axis < x.ndim}
            for names, x in zip(each, inputs, strict=True)
        ]
    names = _names(dynamic)
    first = {axis: next((x.shape[axis] for x in inputs if axis < x.ndim), None) for axis in names}
    return [
        {axis: name for axis, name in names.items() if axis < x.ndim and x.shape[axis] == first[axis]}
        for x in inputs
    ]


def _names(axes: Sequence[str | None]) -> dict[int, str]:
    if isinstance(axes, str):
        raise OptionError(
            "the names of symbolic axes must be a tuple", f"they are {axes!r}", f'write ("{axes}",)'
        )
    for name in filter(None, axes):
        Dim(name)  # raises an error unless it is an identifier
    return {axis: name for axis, name in enumerate(axes) if name is not None}


def _enlarged(x: Any, axes: Mapping[int, str]) -> Any:
    """Repeat an example along symbolic axes of size 1, which torch.export would take for fixed."""
    for axis in axes:
        x = x.repeat_interleave(2, axis) if x.shape[axis] == 1 else x
    return x


def _fixed(name: str, size: int, graph: Any) -> UnsupportedOp:
    """Return the error for an axis that the module fixes, with the operation that takes its size.

    Recurrent layers, which torch.export unrolls to find their types, fix the length of a sequence.
    """
    from catgrad.frontends.torch.graph import place

    calls = [node for node in graph.nodes if node.op == "call_function"]
    fixing = [node for node in calls if size in _leaves((node.args, node.kwargs))]
    fixing += [node for node in calls if str(node.target).endswith((".input", "with_effects"))]
    where = f"{fixing[0].target} in {place(fixing[0]) or 'the module'}" if fixing else "an operation"
    return UnsupportedOp(f"the axis {name} must be free", f"{where} fixes it to {size}", FIX)


def _line(place: Any) -> str:
    """Format the user's line of a source location: `forward (net.py, line 7)`."""
    text = str(place.maybe_user_loc or place)
    found = re.search(r"([^/\\(]+\.py):(\d+) in (\S+?)\)?$", text)
    return f"{found[3]} ({found[1]}, line {found[2]})" if found else text
