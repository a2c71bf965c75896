"""Layout assignment: matrices of tables stored transposed, and computed so as far as operations allow it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from catgrad.ops.contract import Contract
from catgrad.ops.reduce import Broadcast, Sum
from catgrad.ops.scan import Scan
from catgrad.ops.shape import Permute
from catgrad.ops.table import Stack, Unstack
from catgrad.programs.passes.prune import prune
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.ports import Port, Role
from catgrad.programs.program import Apply, Function, Nested, Program
from catgrad.terms.state import Slot
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType

WEIGHTS = (Role.PARAMETER, Role.BUFFER)
"""The tables of weights: buffers are those of frozen layers."""


def stored(program: Program, names: Collection[str]) -> Program:
    """Store the matrices with these names transposed: W becomes Wᵀ, in tables, arguments and results.

    A product reads Wᵀ with its labels reversed, and elementwise operations apply to it as they are, so that
    an update by a gradient needs no copy; other operations read a transposed copy. Rows of one stack are all
    transposed, or none is.
    """

    def turned(slot: Slot) -> Slot:
        return replace(slot, type=_reversed(slot.type)) if slot.name in names else slot

    def port(port: Port) -> Port:
        return replace(port, type=_reversed(port.type)) if _is_stored(port, names) else port

    def transposed(function: Function) -> Function:
        places = ([k for k, p in enumerate(ports) if _is_stored(p, names)] for ports in _ports(function))
        changed = Transposition(function, *places).function()
        inputs, outputs = (tuple(map(port, ports)) for ports in _ports(function))
        return replace(changed, inputs=inputs, outputs=outputs)

    tables = {role: tuple(map(turned, slots)) for role, slots in program.tables.items()}
    return replace(program, tables=tables).map(transposed)


def _ports(function: Function) -> tuple[Sequence[Port], Sequence[Port]]:
    return function.inputs, function.outputs


def _is_stored(port: Port, names: Collection[str]) -> bool:
    return port.role.is_table and port.name in names


def readings(function: Function, block: int = 1) -> Iterator[tuple[str, bool | None]]:
    """List the reads of weights: true for a matrix with the terms of a product in columns, false in rows.

    Weights are parameters and buffers. None stands for another read, for rows of terms that are no multiple
    of a block, and for a new value. Loops over stacks of weights read each.
    """
    ports = zip(function.arguments, function.inputs, strict=True)
    names = {value: (port.name,) for value, port in ports if port.role in WEIGHTS}
    for value, port in zip(function.results, function.outputs, strict=True):
        read, replaced = names.get(value, (None,))[0], port.name if port.role in WEIGHTS else None
        if read != replaced:
            yield from ((name, None) for name in (read, replaced) if name is not None)
    yield from _readings(function, names, block)


def _readings(
    function: Function, names: Mapping[int, tuple[str, ...]], block: int
) -> Iterator[tuple[str, bool | None]]:
    """List the reads of weights, or of stacks of them, in a function or in the body of a loop."""
    known = dict(names)
    for apply in function.body:
        if isinstance(apply.op, Stack) and known.keys() >= {*apply.inputs}:
            known[apply.outputs[0]] = tuple(name for value in apply.inputs for name in known[value])
            continue
        inside = _inside(apply) or {}
        if any(len(known.get(value, ())) > 1 for value in inside.values()):
            weights = {inner: known[value] for inner, value in inside.items() if value in known}
            yield from _readings(_body(apply), weights, block)
            yield from ((name, None) for value in _body(apply).results for name in weights.get(value, ()))
        else:
            inside = {}
        for place, value in enumerate(apply.inputs):
            if value in known and value not in inside.values():
                reading = _has_columns_of_terms(function, apply, place, block)
                yield from ((name, reading) for name in known[value])


def _inside(apply: Apply) -> dict[int, int] | None:
    """Map rows and loop invariants of a loop of straight-line code to what it reads; None for others."""
    if not (isinstance(apply.op, Nested) and isinstance(apply.op.op, Scan)):
        return None
    body = _body(apply)
    if any(isinstance(each.op, Nested) for each in body.body):
        return None
    return dict([*zip(body.arguments, apply.inputs, strict=True)][_carried(apply) :])


def _body(apply: Apply) -> Function:
    """Return the body of a loop."""
    op: Any = apply.op
    (body,) = op.functions
    return cast(Function, body)


def _carried(apply: Apply) -> int:
    """Return the number of carries of a loop."""
    op: Any = apply.op
    return cast(int, op.op.carried)


def _has_columns_of_terms(function: Function, apply: Apply, place: int, block: int) -> bool | None:
    op: Any = apply.op
    type = function.types[apply.inputs[place]]
    if not (isinstance(op, Contract) and op.out and type.rank == 2 and type.dtype is Dtype.float32):
        return None
    labels, others = (op.left, op.right) if place == 0 else (op.right, op.left)
    row = op.out[-1]
    if row not in labels or row in others:
        return None
    axis = 1 - labels.index(row)
    size = type.shape[axis]
    is_whole = labels[axis] not in op.out and isinstance(size, int) and size % block == 0
    return axis == 0 if is_whole else None


class Transposition:
    """Transposition of matrices in one function, or in the body of a loop.

    `taken` and `returned` are the positions of arguments that are transposed, and of results that are to be;
    `turned` are the values that hold transposed matrices, or stacks of them.
    """

    def __init__(self, function: Function, taken: Collection[int], returned: Collection[int]) -> None:
        self.returned, self.turned = returned, {function.arguments[k] for k in taken}
        types = [_reversed(t) if v in self.turned else t for v, t in enumerate(function.types)]
        self.old, self.given = function, replace(function, types=tuple(types))
        self.wanted = _wanted(function, {function.results[k] for k in returned})
        self.copies: dict[int, int] = {}

    def function(self) -> Function:
        """Return the function on transposed matrices."""
        if not self.turned and not self.wanted:
            return self.old
        rewriter = Rewriter(self.given)
        function = rewriter.sweep(self._rule)
        results = list(function.results)
        for place, value in enumerate(results):
            if (value in self.turned) is not (place in self.returned):
                results[place] = rewriter.apply(_swap(rewriter.types[value]), value)
        changed = replace(function, body=tuple(rewriter.body), types=tuple(rewriter.types))
        return prune(replace(changed, results=tuple(results)))

    def _rule(self, rewriter: Rewriter, apply: Apply) -> Values | None:
        op: Any = apply.op
        if isinstance(op, Stack):
            return self._stack(rewriter, apply)
        if isinstance(op, Unstack) and apply.inputs[0] in self.turned:
            return self._kept(rewriter, apply, apply.outputs)
        if (inside := _inside(apply)) is not None:
            return self._loop(rewriter, apply, inside)
        are_turned = [value in self.turned for value in apply.inputs]
        is_wanted = apply.outputs[0] in self.wanted and len(rewriter.types[apply.outputs[0]].shape) == 2
        if not is_wanted and not any(are_turned):
            return None
        if op.elementwise:
            return self._turn(rewriter, op, *(self._turned(rewriter, v) for v in apply.inputs))
        if isinstance(op, Contract):
            left, right = (
                axes[::-1] if is_turned else axes
                for axes, is_turned in zip((op.left, op.right), are_turned, strict=True)
            )
            if is_wanted:
                return self._turn(rewriter, Contract(left, right, op.out[::-1]), *apply.inputs)
            return (rewriter.apply(Contract(left, right, op.out), *apply.inputs),)
        if isinstance(op, Broadcast) and is_wanted:
            turned = Broadcast(op.shape[::-1], tuple(sorted(1 - axis for axis in op.axes)))
            return self._turn(rewriter, turned, self._natural(rewriter, apply.inputs[0]))
        if isinstance(op, Constant) and is_wanted:
            return self._turn(rewriter, replace(op, array_type=_reversed(op.array_type)))
        if isinstance(op, Sum) and len(op.axes) == 2:
            return (rewriter.apply(Sum(op.shape[::-1], op.axes), *apply.inputs),)
        rewriter.keep(apply._replace(inputs=tuple(self._natural(rewriter, v) for v in apply.inputs)))
        return apply.outputs

    def _stack(self, rewriter: Rewriter, apply: Apply) -> Values:
        if self.turned.issuperset(apply.inputs):
            return self._turn(rewriter, apply.op, *apply.inputs)
        rewriter.keep(apply._replace(inputs=tuple(self._natural(rewriter, v) for v in apply.inputs)))
        return apply.outputs

    def _loop(self, rewriter: Rewriter, apply: Apply, inside: Mapping[int, int]) -> Values:
        """Transpose in a loop: rows and loop invariants as they are, and rows that are wanted."""
        op: Any = apply.op
        body, carried = _body(apply), _carried(apply)
        taken = [k for k, v in enumerate(body.arguments) if inside.get(v) in self.turned]
        returned = [
            k
            for k, v in enumerate(apply.outputs)
            if k >= carried and v in self.wanted and rewriter.types[v].rank == 3
        ]
        changed = Nested(op.op, (Transposition(body, taken, returned).function(),))
        carries = tuple(self._natural(rewriter, v) for v in apply.inputs[:carried])
        changed_apply = Apply(changed, (*carries, *apply.inputs[carried:]), apply.outputs)
        return self._kept(rewriter, changed_apply, [apply.outputs[k] for k in returned])

    def _kept(self, rewriter: Rewriter, apply: Apply, turned: Collection[int]) -> Values:
        """Keep an operation some of whose results are transposed."""
        for value in turned:
            rewriter.types[value] = _reversed(rewriter.types[value])
        self.turned.update(turned)
        rewriter.keep(apply)
        return apply.outputs

    def _turn(self, rewriter: Rewriter, op: Any, *inputs: int) -> Values:
        made = rewriter.apply(op, *inputs)
        self.turned.add(made)
        return (made,)

    def _turned(self, rewriter: Rewriter, value: int) -> int:
        return value if value in self.turned else self._swapped(rewriter, value)

    def _natural(self, rewriter: Rewriter, value: int) -> int:
        return self._swapped(rewriter, value) if value in self.turned else value

    def _swapped(self, rewriter: Rewriter, value: int) -> int:
        if value not in self.copies:
            self.copies[value] = rewriter.apply(_swap(rewriter.types[value]), value)
            if value not in self.turned:
                self.turned.add(self.copies[value])
        return self.copies[value]


def _wanted(function: Function, results: Collection[int]) -> set[int]:
    """Collect the values from which new elements of stored matrices are computed elementwise."""
    wanted = {*results}
    for apply in reversed(function.body):
        if wanted.isdisjoint(apply.outputs):
            continue
        if apply.op.elementwise or isinstance(apply.op, (Stack, Unstack)):
            wanted.update(apply.inputs)
        elif (inside := _inside(apply)) is not None:
            rows = [*zip(apply.outputs, _body(apply).results, strict=True)][_carried(apply) :]
            found = _wanted(_body(apply), {inner for value, inner in rows if value in wanted})
            wanted.update(value for inner, value in inside.items() if inner in found)
    return wanted


def _swap(type: NdArrayType) -> Permute:
    """Return the transposition of matrices, which may be stacked."""
    first = range(type.rank - 2)
    return Permute((*first, type.rank - 1, type.rank - 2))


def _reversed(type: NdArrayType) -> NdArrayType:
    """Return the type of transposed matrices, which may be stacked."""
    return type.with_shape((*type.shape[:-2], *type.shape[:-3:-1]))
