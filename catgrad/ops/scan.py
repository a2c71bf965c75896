"""Scan: a loop over rows whose body is a term."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from catgrad.dims import Size, numbers
from catgrad.errors import ShapeError, TypeMismatch
from catgrad.ops.transcendental import tanh
from catgrad.terms.block import Block, HigherOrder
from catgrad.terms.build import build
from catgrad.terms.dead_code import selected, used_inputs, with_inputs
from catgrad.terms.op import Examples, Op, Types
from catgrad.terms.partition import split
from catgrad.terms.structural import Constant, is_differentiable
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

Reverse = Callable[[Term], Term]
Objects = tuple[NdArrayType, ...]


class Scan(HigherOrder):
    """Scan: (cᵗ⁺¹, yᵗ) = body(cᵗ, xᵗ, k) for t = 0 … length - 1, with carry c and stacked rows y.

    `backwards`, t runs from length - 1 to 0; x and y keep their places.

    Type:     (C…, X[length, …]…, K…) -> (C…, Y[length, …]…), for body : (C…, X…, K…) -> (C…, Y…), with
              `carried` arrays C and `scanned` arrays X
    Raises:   TypeMismatch if the body does not fit
    Gradient: a backward loop with the reverse of the body; the residual of each iteration is stacked,
              except for loop invariants, which depend on K only
    """

    block: Block
    length: Size
    carried: int
    scanned: int
    backwards: bool = False

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
                "the body of a loop must take its operands, and return carries of unchanged types",
                f"it maps {self.block.inputs} to {self.block.outputs}, and its operands are {wanted}",
                "keep the types of the carries",
            )
        return (*carry, *(self._in_row(y) for y in self.block.outputs[self.carried :]))

    def ref(self, *arrays: Array) -> tuple[Array, ...]:
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
        """Split a sequence like the arguments: carried, scanned and constant."""
        c, x = self.carried, self.carried + self.scanned
        return tuple(values[:c]), tuple(values[c:x]), tuple(values[x:])

    def pruned(self, needed: Sequence[bool]) -> tuple[Op, Sequence[int], Sequence[int]] | None:
        """Remove unused rows, carries that only they themselves read, and dead code."""
        outputs, term = self._live([i for i, wanted in enumerate(needed) if wanted])
        inputs = sorted({*used_inputs([term]), *(i for i in outputs if i < self.carried)})
        if len(outputs) == len(needed) and len(inputs) == len(self.block.inputs):
            return None
        carried = sum(i < self.carried for i in inputs)
        scanned = sum(self.carried <= i < self.carried + self.scanned for i in inputs)
        block = Block(with_inputs(term, inputs))
        return Scan(block, self.length, carried, scanned, self.backwards), inputs, outputs

    def _live(self, outputs: Sequence[int]) -> tuple[Sequence[int], Term]:
        """Return these outputs with the carries that they depend on, and the body restricted to both."""
        while True:
            term = selected(self.block.term, outputs)
            carries = {i for i in used_inputs([term]) if i < self.carried}
            if carries.issubset(outputs):
                return outputs, term
            outputs = sorted(carries.union(outputs))

    def optic(self, reverse: Reverse, *types: NdArrayType) -> tuple[Term, Term]:
        """Return the loop that saves the residual, and its reverse."""
        inside, first_constant = self.block.inputs, self.carried + self.scanned
        count, every = len(self.block.outputs), range(len(inside))
        scanned, constants = every[self.carried : first_constant], every[first_constant:]
        halves = split(reverse(self.block.term), len(inside), count, scanned, constants)
        # Rows of X or Y exist already and are not stacked again; nor are values that an iteration hands to
        # the next, if this saves what it is handed.
        places = [*zip(halves.inputs, halves.outputs, strict=True)]
        rows = {i: x for i, (x, _) in enumerate(places) if x is not None and x >= self.carried}
        handed = {x: i for i, (x, _) in enumerate(places) if x is not None and x < self.carried}
        before = {i: handed[y] for i, (x, y) in enumerate(places) if x is None and y in handed}
        known = {i: y for i, (_, y) in enumerate(places) if y is not None}
        results = {i: y for i, y in known.items() if i in before or y >= self.carried}
        stacked = [i for i in range(len(places)) if i not in rows and i not in results]
        forward = selected(halves.forward, [*range(count), *(count + i for i in stacked)])
        loop = Scan(Block(forward), self.length, self.carried, self.scanned, self.backwards)

        def run(*arguments: Var) -> list[Var]:
            values = loop.apply(*arguments)
            saved = {i: values[y] for i, y in results.items()} | {i: arguments[x] for i, x in rows.items()}
            saved |= zip(stacked, values[count:], strict=True)
            return [*values[:count], *(saved[i] for i in range(len(places))), *arguments[first_constant:]]

        term = build(run, types)
        residual = tuple(term.target.table[count:])
        return term, self._reversed(halves.backward, residual, len(places), before)

    def _reversed(self, body: Term, residual: Objects, saved: int, before: Mapping[int, int]) -> Term:
        """Return M ⊗ B′ → A′: the backward loop, which accumulates the cotangents of constants.

        It carries the saved values in `before`, each from another that the iteration after it has saved.
        """
        carry, rows, constants = (tuple(filter(is_differentiable, p)) for p in self.parts(self.block.inputs))
        outputs = tuple(filter(is_differentiable, self.block.outputs))
        c, m, h = len(carry), len(residual), len(before)
        stacked = [i for i in range(saved) if i not in before]

        def iteration(*arguments: Var) -> list[Var]:
            handed, arguments = arguments[:h], arguments[h:]
            dc, dk, given = arguments[:c], arguments[c : c + len(constants)], arguments[c + len(constants) :]
            kept = dict(zip([*before, *stacked], [*handed, *given], strict=False))
            count, rest = len(outputs) - c, given[len(stacked) :]
            dy, k = rest[:count], rest[count:]
            gradients = body.apply(*(kept[i] for i in range(saved)), *k, *dc, *dy)
            new_dk = [total + d for total, d in zip(dk, gradients[c + len(rows) :], strict=True)]
            next = (kept[i] for i in before.values())
            return [*next, *gradients[:c], *new_dk, *gradients[c : c + len(rows)]]

        def run(*arguments: Var) -> list[Var]:
            kept, k, cotangents = arguments[:saved], arguments[saved:m], arguments[m:]
            zeros = [Constant(type, 0)() for type in constants]
            first, scanned = [kept[i] for i in before], [*(kept[i] for i in stacked), *cotangents[c:]]
            carried = [*first, *cotangents[:c], *zeros]
            types = [*(a.type for a in carried), *(a.type.with_shape(a.shape[1:]) for a in scanned)]
            block = Block(build(iteration, [*types, *(a.type for a in k)]))
            loop = Scan(block, self.length, len(carried), len(scanned), not self.backwards)
            results = loop.apply(*carried, *scanned, *k)[h:]
            count = c + len(constants)
            return [*results[:c], *results[count:], *results[c:count]]

        rows_of_outputs = [self._in_row(y) for y in outputs[c:]]
        return build(run, [*residual, *outputs[:c], *rows_of_outputs])

    def _in_row(self, type: NdArrayType) -> NdArrayType:
        return type.with_shape((self.length, *type.shape))

    @classmethod
    def examples(cls) -> Examples:
        h, x, k = NdArrayType((2,)), NdArrayType((2,)), NdArrayType((2, 2))

        def body(h: Var, x: Var, k: Var) -> tuple[Var, Var]:
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
