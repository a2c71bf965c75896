"""Straight-line code without copies and labels, and the part of it that computes a reverse derivative."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from catgrad.functors.expand import Expand
from catgrad.functors.reverse import Reversed, reverse
from catgrad.ops.activations import Relu
from catgrad.ops.arithmetic import Add
from catgrad.ops.bounds import Clamp
from catgrad.ops.compare import Greater, GreaterEqual, Less, LessEqual
from catgrad.programs.program import Apply, Function, lower
from catgrad.quantisation.clamps import number, with_clamps
from catgrad.terms.build import build
from catgrad.terms.dead_code import eliminate_dead_code, selected
from catgrad.terms.op import Op
from catgrad.terms.structural import Copy, Discard, Label, is_differentiable
from catgrad.terms.term import Term
from catgrad.terms.var import Var


class Code:
    """A function, its operations on values that are no copies, the readers of each value, and names."""

    def __init__(self, function: Function) -> None:
        self.function, self.labels = function, dict[int, str]()
        self._root: dict[int, int] = {}
        for op, inputs, outputs in function.body:
            if isinstance(op, (Copy, Label)):
                self._root |= dict.fromkeys(outputs, self.root(inputs[0]))
                if isinstance(op, Label) and not op.is_relative:
                    self.labels.setdefault(self.root(inputs[0]), op.name)
        structural = (Copy, Label, Discard)
        body = [apply for apply in function.body if not isinstance(apply.op, structural)]
        self.results = [self.root(wire) for wire in function.results]
        self._set(with_clamps(body, function.results, self.root))

    def _set(self, body: Iterable[Apply]) -> None:
        self.body = [a._replace(inputs=tuple(map(self.root, a.inputs))) for a in body]
        self.readers: dict[int, list[Apply]] = defaultdict(list)
        for apply in self.body:
            for wire in apply.inputs:
                self.readers[wire].append(apply)

    def root(self, value: int) -> int:
        """Return the value that this one is a copy of."""
        return self._root.get(value, value)

    def reads(self, wire: int) -> int:
        """Count the reads of a value, results included."""
        return len(self.readers[wire]) + self.results.count(wire)

    def term(self) -> Term:
        """Return the function as a term, with bounds in place of selections."""

        def run(*arguments: Var) -> list[Var]:
            values = dict(zip(self.function.arguments, arguments, strict=True))
            for op, inputs, outputs in self.body:
                made = op.apply(*(values[wire] for wire in inputs))
                names = (self.labels.get(wire, "") for wire in outputs)
                named = (Label(n)(y) if n else y for n, y in zip(names, made, strict=True))
                values |= zip(outputs, named, strict=True)
            return [values[wire] for wire in self.results]

        return build(run, list(self.function.argument_types))

    def rewrite(self, body: Iterable[Apply], copies: Mapping[int, int]) -> None:
        """Replace the operations by others; `copies` maps values to those that they are now copies of."""
        self._root = {copy: copies.get(wire, wire) for copy, wire in self._root.items()} | dict(copies)
        self.results = [self.root(wire) for wire in self.function.results]
        self._set(body)

    def dependents(self, wires: Iterable[int]) -> set[int]:
        """Return the values that are computed from some of these, and these."""
        found = set(wires)
        for _, inputs, outputs in self.body:
            if not found.isdisjoint(inputs):
                found.update(outputs)
        return found

    def schedule(self, results: Iterable[int]) -> None:
        """Order operations by the results that need them: first those of the first, in the order that is."""
        makers = {wire: place for place, apply in enumerate(self.body) for wire in apply.outputs}
        done, order = set[int](), list[Apply]()
        for result in results:
            needed, stack = set[int](), [result]
            while stack:
                place = makers.get(stack.pop())
                if place is not None and place not in done | needed:
                    needed.add(place)
                    stack += self.body[place].inputs
            order += (self.body[place] for place in sorted(needed))
            done |= needed
        self._set(order)

    def added_to(self, result: int) -> set[int]:
        """Return the values of which a result is the sum, by moves of elements."""
        makers = {wire: apply for apply in self.body for wire in apply.outputs}
        found, stack = set[int](), [result]
        while stack:
            found.add(wire := stack.pop())
            if wire in makers and (makers[wire].op.rearranges or isinstance(makers[wire].op, Add)):
                stack += makers[wire].inputs
        return found

    def mask_by_outputs(self) -> set[int]:
        """Let comparisons with bounds read what is clamped in place of what was; return their results.

        Neither the input nor a mask is then kept for the reverse. At a bound, the gradient is 0.
        """
        makers = {wire: apply for apply in self.body for wire in apply.outputs}
        clamped = {(a.inputs[0], *bound): a.outputs[0] for a in self.body for bound in _bounds(a.op)}
        masks, body = set[int](), list[Apply]()
        for apply in self.body:
            if isinstance(apply.op, (Greater, GreaterEqual, Less, LessEqual)):
                x, limit = apply.inputs
                bound = number(limit, makers, self.root)
                for op in (apply.op, _STRICT.get(type(apply.op), apply.op)):
                    if bound is not None and (y := clamped.get((x, type(op), bound))) is not None:
                        apply = Apply(op, (y, limit), apply.outputs)
                        masks.update(apply.outputs)
            body.append(apply)
        self._set(body)
        return masks


_STRICT: Mapping[type[Op], Op] = {GreaterEqual: Greater(), LessEqual: Less()}


def _bounds(op: Op) -> list[tuple[type[Op], float]]:
    """Return the comparisons with its result that tell where an operation passes its input."""
    if isinstance(op, Relu):
        return [(LessEqual, 0.0), (Greater, 0.0)]
    if isinstance(op, Clamp):
        every = ((Greater, op.low), (Less, op.high))
        return [(kind, bound) for kind, bound in every if bound is not None]
    return []


def reverse_code(forward: Code, trained: Sequence[int]) -> Code:
    """Return A ⊗ B′ → B ⊗ A′, the values of a function and its cotangents of these arguments alone."""
    f = forward.term()
    differentiable = [k for k, type in enumerate(f.source.table) if is_differentiable(type)]
    chosen = [len(f.target) + differentiable.index(k) for k in trained]
    term = selected(reverse(f), [*range(len(f.target)), *chosen])
    term = eliminate_dead_code(Expand(lambda op: not isinstance(op, Reversed))(term))
    names = [port.name for port in forward.function.inputs]
    count = len(term.source) - len(names)
    return Code(lower(term, arguments=[*names, *(f"d_y{k}" for k in range(count))]))
