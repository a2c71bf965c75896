"""What becomes of a program before it is printed as a module: checks, and arrays that share no memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from catgrad.backend import Backend
from catgrad.errors import DtypeError, OptionError
from catgrad.ops.random import Draw
from catgrad.ops.slices import Split
from catgrad.ops.window import Window
from catgrad.programs.passes import optimise
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Apply, Function, Program
from catgrad.terms.op import Op
from catgrad.types import NdArrayType

from .constants import hoisted
from .detach import detached
from .options import Options
from .parts import check_names

VIEWS = (Split, Window)
"""Beside what rearranges one array into another, what may leave its results in the memory of its input."""


class Clone(Op, register=False):
    """The identity, in memory of its own. Two of different numbers are different arrays."""

    number: int = 0
    result = "copy"

    def type(self, x: NdArrayType) -> NdArrayType:
        """T -> T."""
        return x

    def ref(self, x: Any) -> Any:
        """The array."""
        return x


def prepare(backend: Backend, program: Program) -> Program:
    """The program with constants where the options want them, and fit for autograd and in-place updates.

    Raises: OptionError for what is no task, or names that a module or a file has already; DtypeError if the
    dtype is not that of the option
    """
    options: Options = backend.options
    if program.tables and Kind.CRITERION not in program.kinds:
        raise OptionError(
            "a module must be made of a Task",
            f"{program.name} is functions that keep arrays between calls",
            "choose another target for Functions",
        )
    check_names(slot for table, slots in program.tables.items() if table is not Role.STATE for slot in slots)
    if options.class_name in {*backend.dialect.reserved, *(f.name for f in program.functions)}:
        raise OptionError(
            "class_name must be free in the emitted file", f"it is {options.class_name!r}", "write another"
        )
    _check_dtype(options.dtype, program)
    simple = program.map(lambda f: optimise(detached(f, len(_buffers(f)))))
    if options.constants != "inline":
        simple = hoisted(simple, options.compress)
    return simple.map(lambda f: _apart(f) if f.kind.is_initial else _saved(f, _buffers(f)))


def _buffers(function: Function) -> tuple[int, ...]:
    """Its arguments that are buffers of which it returns new values, as its first results."""
    return tuple(function.taking(Role.BUFFER)) if Role.BUFFER in function.changes else ()


def _check_dtype(wanted: str, program: Program) -> None:
    for function in program.functions if wanted else ():
        for value in function.arguments:
            dtype = function.types[value].dtype
            if dtype.is_floating and dtype.name != wanted:
                raise DtypeError(
                    f"every parameter and input must be {wanted}",
                    f"{function.names[value]} is {dtype.name}",
                    f"build the model of arrays of {wanted}, or leave the option out",
                )


def _apart(function: Function) -> Function:
    """First values of which no two share memory, for training changes them in place."""
    producer = {value: apply.op for apply in function.body for value in apply.outputs}
    body, results, types = list(function.body), list(function.results), list(function.types)
    for place, value in enumerate(function.results):
        op = producer.get(value)
        again = value in function.results[:place] and types[value].rank > 0
        if again or isinstance(op, VIEWS) or (op is not None and op.rearranges):
            types.append(types[value])
            results[place] = len(types) - 1
            body.append(Apply(Clone(place), (value,), (results[place],)))
    return replace(function, body=tuple(body), results=tuple(results), types=tuple(types))


def _saved(function: Function, buffers: tuple[int, ...]) -> Function:
    """With a copy of each buffer that is still read, or kept by autograd, when it gets its new value."""
    changed = _overwritten_early(function, buffers)
    start = len(function.types)
    copies = dict(zip(changed, range(start, start + len(changed)), strict=True))
    copying = [Apply(Clone(), (value,), (copy,)) for value, copy in copies.items()]
    body = [a._replace(inputs=tuple(copies.get(v, v) for v in a.inputs)) for a in function.body]
    return replace(
        function,
        body=(*copying, *body),
        results=tuple(copies.get(v, v) for v in function.results),
        types=(*function.types, *(function.types[v] for v in changed)),
        names={**function.names, **{copy: function.names[v] for v, copy in copies.items()}},
    )


def _overwritten_early(function: Function, slots: tuple[int, ...]) -> list[int]:
    """The buffers among these arguments that something else than their own new value depends on.

    Their own may, through an operation that makes a new array. Random numbers have no gradient, so
    nothing they were drawn from is kept.
    """
    reads: dict[int, frozenset[int]] = {value: frozenset([value]) for value in slots}
    views = dict(reads)
    nothing: frozenset[int] = frozenset()
    for op, inputs, outputs in function.body:
        read = nothing.union(*(reads.get(v, nothing) for v in inputs))
        viewed = nothing.union(*(views.get(v, nothing) for v in inputs))
        for output in outputs:
            reads[output] = nothing if isinstance(op, Draw) else read
            views[output] = nothing if op.elementwise else viewed
    own = dict(zip(slots, function.results, strict=False))
    others = [value for i, value in enumerate(function.results) if i >= len(slots)]

    def early(slot: int) -> bool:
        elsewhere = [*others, *(value for other, value in own.items() if other != slot)]
        in_itself = own[slot] != slot and slot in views.get(own[slot], nothing)
        return own[slot] != slot and (in_itself or any(slot in reads.get(v, nothing) for v in elsewhere))

    return [slot for slot in slots if early(slot)]
