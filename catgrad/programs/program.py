"""Programs: typed straight-line code (SSA), the level at which passes work and targets print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from catgrad.dims import Dim, Size, numbers
from catgrad.errors import DtypeError, OptionError, ShapeError, one_line
from catgrad.initialisers import Stored
from catgrad.naming import require_dotted, require_name_of_array
from catgrad.ops.random import Draw
from catgrad.ops.scan import Scan
from catgrad.ops.table import Stack
from catgrad.programs.ports import Kind, Port, Role, check_distinct, tables
from catgrad.terms import check
from catgrad.terms.block import blocks
from catgrad.terms.check import Requirement
from catgrad.terms.op import Op
from catgrad.terms.state import Slot
from catgrad.terms.structural import Label
from catgrad.terms.term import Term, check_functional, edges
from catgrad.terms.topological import schedule
from catgrad.types import Array, NdArrayType, substitute, symbols


class Apply(NamedTuple):
    """One operation applied to values, which are numbered and assigned once."""

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Function:
    """Straight-line code from arguments to results.

    `inputs` describes each argument, and `outputs` each result. Arrays of whole tables come first among the
    arguments. `names` has the names of values; those without an entry are intermediate. Sizes that are read
    from arrays at run time must meet the `requirements`.
    """

    name: str
    arguments: tuple[int, ...]
    body: tuple[Apply, ...]
    results: tuple[int, ...]
    types: tuple[NdArrayType, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    names: Mapping[int, str] = field(default_factory=dict)
    doc: str = ""
    kind: Kind = Kind.TERM
    requirements: tuple[Requirement, ...] = ()

    @property
    def argument_types(self) -> tuple[NdArrayType, ...]:
        """Types of the arguments."""
        return tuple(self.types[value] for value in self.arguments)

    @property
    def tables(self) -> tuple[Role, ...]:
        """Tables that it takes, in order."""
        return tables(self.inputs)

    @property
    def changes(self) -> tuple[Role, ...]:
        """Tables of which it returns new values, in order."""
        return tables(self.outputs)

    def taking(self, role: Role) -> list[int]:
        """List the arguments of a role, by position."""
        return [v for v, port in zip(self.arguments, self.inputs, strict=True) if port.role is role]

    def renewed(self) -> dict[int, int]:
        """Map positions of results that are new values of a table to those of the arguments with the old."""
        places = {(port.role, port.name): k for k, port in enumerate(self.inputs) if port.role.is_table}
        new = enumerate((port.role, port.name) for port in self.outputs)
        return {k: places[port] for k, port in new if port in places}

    def substitute(self, sizes: Mapping[str, Size]) -> Function:
        """Substitute sizes for symbols."""
        return replace(
            self,
            inputs=tuple(port.substitute(sizes) for port in self.inputs),
            outputs=tuple(port.substitute(sizes) for port in self.outputs),
            types=tuple(type and type.substitute(sizes) for type in self.types),
            body=tuple(apply._replace(op=apply.op.substitute(sizes)) for apply in self.body),
        )

    def uses(self) -> list[int]:
        """Count the reads of each value, results included."""
        count = [0] * len(self.types)
        for apply in self.body:
            for value in apply.inputs:
                count[value] += 1
        for value in self.results:
            count[value] += 1
        return count


@dataclass(frozen=True)
class Program:
    """The functions of one model, with the tables that their arguments share: `parameters`, `state`, …

    `optimiser`: name and hyperparameters, for targets that can map it to their own optimiser. `notes` are
    sentences for readers of what is emitted. `digest` is the SHA-256 of the terms that it was lowered from.
    `variants` names functions that the target derives from others, such as `step_many`.

    Raises: TermError if one name stands for two things in the tables; OptionError if a function's name is
            no identifier, or that of two
    """

    name: str
    functions: tuple[Function, ...]
    tables: Mapping[Role, tuple[Slot, ...]] = field(default_factory=dict)
    optimiser: tuple[str, Mapping[str, Any]] = ("", MappingProxyType({}))
    notes: tuple[str, ...] = ()
    digest: str = ""
    variants: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        require_dotted(self.name)
        names = [function.name for function in self.functions]
        for name in names:
            if not (name.isascii() and name.isidentifier()) or names.count(name) > 1:
                raise OptionError(
                    "functions must have distinct identifiers as names",
                    f"one is {name!r}" if names.count(name) == 1 else f"{names.count(name)} are {name!r}",
                    "use ASCII letters, digits and underscores, as in 'predict'",
                )
        check_distinct(self.tables)

    def __getitem__(self, name: str) -> Function:
        return next(function for function in self.functions if function.name == name)

    @cached_property
    def dtypes(self) -> frozenset[str]:
        """Names of all dtypes in the functions and tables."""
        kept = (slot.type.dtype.name for table in self.tables.values() for slot in table)
        return frozenset(kept).union(*map(dtypes, self.functions))

    @cached_property
    def draws_later(self) -> bool:
        """Tell whether random numbers are drawn from a later element than the first of their sequence."""
        every = (apply for function in self.functions for apply in applications(function))
        return any(isinstance(op, Draw) and op.ends(*inputs[2:])[0] is not None for op, inputs, _ in every)

    @cached_property
    def stored(self) -> Mapping[str, Array]:
        """The arrays of the tables that are given, by name."""
        slots = (slot for table in self.tables.values() for slot in table)
        return {slot.name: slot.initial.array for slot in slots if isinstance(slot.initial, Stored)}

    @cached_property
    def kinds(self) -> Mapping[Kind, Function]:
        """The functions that training consists of, by kind; others are left out."""
        return {f.kind: f for f in self.functions if f.kind not in (Kind.FUNCTION, Kind.TERM)}

    def map(self, change: Callable[[Function], Function]) -> Program:
        """Change each function."""
        return replace(self, functions=tuple(map(change, self.functions)))


class Nested(Op, register=False):
    """A loop or a branch whose blocks are straight-line code."""

    op: Op
    functions: tuple[Function, ...]


def nest(function: Function, prepare: Callable[[Function], Function]) -> Function:
    """Lower and prepare every block of a function."""
    names = _names_of_stacks(function)

    def nested(apply: Apply) -> Apply:
        inside = [prepare(_with_names(straighten(b.term), apply, names)) for b in blocks(apply.op).values()]
        return apply._replace(op=Nested(apply.op, tuple(inside))) if inside else apply

    return replace(function, body=tuple(map(nested, function.body)))


def _with_names(block: Function, apply: Apply, names: Mapping[int, str]) -> Function:
    """Name the rows and invariants of a loop as outside, where they have no names in it."""
    if not isinstance(apply.op, Scan):
        return block
    outside = [*zip(block.arguments, apply.inputs, strict=True)][apply.op.carried :]
    return replace(block, names={v: names[x] for v, x in outside if x in names} | dict(block.names))


def _names_of_stacks(function: Function) -> dict[int, str]:
    """Return the names of values; those of stacks are what the names of the rows have in common."""
    stacks = [apply for apply in function.body if isinstance(apply.op, Stack)]
    named = [(op, [function.names.get(row, "") for row in rows], y) for op, rows, [y] in stacks]
    return {y: op.result_name(*rows) for op, rows, y in named if all(rows)} | dict(function.names)


def dtypes(function: Function) -> frozenset[str]:
    """Collect the dtypes of its values by name, those in loops and branches included."""
    inside = (inner for op, _, _ in function.body for inner in _blocks(op))
    return frozenset(type.dtype.name for type in set(function.types)).union(*map(dtypes, inside))


def operations(function: Function) -> Iterator[Op]:
    """Yield the operations of a function, those in loops and branches included."""
    for op, _, _ in applications(function):
        yield op.op if isinstance(op, Nested) else op


def applications(function: Function) -> Iterator[Apply]:
    """Yield the applications of operations in a function, those in loops and branches included."""
    for apply in function.body:
        yield apply
        for inside in _blocks(apply.op):
            yield from applications(inside)


def _blocks(op: Op) -> Iterable[Function]:
    """Return the blocks of an operation as straight-line code."""
    if isinstance(op, Nested):
        return op.functions
    return [straighten(block.term) for block in blocks(op).values()]


def lower(term: Term, name: str = "f", arguments: Sequence[str] = (), doc: str = "") -> Function:
    """Lower a term to straight-line code, with names for its arguments.

    Raises: TermError if a wire dangles or is merged, or if the term has a cycle; TypeMismatch if
    an operation does not accept its wires; ShapeError if no argument tells the value of a symbol.
    """
    check_functional(term)
    _check_symbols(term)
    return straighten(term, name, arguments or [f"x{i}" for i in range(len(term.source))], doc)


def straighten(
    term: Term, name: str = "f", arguments: Sequence[str] | None = None, doc: str = ""
) -> Function:
    """Lower a term that is a function; arguments without names have those of their labels."""
    every = edges(term)
    sources, results = tuple(term.s.table.tolist()), tuple(term.t.table.tolist())
    types = tuple(term.H.w.table)
    if arguments is None:
        named = [(op, ins[0]) for op, ins, _ in every if isinstance(op, Label)]
        labels = {wire: op.name for op, wire in named if not op.is_relative}
        arguments = [labels.get(wire, "") for wire in sources]
    require_dotted(name)
    for each in filter(None, arguments):
        require_name_of_array(each)
    return Function(
        name=name,
        arguments=sources,
        body=tuple(Apply(*every[i]) for i in schedule(term)),
        results=results,
        types=types,
        inputs=tuple(Port(Role.INPUT, n, types[v]) for n, v in zip(arguments, sources, strict=True)),
        outputs=tuple(Port(Role.OUTPUT, "", types[v]) for v in results),
        names={wire: name for wire, name in zip(sources, arguments, strict=True) if name},
        doc=one_line(doc),
    )


def requirements(function: Function) -> tuple[Requirement, ...]:
    """Collect what operations require of symbolic sizes, and that no size is negative, loops included."""
    return check.requirements(function.types, function.body)


def evaluate(
    code: Term | Function, *arrays: Any, observe: Callable[[int, Array], None] | None = None
) -> list[Array]:
    """Evaluate a term or a function: the `ref` of its operations, one after the other.

    `observe` is called with the number of each value, and the value.

    Raises: ShapeError, DtypeError if the arrays are not of the argument types; as lower, for a term.
    """
    function = lower(code) if isinstance(code, Term) else code
    inputs = [np.asarray(array) for array in arrays]
    sizes = bind_symbols(function.argument_types, [array.shape for array in inputs])
    for array, expected in zip(inputs, function.argument_types, strict=True):
        if array.dtype != expected.dtype.numpy:
            raise DtypeError(
                f"an argument must be {expected.dtype.name}", f"it is {array.dtype}", "use astype"
            )
    _check_sizes(function, sizes)
    values: dict[int, Array] = dict(zip(function.arguments, inputs, strict=True))
    if observe:
        for value, array in values.items():
            observe(value, array)
    with np.errstate(all="ignore"):
        for op, operands, outputs in function.body:
            results = op.substitute(sizes).compute(*(values[value] for value in operands))
            results = results if isinstance(results, tuple) else (results,)
            for value, result in zip(outputs, results, strict=True):
                # NumPy computes scalars of some types in others, and 16 bits are computed in 32.
                values[value] = np.asarray(result, function.types[value].dtype.numpy)
                if observe:
                    observe(value, values[value])
    return [values[value] for value in function.results]


def _check_sizes(function: Function, sizes: Mapping[str, int]) -> None:
    for size, least in requirements(function):
        (value,) = numbers((size.substitute(sizes),))
        if value < least:
            where = ", ".join(f"{name} = {n}" for name, n in sizes.items())
            raise ShapeError(f"{size} must be at least {least}", f"it is {value} where {where}", "enlarge it")


def symbol_sources(types: Sequence[NdArrayType]) -> dict[str, tuple[int, int]]:
    """Find for each symbol an argument and an axis whose size it is.

    Raises: ShapeError if a symbol never stands alone, so that no shape tells its value.
    """
    found: dict[str, tuple[int, int]] = {}
    for position, type in enumerate(types):
        for axis, size in enumerate(type.shape):
            if isinstance(size, Dim) and size == Dim(min(size.symbols)):
                found.setdefault(min(size.symbols), (position, axis))
    _require_determined(symbols(tuple(types)), found, types)
    return found


def bind_symbols(types: Sequence[NdArrayType], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """Bind each symbol in the types to its value at these shapes. Raises: ShapeError."""
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
    _require_determined(symbols(tuple(set(term.H.w.table))), told, tuple(term.source.table))


def _require_determined(names: Sequence[str], told: Mapping[str, Any], types: Sequence[NdArrayType]) -> None:
    for name in names:
        if name not in told:
            raise ShapeError(
                "each symbolic dimension must be the whole size of some axis of an argument",
                f"{name!r} is none in {', '.join(map(str, types)) or 'no arguments'}",
                f"give an argument an axis of size Dim({name!r})",
            )
