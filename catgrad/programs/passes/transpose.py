"""Layout assignment: matrices of tables stored transposed, and computed so as far as operations allow it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from catgrad.ops.contract import Contract
from catgrad.ops.reduce import Broadcast, Sum
from catgrad.ops.shape import Permute
from catgrad.programs.passes import prune
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.ports import Port, Role
from catgrad.programs.program import Apply, Function, Program
from catgrad.terms.state import Slot
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType

SWAP = Permute((1, 0))

WEIGHTS = (Role.PARAMETER, Role.BUFFER)
"""The tables of weights: buffers are those of frozen layers."""


def stored(program: Program, names: Collection[str]) -> Program:
    """Store the matrices with these names transposed: W becomes Wᵀ, in tables, arguments and results.

    A product reads Wᵀ with its labels reversed, and elementwise operations apply to it as they are, so that
    an update by a gradient needs no copy; other operations read a transposed copy.
    """

    def turned(slot: Slot) -> Slot:
        return replace(slot, type=_reversed(slot.type)) if slot.name in names else slot

    tables = {role: tuple(map(turned, slots)) for role, slots in program.tables.items()}
    return replace(program, tables=tables).map(lambda function: Transposition(function, names).function())


def readings(function: Function, block: int = 1) -> Iterator[tuple[str, bool | None]]:
    """List the reads of weights: true for a matrix with the terms of a product in columns, false in rows.

    Weights are parameters and buffers. None stands for another read, for rows of terms that are no multiple
    of a block, and for a new value.
    """
    names = {v: p.name for v, p in zip(function.arguments, function.inputs, strict=True) if p.role in WEIGHTS}
    for value, port in zip(function.results, function.outputs, strict=True):
        read, replaced = names.get(value), port.name if port.role in WEIGHTS else None
        if read != replaced:
            yield from ((name, None) for name in (read, replaced) if name is not None)
    for apply in function.body:
        for place, value in enumerate(apply.inputs):
            if value in names:
                yield names[value], _has_columns_of_terms(function, apply, place, block)


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
    """Transposition of matrices in one function; `turned` are the values that hold transposed matrices."""

    def __init__(self, function: Function, names: Collection[str]) -> None:
        self.names = names
        taken = self._places(function.inputs, function.arguments)
        types = [_reversed(t) if v in taken else t for v, t in enumerate(function.types)]
        self.old, self.given = function, replace(function, types=tuple(types))
        self.turned, self.wanted = {*taken}, self._wanted()
        self.copies: dict[int, int] = {}

    def function(self) -> Function:
        """Return the function on transposed matrices."""
        if not self.turned and not self.wanted:
            return self.old
        function = Rewriter(self.given).sweep(self._rule)
        body, types, results = list(function.body), list(function.types), list(function.results)
        for place, port in enumerate(function.outputs):
            if (results[place] in self.turned) is not self._is_stored(port):
                types.append(_reversed(types[results[place]]))
                body.append(Apply(SWAP, (results[place],), (len(types) - 1,)))
                results[place] = len(types) - 1
        inputs, outputs = (tuple(map(self._port, ports)) for ports in (function.inputs, function.outputs))
        return prune.apply(
            replace(
                function, body=tuple(body), types=tuple(types), results=tuple(results),
                inputs=inputs, outputs=outputs,
            )
        )  # fmt: skip

    def _is_stored(self, port: Port) -> bool:
        return port.role.is_table and port.name in self.names

    def _port(self, port: Port) -> Port:
        return replace(port, type=_reversed(port.type)) if self._is_stored(port) else port

    def _places(self, ports: Collection[Port], values: Collection[int]) -> set[int]:
        return {value for port, value in zip(ports, values, strict=True) if self._is_stored(port)}

    def _wanted(self) -> set[int]:
        """Collect the values from which new elements of stored matrices are computed elementwise."""
        wanted = self._places(self.old.outputs, self.old.results)
        for apply in reversed(self.old.body):
            if apply.op.elementwise and wanted.intersection(apply.outputs):
                wanted.update(apply.inputs)
        return wanted

    def _rule(self, rewriter: Rewriter, apply: Apply) -> Values | None:
        op: Any = apply.op
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
            self.copies[value] = rewriter.apply(SWAP, value)
            if value not in self.turned:
                self.turned.add(self.copies[value])
        return self.copies[value]


def _reversed(type: NdArrayType) -> NdArrayType:
    return type.with_shape(type.shape[::-1])
