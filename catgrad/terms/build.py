"""Trace a Python function on variables to a term, in time linear in the number of operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catgrad.errors import CatgradError, OptionError, TermError, TypeMismatch
from catgrad.terms.op import BUILDER, Op, qualified, shortened
from catgrad.terms.origin import Origin, origin
from catgrad.terms.state import Persistent, Update
from catgrad.terms.structural import Copy, Discard
from catgrad.terms.term import Edge, Term, assemble, edges
from catgrad.terms.var import Var
from catgrad.types import NdArrayType


class TermBuilder:
    """A term under construction: wires and operations are appended one by one."""

    def __init__(self, around: TermBuilder | None = None) -> None:
        self.types: list[NdArrayType] = []
        self.origins: list[Origin | None] = []
        self.edges: list[Edge] = []
        self.finished = False
        self.around, self.captured = around, dict[int, int]()

    def wire(self, type: NdArrayType, made: Origin | None = None) -> int:
        """Append a wire, made at a line of users' code, and return its number."""
        self.types.append(type)
        self.origins.append(made)
        return len(self.types) - 1

    def apply(self, op: Op, arguments: tuple[Any, ...]) -> tuple[Var, ...]:
        """Append an operation. Raises: TypeMismatch, with the dotted name of the current scope."""
        if self.around is not None and isinstance(op, (Persistent, Update)):
            return self._outside(op)
        sources = self._wires(arguments, type(op).__name__)
        try:
            outputs = op.outputs(*(self.types[wire] for wire in sources))
        except CatgradError as error:
            raise error.about(where=self._place(sources)) from None
        here = origin()
        targets = tuple(self.wire(t, here) for t in outputs)
        self.edges.append(Edge(op, sources, targets))
        return tuple(Var(self, wire) for wire in targets)

    def splice(self, term: Term, arguments: tuple[Any, ...]) -> tuple[Var, ...]:
        """Append all operations of a term, applied to `arguments`."""
        sources = self._wires(arguments, "a term")
        found, wanted = [self.types[wire] for wire in sources], list(term.source.table)
        if found != wanted:
            raise TypeMismatch(
                f"a term from {wanted} must get arguments of these types",
                f"they are {found}",
                "check the layer's sizes",
                where=self._place(sources),
            )
        place: dict[int, int] = dict(zip(term.s.table.tolist(), sources, strict=True))
        every = edges(term)
        if self.around is not None:
            for edge in every:
                if isinstance(edge.op, (Persistent, Update)):
                    outside = (variable.wire for variable in self._outside(edge.op))
                    place |= dict(zip(edge.targets, outside, strict=True))
            every = tuple(edge for edge in every if not isinstance(edge.op, (Persistent, Update)))
        here = origin()
        for wire, label in enumerate(term.H.w.table):
            if wire not in place:
                place[wire] = self.wire(label, here)
        for op, ins, outs in every:
            self.edges.append(Edge(op, tuple(place[w] for w in ins), tuple(place[w] for w in outs)))
        return tuple(Var(self, place[wire]) for wire in term.t.table.tolist())

    def _place(self, sources: Sequence[int]) -> str:
        """Return the dotted name of the layer, the line that is running, and those that made these wires."""
        made = [f"{self.types[wire]} of {self.origins[wire]}" for wire in sources if self.origins[wire]]
        here = origin()
        on = f" on {' and '.join(made)}" if made else ""
        return ", ".join(filter(None, [qualified(), f"{here}{on}" if here else ""]))

    def finish(self, inputs: Sequence[int], results: Sequence[int]) -> Term:
        """Return the term, with explicit copies and discards."""
        self.finished = True
        uses = [0] * len(self.types)
        for wire in (*(w for edge in self.edges for w in edge.sources), *results):
            uses[wire] += 1
        structure: list[Edge] = []
        readers = {wire: self._readers(wire, n, structure) for wire, n in enumerate(uses) if n != 1}

        def read(wire: int) -> int:
            return readers[wire].pop() if wire in readers else wire

        body = [Edge(op, tuple(map(read, ins)), outs) for op, ins, outs in self.edges]
        return assemble(self.types, body + structure, inputs, [read(wire) for wire in results])

    def _readers(self, wire: int, count: int, structure: list[Edge]) -> list[int]:
        """Return `count` copies of `wire`, one for each of its consumers."""
        if count == 0:
            structure.append(Edge(Discard(self.types[wire]), (wire,), ()))
            return []
        readers, rest = [], wire
        for _ in range(count - 1):
            one, other = self.wire(self.types[wire]), self.wire(self.types[wire])
            structure.append(Edge(Copy(), (rest,), (one, other)))
            readers.append(one)
            rest = other
        return [rest, *reversed(readers)]

    def _wires(self, arguments: tuple[Any, ...], subject: str) -> tuple[int, ...]:
        arguments = tuple(map(self._here, arguments))
        for argument in arguments:
            if not isinstance(argument, Var) or argument.builder is not self or self.finished:
                raise TermError(
                    f"{subject} must take and return variables of the function being built only",
                    f"one is {shortened(argument)}",
                    "pass outside values in as arguments, or write ops.array(values) for a constant",
                    where=qualified(),
                )
        return tuple(argument.wire for argument in arguments)

    def _outside(self, op: Persistent | Update) -> tuple[Var, ...]:
        """Read an array that is kept between runs in the enclosing construction, before the loop."""
        if isinstance(op, Update) or self.around is None:
            raise TermError(
                "a buffer must be updated outside loops, branches and checkpoints",
                f"{op.name} is updated inside one",
                "return its new value, and update it afterwards",
                where=qualified(),
            )
        return tuple(map(self._here, self.around.apply(op, ())))

    def _here(self, argument: Any) -> Any:
        """Capture a variable of the enclosing construction, as a further input of this one."""
        if self.around is None or not isinstance(argument, Var) or argument.builder is self:
            return argument
        (wire,) = self.around._wires((argument,), "the body of a loop")
        if wire not in self.captured:
            self.captured[wire] = self.wire(argument.type)
        return Var(self, self.captured[wire])


def build(function: Callable[..., Any], types: Sequence[NdArrayType]) -> Term:
    """Trace `function` on variables of these types, and return its term.

    It may return one variable, or a sequence of them, which is empty for no output.
    Raises: TermError if it returns anything else, as None without `return`; the errors of the operations.
    """
    return _run(TermBuilder(), function, types)


def build_inside(function: Callable[..., Any], types: Sequence[NdArrayType]) -> tuple[Term, tuple[Var, ...]]:
    """Trace `function` inside another trace; return its term and the captured variables.

    Captured variables, parameters among them, are further inputs of the term, after those of the
    function, in the order of their first use.
    Raises: TermError if no enclosing function is being built; as build.
    """
    around = BUILDER.get(None)
    if not isinstance(around, TermBuilder):
        raise TermError("a loop must be inside a function that is being built", "it is not", "use build")
    builder = TermBuilder(around)
    term = _run(builder, function, types)
    return term, tuple(Var(around, wire) for wire in builder.captured)


def _run(builder: TermBuilder, function: Callable[..., Any], types: Sequence[NdArrayType]) -> Term:
    if isinstance(types, NdArrayType) or not all(isinstance(type, NdArrayType) for type in types):
        raise OptionError(
            "build must be given the types of the function's arguments",
            f"they are {types!r}",
            "write for example [NdArrayType((2, 3))]",
        )
    inputs = [builder.wire(t) for t in types]
    token = BUILDER.set(builder)
    try:
        results = function(*(Var(builder, wire) for wire in inputs))
    finally:
        BUILDER.reset(token)
    if results is None:
        raise TermError(
            "a function that is built must return its results",
            f"{shortened(function)} returns None",
            "end it with return y, or with return () if it has none",
            where=qualified(),
        )
    if not isinstance(results, (tuple, list)):
        results = (results,)
    wires = builder._wires(tuple(results), "what build is given")
    return builder.finish([*inputs, *builder.captured.values()], wires)
