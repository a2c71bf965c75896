"""Loops, branches and recomputation: operations whose attributes are terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from catgrad.block import Block
from catgrad.build import build, build_inside
from catgrad.dims import Size, numbers
from catgrad.errors import DtypeError, OptionError, ShapeError, TypeMismatch
from catgrad.live import narrowed, unread
from catgrad.op import Examples, Op, Types
from catgrad.ops.transcendental import tanh
from catgrad.split import split
from catgrad.structural import Barrier, Constant, is_differentiable
from catgrad.term import Term
from catgrad.types import Array, Dtype, NdArrayType

Reverse = Callable[[Term], Term]
Objects = tuple[NdArrayType, ...]


class Control(Op, register=False):
    """What holds terms: their operations compute, and round."""

    rounds_once = True

    def compute(self, *arrays: Array) -> Any:
        return self.ref(*arrays)


class Scan(Control):
    """A loop: (cᵗ⁺¹, yᵗ) = body(cᵗ, xᵗ, k) for t = 0 … length - 1, with c carried on and y laid in a row.

    `backwards`, t runs from length - 1 to 0; x and y keep their places.

    Type:     (C…, X[length, …]…, K…) -> (C…, Y[length, …]…), for body : (C…, X…, K…) -> (C…, Y…), with
              `carried` arrays C and `scanned` arrays X
    Raises:   TypeMismatch if the body does not fit
    Gradient: a loop the other way, with the reverse of the body; it keeps what that needs of each turn,
              and nothing that follows from K alone
    """

    block: Block
    length: Size
    carried: int
    scanned: int
    backwards: bool = False
    higher_order = True

    def type(self, *types: NdArrayType) -> Types:
        carry, rows, constants = self.parts(types)
        for row in rows:
            if not row.rank or row.shape[0] != self.length:
                raise ShapeError(
                    f"an array that a loop runs over must have {self.length} rows",
                    f"it is {row}",
                    "reshape it",
                )
        wanted = (*carry, *(row.with_shape(row.shape[1:]) for row in rows), *constants)
        if self.block.inputs != wanted or self.block.outputs[: self.carried] != carry:
            raise TypeMismatch(
                "the body of a loop must take what it is given, and return what it carries as it got it",
                f"it goes from {self.block.inputs} to {self.block.outputs}, and is given {wanted}",
                "keep the types of what is carried",
            )
        return (*carry, *(self._in_row(y) for y in self.block.outputs[self.carried :]))

    def ref(self, *arrays: Array) -> Any:
        carry, rows, constants = self.parts(arrays)
        (length,) = numbers((self.length,))
        outputs = self.block.outputs[self.carried :]
        stacks = [np.zeros(numbers(self._in_row(y).shape), y.dtype.numpy) for y in outputs]
        for t in reversed(range(length)) if self.backwards else range(length):
            results = self.block.evaluate(*carry, *(row[t] for row in rows), *constants)
            carry = tuple(results[: self.carried])
            for stack, y in zip(stacks, results[self.carried :], strict=True):
                stack[t] = y
        return (*carry, *stacks)

    def parts(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """Arguments, or what belongs to them: carried, scanned and constant ones."""
        c, x = self.carried, self.carried + self.scanned
        return tuple(values[:c]), tuple(values[c:x]), tuple(values[x:])

    def pruned(self, needed: Sequence[bool]) -> tuple[Op, Sequence[int], Sequence[int]] | None:
        """Without the rows nobody reads, and without what only they needed."""
        outputs = [i for i, wanted in enumerate(needed) if wanted or i < self.carried]
        if len(outputs) == len(needed):
            return None
        term = _results(self.block.term, outputs)
        ignored = unread(term)
        inputs = [i for i in range(len(self.block.inputs)) if i < self.carried or i not in ignored]
        scanned = sum(self.carried <= i < self.carried + self.scanned for i in inputs)
        block = Block(narrowed(term, [i in inputs for i in range(len(self.block.inputs))]))
        return Scan(block, self.length, self.carried, scanned, self.backwards), inputs, outputs

    def optic(self, reverse: Reverse, *types: NdArrayType) -> tuple[Term, Term]:
        """The loop that keeps what its reverse needs, and the reverse."""
        inside, first_constant = self.block.inputs, self.carried + self.scanned
        constants = range(first_constant, len(inside))
        halves = split(reverse(self.block.term), len(inside), len(self.block.outputs), constants)
        count = len(self.block.outputs)
        # What lies in a row already, as X or Y, need not be laid in another.
        rows = [p is not None and p >= self.carried for p in halves.inputs]
        results = [p is not None and p >= self.carried for p in halves.outputs]
        stacked = [i for i, known in enumerate(zip(rows, results, strict=True)) if not any(known)]
        forward = _results(halves.forward, [*range(count), *(count + i for i in stacked)])
        loop = Scan(Block(forward), self.length, self.carried, self.scanned, self.backwards)

        def run(*arguments: Any) -> Any:
            values = loop.apply(*arguments)
            new = iter(values[count:])
            residual = [
                arguments[x]
                if x is not None and is_row
                else values[y]
                if y is not None and is_result
                else next(new)
                for x, y, is_row, is_result in zip(halves.inputs, halves.outputs, rows, results, strict=True)
            ]
            return [*values[:count], *residual, *arguments[first_constant:]]

        term = build(run, types)
        residual = tuple(term.target.table[count:])
        return term, self._reversed(halves.backward, residual, len(halves.inputs))

    def _reversed(self, body: Term, residual: Objects, saved: int) -> Term:
        """M ⊗ B′ → A′: a loop the other way, that adds up the cotangents of the constants."""
        carry, rows, constants = (tuple(filter(is_differentiable, p)) for p in self.parts(self.block.inputs))
        outputs = tuple(filter(is_differentiable, self.block.outputs))
        c, m = len(carry), len(residual)

        def turn(*arguments: Any) -> Any:
            dc, dk, given = arguments[:c], arguments[c : c + len(constants)], arguments[c + len(constants) :]
            count = len(outputs) - c
            stacked, dy, k = given[:saved], given[saved : saved + count], given[saved + count :]
            gradients = body.apply(*stacked, *k, *dc, *dy)
            new_dk = [total + d for total, d in zip(dk, gradients[c + len(rows) :], strict=True)]
            return [*gradients[:c], *new_dk, *gradients[c : c + len(rows)]]

        def run(*arguments: Any) -> Any:
            kept, k, cotangents = arguments[:saved], arguments[saved:m], arguments[m:]
            zeros = [Constant(type, 0)() for type in constants]
            inside = [*carry, *constants, *(a.type.with_shape(a.shape[1:]) for a in (*kept, *cotangents[c:]))]
            block = Block(build(turn, [*inside, *(a.type for a in k)]))
            count = c + len(constants)
            loop = Scan(block, self.length, count, len(inside) - count, not self.backwards)
            results = loop.apply(*cotangents[:c], *zeros, *kept, *cotangents[c:], *k)
            return [*results[:c], *results[count:], *results[c:count]]

        rows_of_outputs = [self._in_row(y) for y in outputs[c:]]
        return build(run, [*residual, *outputs[:c], *rows_of_outputs])

    def _in_row(self, type: NdArrayType) -> NdArrayType:
        return type.with_shape((self.length, *type.shape))

    @classmethod
    def examples(cls) -> Examples:
        h, x, k = NdArrayType((2,)), NdArrayType((2,)), NdArrayType((2, 2))

        def body(h: Any, x: Any, k: Any) -> Any:
            new = tanh(h @ k + x)
            return new, new * x

        block = Block(build(body, [h, x, k]))
        swap = Block(build(lambda a, b: (b, a * b), [h, h]))
        types = (h, NdArrayType((3, 2)), k)
        return [
            (cls(block, 3, 1, 1), types),
            (cls(block, 3, 1, 1, backwards=True), types),
            (cls(block, 0, 1, 1), (h, NdArrayType((0, 2)), k)),
            (cls(swap, 4, 2, 0), (h, h)),
        ]


class Cond(Control):
    """A branch: y = then(x) where the condition holds, otherwise(x) where it does not.

    Type:     (bool[], X…) -> (Y…), for then, otherwise : (X…) -> (Y…)
    Raises:   DtypeError, ShapeError if the condition is not one truth value; TypeMismatch if the
              branches do not fit
    Gradient: the branch of the reverses
    """

    then: Block
    otherwise: Block
    higher_order = True

    def type(self, condition: NdArrayType, *types: NdArrayType) -> Types:
        if condition is not NdArrayType((), Dtype.bool):
            raise DtypeError(
                "the condition of a branch must be one truth value", f"it is {condition}", "reduce it first"
            )
        if (
            not self.then.inputs == self.otherwise.inputs == types
            or self.then.outputs != self.otherwise.outputs
        ):
            raise TypeMismatch(
                "both branches must take what they are given, and return the same types",
                f"they go from {self.then.inputs} to {self.then.outputs} and from {self.otherwise.inputs} "
                f"to {self.otherwise.outputs}",
                "give both the same types",
            )
        return self.then.outputs

    def ref(self, condition: Array, *arrays: Array) -> Any:
        return tuple((self.then if condition else self.otherwise).evaluate(*arrays))

    def optic(self, reverse: Reverse, *types: NdArrayType) -> tuple[Term, Term]:
        """The branch beside all its arguments, and the branch of the reverses."""
        values = len(self.then.outputs)
        then, otherwise = (
            Block(_results(joint, range(values, len(joint.target))))
            for joint in (reverse(self.then.term), reverse(self.otherwise.term))
        )
        cotangents = filter(is_differentiable, self.then.outputs)
        return (
            build(lambda *a: [*self.apply(*a), *a], types),
            build(lambda *a: list(Cond(then, otherwise).apply(*a)), [*types, *cotangents]),
        )

    @classmethod
    def examples(cls) -> Examples:
        x = NdArrayType((2,))
        then = Block(build(lambda x, y: x * y, [x, x]))
        otherwise = Block(build(lambda x, y: tanh(x), [x, x]))
        return [(cls(then, otherwise), (NdArrayType((), Dtype.bool), x, x))]


class Checkpoint(Control):
    """A term whose inner values are computed again for the reverse: the residual is its arguments.

    Type:     (X…) -> (Y…), for block : (X…) -> (Y…)
    Gradient: that of the block, computed from its arguments once the cotangents are there
    Source:   Chen et al. 2016 (arXiv:1604.06174), section 4
    """

    block: Block
    higher_order = True

    def type(self, *types: NdArrayType) -> Types:
        if self.block.inputs != types:
            raise TypeMismatch(
                f"the term must be given {self.block.inputs}", f"it is given {types}", "check the sizes"
            )
        return self.block.outputs

    def ref(self, *arrays: Array) -> Any:
        return tuple(self.block.evaluate(*arrays))

    def body(self, *x: Any) -> Any:
        return list(self.block.term.apply(*x))

    def optic(self, reverse: Reverse, *types: NdArrayType) -> tuple[Term, Term]:
        """The term beside its arguments, and its whole reverse behind a barrier."""
        joint = reverse(self.block.term)
        cotangents = tuple(filter(is_differentiable, self.block.outputs))

        def again(*arguments: Any) -> Any:
            # Without the barrier, what the forward map computed would be kept and read.
            return list(joint.apply(*Barrier(len(arguments)).apply(*arguments))[len(self.block.outputs) :])

        return build(lambda *x: [*self.apply(*x), *x], types), build(again, [*types, *cotangents])

    @classmethod
    def examples(cls) -> Examples:
        x = NdArrayType((2,))
        return [(cls(Block(build(lambda x: tanh(tanh(x) * x), [x]))), (x,))]


def scan(
    body: Callable[[Any, Any], Any],
    initial: Any,
    arrays: Any = (),
    length: Size | None = None,
    backwards: bool = False,
) -> tuple[Any, Any]:
    """Run (c, y) = body(c, x) over the rows x of arrays; returns the last c, and all y in rows.

    `initial`, `arrays` and what the body returns are each a variable or a tuple of them. The body
    may read variables, and parameters, from around it.

    Raises: OptionError if there are no arrays and no length; ShapeError if rows differ in number
    """
    carry, rows = _tuple(initial), _tuple(arrays)
    if length is None:
        if not rows or not rows[0].shape:
            raise OptionError(
                "a loop must have rows to run over, or a length", "it has neither", "give length"
            )
        length = rows[0].shape[0]

    def turn(*arguments: Any) -> Any:
        c, x = arguments[: len(carry)], arguments[len(carry) :]
        result = body(_like(initial, c), _like(arrays, x))
        if not isinstance(result, tuple) or len(result) != 2:
            raise OptionError(
                "the body of scan must return what it carries and what it lays in a row",
                f"it returns {result!r}",
                "return for example (h, h)",
            )
        return [*_tuple(result[0]), *_tuple(result[1])]

    inside = [*(c.type for c in carry), *(x.type.with_shape(x.shape[1:]) for x in rows)]
    term, around = build_inside(turn, inside)
    results = Scan(Block(term), length, len(carry), len(rows), backwards).apply(*carry, *rows, *around)
    outputs = results[len(carry) :]
    return _like(initial, results[: len(carry)]), outputs[0] if len(outputs) == 1 else outputs


def repeat(body: Callable[..., Any], times: Size, *initial: Any) -> Any:
    """body(… body(body(x))), so many times."""
    carry = initial[0] if len(initial) == 1 else initial
    result, _ = scan(lambda c, _: (body(*_tuple(c)), ()), carry, length=times)
    return result


def cond(condition: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """then(*operands) where the condition, one truth value, holds, otherwise(*operands) where not.

    Both may read variables, and parameters, from around them.
    """
    types = [operand.type for operand in operands]
    built = [build_inside(branch, types) for branch in (then, otherwise)]
    around = {variable.wire: variable for _, captured in built for variable in captured}
    inputs = [*types, *(variable.type for variable in around.values())]
    place = {wire: len(types) + i for i, wire in enumerate(around)}

    def widened(term: Term, captured: Sequence[Any]) -> Block:
        read = [*range(len(types)), *(place[variable.wire] for variable in captured)]
        return Block(build(lambda *a: list(term.apply(*(a[i] for i in read))), inputs))

    results = Cond(*(widened(*each) for each in built)).apply(condition, *operands, *around.values())
    return results[0] if len(results) == 1 else results


def checkpoint(function: Callable[..., Any], *operands: Any) -> Any:
    """function(*operands), whose inner values are not kept for the reverse but computed again."""
    term, around = build_inside(function, [operand.type for operand in operands])
    results = Checkpoint(Block(term)).apply(*operands, *around)
    return results[0] if len(results) == 1 else results


def _results(term: Term, chosen: Sequence[int]) -> Term:
    """The term with these of its results."""

    def some(*arguments: Any) -> Any:
        results = term.apply(*arguments)
        return [results[i] for i in chosen]

    return build(some, list(term.source.table))


def _tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def _like(pattern: Any, values: Sequence[Any]) -> Any:
    return tuple(values) if isinstance(pattern, (tuple, list)) else values[0]
