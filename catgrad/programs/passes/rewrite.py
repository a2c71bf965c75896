"""Rewriting: one forward sweep that replaces operations by values; most passes are made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.types import NdArrayType

Values = tuple[int, ...]
Rule = Callable[["Rewriter", Apply], Values | None]

Pass = Callable[[Function], Function]
"""A transformation of a function that keeps its meaning."""


class Rewriter:
    """A function being rewritten: the new steps so far, and the new value of each old one."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.types = list(function.types)
        self.names = dict(function.names)
        self.body: list[Apply] = []
        self.producer: dict[int, Apply] = {}
        self._stands_for: dict[int, int] = {}
        self._arguments = frozenset(function.arguments)

    def sweep(self, rule: Rule) -> Function:
        """Apply `rule` to each operation; it returns replacements for the outputs, or None to keep it."""
        for apply in self.function.body:
            inputs = self._current(apply.inputs)
            if inputs != apply.inputs:
                apply = apply._replace(inputs=inputs)
            instead = rule(self, apply)
            if instead is None:
                self.keep(apply)
                continue
            for old, new in zip(apply.outputs, instead, strict=True):
                self._stands_for[old] = new
                if old in self.names:
                    self.name(new, self.names[old])
        if len(self.body) == len(self.function.body) and not self._stands_for:
            return self.function
        return replace(
            self.function,
            body=tuple(self.body),
            results=self._current(self.function.results),
            types=tuple(self.types),
            names=self.names,
        )

    def apply(self, op: Op, *inputs: int) -> int:
        """Append an operation with one output, and return the output."""
        (type,) = op.outputs(*(self.types[value] for value in inputs))
        return self.apply_as(type, op, *inputs)

    def apply_as(self, type: NdArrayType, op: Op, *inputs: int) -> int:
        """Append an operation whose one output has a known type."""
        self.types.append(type)
        output = len(self.types) - 1
        self.keep(Apply(op, inputs, (output,)))
        return output

    def name(self, value: int, name: str) -> None:
        """Name a value, unless it is an argument or has a name already."""
        if value in self._arguments:
            return
        known = self.names.get(value)
        if known is None or _depth(name) < _depth(known):
            self.names[value] = name

    def op(self, value: int) -> Op | None:
        """Return the operation that computes a value; None for arguments."""
        apply = self.producer.get(value)
        return apply.op if apply else None

    def constant(self, value: int) -> float | None:
        """Return the number that fills a constant value, or None."""
        op = self.op(value)
        return op.value if isinstance(op, Constant) else None

    def keep(self, apply: Apply) -> None:
        """Append an operation as it is."""
        self.body.append(apply)
        for output in apply.outputs:
            self.producer[output] = apply

    def _current(self, values: Values) -> Values:
        now = self._stands_for
        return tuple([now.get(value, value) for value in values]) if now else values


def by_rule(rule: Rule) -> Pass:
    """Make of a rule the pass that applies it to each operation."""

    @wraps(rule)
    def swept(function: Function) -> Function:
        return Rewriter(function).sweep(rule)

    return swept


def _depth(name: str) -> tuple[bool, int, int]:
    return name.startswith("."), name.count("."), len(name)
