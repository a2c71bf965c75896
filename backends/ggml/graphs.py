"""Graphs of a function: its operations in the order in which they run, apart where a loop or a branch is.

A value that another graph reads is kept in memory. What depends on no argument is computed once, when the
graphs are built. The body of a loop is a graph that is computed repeatedly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from catgrad.dims import numbers
from catgrad.naming import Namer
from catgrad.ops.scan import Scan
from catgrad.printing.dialect import Dialect
from catgrad.printing.printer import Context, Lines
from catgrad.printing.statements import Line, Statement
from catgrad.programs.passes.prune import prune
from catgrad.programs.program import Apply, Function
from catgrad.programs.stages import stages, with_copies
from catgrad.types import NdArrayType

from .lines import GraphLines, LayerLines, Pairs
from .lists import Column, lists_in
from .nodes import Duplicate, DuplicateRows, LayerLoop


class Variable(NamedTuple):
    """A tensor in memory of its own, or a list of `rows` of them."""

    name: str
    type: NdArrayType
    rows: int = 0


@dataclass(frozen=True)
class Graph:
    """Statements that build a graph, the tensors kept after it is computed, and those it replaces."""

    name: str
    lines: tuple[Line, ...]
    kept: Pairs
    updates: Pairs
    is_constant: bool
    nodes: int
    kind: str = "Compute"


@dataclass(frozen=True)
class Repetition:
    """Steps repeated: carries with their first values, and rows of arrays that are read and written."""

    index: str
    length: str
    backwards: bool
    carries: Pairs
    rows: Pairs
    stacks: Pairs
    steps: tuple[Step, ...]
    kind: str = "Repeat"


@dataclass(frozen=True)
class Choice:
    """Steps of which those run that a condition chooses."""

    condition: str
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]
    kind: str = "Choose"


Step = Graph | Repetition | Choice


class Planner(Context):
    """Plan the graphs of one function; `slots` and `kept` are its tensors between them."""

    def __init__(self, dialect: Dialect, namer: Namer, symbols: Sequence[str]) -> None:
        super().__init__(dialect, namer)
        self.symbols = {name: name for name in symbols}
        self.slots: list[Variable] = []
        self.kept: list[Variable] = []
        self.graphs: list[Graph] = []

    def slot(self, name: str, type: NdArrayType, rows: int = 0) -> str:
        """Add a tensor in memory of its own, or a list of them."""
        self.slots.append(Variable(self.namer.fresh(name), type, rows))
        return self.slots[-1].name

    @property
    def tensors(self) -> int:
        """Number of tensors in memory of their own."""
        return sum(slot.rows or 1 for slot in self.slots)

    def slots_of(self, function: Function, values: Sequence[int], other: str) -> list[str]:
        """Add a tensor for each of these values; `other` is the name of those without one."""
        return [self.slot(function.names.get(value) or other, function.types[value]) for value in values]

    def nodes(self, function: Function, arguments: Sequence[str]) -> tuple[tuple[Line, ...], str]:
        """Print the statements of a block of nodes, and the expression of its result."""
        names = {value: name for value, name in function.names.items() if value not in function.results}
        lines, (result,) = Lines(self, replace(function, names=names), arguments).print()
        if lines and isinstance(last := lines[-1], Statement) and last.targets == (result,):
            return lines[:-1], last.expression
        return lines, result

    def steps(
        self, function: Function, arguments: Sequence[str], targets: Mapping[int, str]
    ) -> tuple[tuple[Step, ...], list[str]]:
        """Plan a function: `targets` maps positions of results to the tensors that they replace.

        Returns the steps, and the tensors of the other results.
        """
        members = dict(zip(function.arguments, arguments, strict=True))
        copied = {k for k, v in enumerate(function.results) if members.get(v) != targets.get(k)}
        listed = {k for k in copied if function.results[k] in lists_in(function)}
        function = with_copies(Duplicate(), function, copied - listed)
        function = with_copies(DuplicateRows(), function, listed)
        own = [v for k, v in enumerate(function.results) if k not in targets]
        updates = {targets[k]: function.results[k] for k in targets}
        updates = {place: value for place, value in updates.items() if members.get(value) != place}
        planned: list[Step] = []
        for stage in (parts := stages(function)):
            is_last = stage is parts[-1]
            outside = stage.read_later.union(own, () if is_last else updates.values())
            body = replace(function, body=stage.body)
            planned += self._graph(body, members, outside, updates if is_last else {}, stage.is_constant)
            planned += [self._nested(function, apply, members) for apply in stage.nested]
        return tuple(planned), [members[value] for value in own]

    def _graph(
        self,
        function: Function,
        members: dict[int, str],
        outside: frozenset[int],
        updates: Mapping[str, int],
        is_constant: bool,
    ) -> list[Step]:
        """Print the nodes of a level as a graph; the values that are needed outside become members."""
        made = [value for apply in function.body for value in apply.outputs]
        kept = [value for value in made if value in outside and value not in members]
        if not kept and not updates:
            return []
        arguments = tuple(members)
        segment = prune(
            replace(function, arguments=arguments, results=(*kept, *updates.values()), inputs=(), outputs=())
        )
        places = {value: place for place, value in updates.items()}
        printer = GraphLines(self, segment, [members[v] for v in arguments], places)
        lines, texts = printer.print()
        for value in kept:
            members[value] = self.namer.fresh(function.names.get(value) or "kept")
            rows = _length(function.types[value]) if value in lists_in(function) else 0
            self.kept.append(Variable(members[value], function.types[value], rows))
        new = zip(updates.items(), texts[len(kept) :], strict=True)
        pairs = [(*update, text) for update, text in new if update[1] not in printer.replaced]
        layers = [(p, text, _length(function.types[v])) for p, v, text in pairs if isinstance(p, Column)]
        graph = Graph(
            self.namer.fresh("constants" if is_constant else "graph"),
            (*lines, *self._replacing(layers)),
            tuple((members[v], text) for v, text in zip(kept, texts, strict=False)),
            tuple((place, text) for place, _, text in pairs if not isinstance(place, Column)),
            is_constant,
            _count(segment) + len(texts),
        )
        self.graphs.append(graph)
        return [] if is_constant else [graph]

    def _replacing(self, updates: Sequence[tuple[str, str, int]]) -> Iterator[LayerLines]:
        """Print a loop for each number of layers that replaces arrays of these by rows of lists."""
        row = self.dialect.macros["row"]
        for count in dict.fromkeys(count for _, _, count in updates):
            index = self.namer.scope().fresh("layer")
            pairs = [(row(place, index), row(text, index)) for place, text, each in updates if each == count]
            yield LayerLines(index, str(count), False, (), (), (), (), (), False, True, updates=tuple(pairs))

    def _nested(self, function: Function, apply: Apply, members: dict[int, str]) -> Step:
        op: Any = apply.op
        _, inputs, outputs = apply
        given = [members[value] for value in inputs]
        if isinstance(op.op, Scan):
            return self._loop(op.op, op.functions[0], function, apply, given, members)
        chosen = self.slots_of(function, outputs, "chosen")
        members |= zip(outputs, chosen, strict=True)
        then, otherwise = (self.steps(f, given[1:], dict(enumerate(chosen)))[0] for f in op.functions)
        return Choice(given[0], then, otherwise)

    def _loop(
        self,
        op: Scan,
        body: Function,
        function: Function,
        apply: Apply,
        given: Sequence[str],
        members: dict[int, str],
    ) -> Step:
        firsts, arrays, constants = op.parts(given)
        carried, rows, _ = op.parts(body.arguments)
        carries, elements = self.slots_of(body, carried, "carry"), self.slots_of(body, rows, "row")
        stacks = self.slots_of(function, apply.outputs[op.carried :], "rows")
        members |= zip(apply.outputs, [*carries, *stacks], strict=True)
        steps, written = self.steps(body, [*carries, *elements, *constants], dict(enumerate(carries)))
        return Repetition(
            self.namer.fresh("t"),
            self.size(op.length),
            op.backwards,
            tuple(zip(carries, firsts, strict=True)),
            tuple(zip(elements, arrays, strict=True)),
            tuple(zip(stacks, written, strict=True)),
            steps,
        )


def _length(type: NdArrayType) -> int:
    """Return the number of arrays of a list."""
    (length,) = numbers(type.shape[:1])
    return length


def _count(function: Function) -> int:
    """Count operations and their operands, those of loops over layers in each iteration."""
    total = 0
    for op, inputs, _ in function.body:
        (length,) = numbers((op.loop.length,)) if isinstance(op, LayerLoop) else (1,)
        total += length * _count(op.function) if isinstance(op, LayerLoop) else 1 + len(inputs)
    return total
