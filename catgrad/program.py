"""Programs: typed straight-line code (SSA), the level at which passes work and targets print."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from catgrad.dims import Dim
from catgrad.errors import DtypeError, ShapeError
from catgrad.naming import require_dotted
from catgrad.op import Op
from catgrad.schedule import schedule
from catgrad.state import Slot
from catgrad.term import Term, check_functional, edges
from catgrad.types import Array, NdArrayType, substitute, symbols


class Apply(NamedTuple):
    """One operation applied to values, which are numbered and assigned once."""

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Function:
    """Straight-line code from arguments to results.

    It takes all that the tables `takes` of its program name, then arguments of its own. `names`
    holds what values are called; those without an entry are intermediate.
    """

    name: str
    arguments: tuple[int, ...]
    body: tuple[Apply, ...]
    results: tuple[int, ...]
    types: tuple[NdArrayType, ...]
    names: Mapping[int, str] = field(default_factory=dict)
    doc: str = ""
    takes: tuple[str, ...] = ()

    @property
    def argument_types(self) -> tuple[NdArrayType, ...]:
        """The types of the arguments."""
        return tuple(self.types[value] for value in self.arguments)

    def uses(self) -> list[int]:
        """How often each value is read, results counted."""
        count = [0] * len(self.types)
        for apply in self.body:
            for value in apply.inputs:
                count[value] += 1
        for value in self.results:
            count[value] += 1
        return count


@dataclass(frozen=True)
class Program:
    """The functions of one model, with the tables of what they take in common: `parameters`, `state`, …"""

    name: str
    functions: tuple[Function, ...]
    tables: Mapping[str, tuple[Slot, ...]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Function:
        return next(function for function in self.functions if function.name == name)

    @property
    def dtypes(self) -> frozenset[str]:
        """The names of all dtypes in the functions and tables."""
        computed = (f.types[v] for f in self.functions for a in f.body for v in a.outputs)
        given = (type for f in self.functions for type in f.argument_types)
        kept = (slot.type for table in self.tables.values() for slot in table)
        return frozenset(type.dtype.name for types in (computed, given, kept) for type in types)

    def common_arguments(self, function: Function) -> int:
        """How many of a function's arguments come from tables."""
        return sum(len(self.tables[table]) for table in function.takes)

    def map(self, change: Callable[[Function], Function]) -> Program:
        """The program with each function changed."""
        return replace(self, functions=tuple(map(change, self.functions)))


def lower(term: Term, name: str = "f", arguments: Sequence[str] = (), doc: str = "") -> Function:
    """A term as straight-line code, with names for its arguments.

    Raises: TermError if a wire dangles or is merged, or if the term has a cycle; TypeMismatch if
    an operation does not accept its wires; ShapeError if no argument tells the value of a symbol.
    """
    check_functional(term)
    _check_symbols(term)
    every = edges(term)
    sources = tuple(term.s.table.tolist())
    names = arguments or [f"x{i}" for i in range(len(sources))]
    for each in (name, *names):
        require_dotted(each)
    return Function(
        name=name,
        arguments=sources,
        body=tuple(Apply(*every[i]) for i in schedule(term)),
        results=tuple(term.t.table.tolist()),
        types=tuple(term.H.w.table),
        names=dict(zip(sources, names, strict=True)),
        doc=doc,
    )


def interpret(function: Function, *arrays: Any) -> list[Array]:
    """The meaning of a function: the `ref` of its operations, one after the other.

    Raises: ShapeError, DtypeError if the arrays are not of the argument types.
    """
    given = [np.asarray(array) for array in arrays]
    sizes = bind_symbols(function.argument_types, [array.shape for array in given])
    for array, wanted in zip(given, function.argument_types, strict=True):
        if array.dtype != wanted.dtype.numpy:
            raise DtypeError(f"an argument must be {wanted.dtype.name}", f"it is {array.dtype}", "use astype")
    values: dict[int, Array] = dict(zip(function.arguments, given, strict=True))
    with np.errstate(all="ignore"):
        for op, inputs, outputs in function.body:
            results = op.substitute(sizes).compute(*(values[value] for value in inputs))
            results = results if isinstance(results, tuple) else (results,)
            for value, result in zip(outputs, results, strict=True):
                # NumPy computes scalars of some types in others, and 16 bits are computed in 32.
                values[value] = np.asarray(result, function.types[value].dtype.numpy)
    return [values[value] for value in function.results]


def evaluate(term: Term, *arrays: Any) -> list[Array]:
    """The meaning of a term at these arrays."""
    return interpret(lower(term), *arrays)


def symbol_sources(types: Sequence[NdArrayType]) -> dict[str, tuple[int, int]]:
    """For each symbol, an argument and an axis whose size it is.

    Raises: ShapeError if a symbol never stands alone, so that no shape tells its value.
    """
    found: dict[str, tuple[int, int]] = {}
    for position, type in enumerate(types):
        for axis, size in enumerate(type.shape):
            if isinstance(size, Dim) and size == Dim(min(size.symbols)):
                found.setdefault(min(size.symbols), (position, axis))
    _require_told(symbols(tuple(types)), found, types)
    return found


def bind_symbols(types: Sequence[NdArrayType], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The value of each symbol in the types at these shapes. Raises: ShapeError."""
    if len(types) != len(shapes):
        raise ShapeError(f"there must be {len(types)} arrays", f"there are {len(shapes)}", "pass all of them")
    places = symbol_sources(types).items()
    sizes = {name: shapes[i][axis] for name, (i, axis) in places if axis < len(shapes[i])}
    for type, shape in zip(types, shapes, strict=True):
        if substitute(type.shape, sizes) != tuple(shape):
            raise ShapeError(
                f"an argument must have the shape of {type}",
                f"it is {list(shape)}" + (f" where {sizes}" if sizes else ""),
                "reshape it, or change the model's types",
            )
    return sizes


def _check_symbols(term: Term) -> None:
    told = symbol_sources(tuple(term.source.table))
    _require_told(symbols(tuple(set(term.H.w.table))), told, tuple(term.source.table))


def _require_told(names: Sequence[str], told: Mapping[str, Any], types: Sequence[NdArrayType]) -> None:
    for name in names:
        if name not in told:
            raise ShapeError(
                "each symbolic dimension must be the whole size of some axis of an argument",
                f"{name!r} is none in {', '.join(map(str, types)) or 'no arguments'}",
                f"give an argument an axis of size Dim({name!r})",
            )
