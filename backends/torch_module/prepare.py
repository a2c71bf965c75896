"""Preparation of a program for printing as a module: checks, and copies against aliasing."""

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
from catgrad.types import Array, NdArrayType

from .constants import hoisted
from .detach import detached
from .options import Options
from .parts import check_names
from .skeleton import warn_of_another

ENTRIES = (Kind.TRAINED, Kind.PREDICT, Kind.CRITERION)
"""The functions of a task that a module is made of."""

VIEWS = (Split, Window)
"""Operations besides data movement whose results may alias their input."""


class Clone(Op, register=False):
    """A copy in new memory. Two with different numbers are different arrays."""

    number: int = 0
    result = "copy"

    def type(self, x: NdArrayType) -> NdArrayType:
        """T -> T."""
        return x

    def ref(self, x: Array) -> Any:
        """Return the array."""
        return x


def prepare(backend: Backend, program: Program) -> Program:
    """Prepare a program for autograd and in-place updates; options place its constants.

    Raises: OptionError if it is not a task, or if a module or a file already has a name; DtypeError if the
    dtype is not that of the option
    """
    options: Options = backend.options
    emitted = [kind for kind in ENTRIES if kind in program.kinds]
    if emitted and len(emitted) < len(ENTRIES):
        raise OptionError(
            f"a module must have the functions {', '.join(ENTRIES)}",
            f"it has {', '.join(emitted)}",
            "leave functions out",
        )
    if program.tables and Kind.CRITERION not in program.kinds:
        raise OptionError(
            "a module must be made of a Task",
            f"{program.name} is Functions with parameters or buffers",
            "choose another target for Functions",
        )
    check_names(slot for table, slots in program.tables.items() if table is not Role.STATE for slot in slots)
    if options.class_name in {*backend.dialect.reserved, *(f.name for f in program.functions)}:
        raise OptionError(
            "class_name must not be used in the emitted file",
            f"it is {options.class_name!r}",
            "write another",
        )
    _check_dtype(options.dtype, program)
    if options.skeleton and program.tables:
        warn_of_another(program)
    simple = program.map(lambda f: optimise(detached(f, len(_buffers(f)))))
    if options.constants != "inline":
        simple = hoisted(simple, options.compress)
    return simple.map(lambda f: _without_aliases(f) if f.kind.is_initial else _saved(f, _buffers(f)))


def _buffers(function: Function) -> tuple[int, ...]:
    """Return the arguments that are buffers with new values, which are the first results."""
    return tuple(function.taking(Role.BUFFER)) if Role.BUFFER in function.changes else ()


def _check_dtype(wanted: str, program: Program) -> None:
    for function in program.functions if wanted else ():
        for value in function.arguments:
            dtype = function.types[value].dtype
            if dtype.is_floating and dtype.name != wanted:
                raise DtypeError(
                    f"every parameter and input must be {wanted}",
                    f"{function.names[value]} is {dtype.name}",
                    f"build the model with arrays of {wanted}, or leave the option out",
                )


def _without_aliases(function: Function) -> Function:
    """Copy initial values that share memory, as training changes them in place."""
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
    """Copy each buffer that is read, or saved by autograd, after its update."""
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
    """Return the buffers on which values other than their own new value depend.

    The new value may depend on the old one by an operation that returns a new array. Random numbers have no
    gradient, so autograd saves none of their arguments.
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
