"""Loop rolling: tandem repeats in a term become loops over tables of parameters.

Operations in topological order are a word, whose letters are operations with the types of their operands. A
stack of equal layers is a repetition f₁ ; … ; fₙ in this word, wired alike. It becomes one `Scan` of f over
the rows of `Stack`s: of its parameters, buffers, and other arrays that differ between layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from catgrad.functors.parameters import with_distinct_names
from catgrad.naming import numbered, numbers_of_layers, shared_name
from catgrad.ops.literal import array
from catgrad.ops.random import STREAM, Dropout, with_stream
from catgrad.ops.scan import Scan
from catgrad.ops.table import Stack, Unstack
from catgrad.terms.block import Block
from catgrad.terms.build import build
from catgrad.terms.partition import Node, Values
from catgrad.terms.state import Persistent, RunNumber, Update
from catgrad.terms.structural import Constant, Label
from catgrad.terms.term import Term
from catgrad.types import Array, Dtype

MIN_LAYERS = 3
"""The fewest equal layers that become a loop: two are shorter written out."""

MIN_OPERATIONS = 12
"""The fewest operations that a loop must save."""

Wire = tuple[int, ...]
"""A wire of a loop's body: its value in each segment."""


def roll(term: Term, arguments: Sequence[str] = (), results: Sequence[str] = ()) -> Term:
    """Return an equal term in which stacks of equal layers are loops; its arguments and results have names.

    Parameters, buffers and run numbers keep their order and their names. These are made distinct first,
    because streams of random numbers depend on them.
    """
    roller = _Roller(with_distinct_names(term), arguments, results)
    return roller.term() if roller.runs else term


class _Run:
    """A repetition wired alike: for each node of a segment, its `copies` in all segments.

    They read outputs of the same segment, `carries`, which are outputs of the segment before, `rows`, which
    are others from outside for each segment, or `constants` from outside.
    """

    def __init__(self, start: int, copies: Sequence[tuple[Node, ...]]) -> None:
        self.start, self.copies, self.count = start, copies, len(copies[0])
        self.end = start + len(copies) * self.count
        self.outputs = [wire for nodes in copies for wire in zip(*(n.outputs for n in nodes), strict=True)]
        self.produced = {value for wire in self.outputs for value in wire}
        self.carries: dict[Wire, Wire] = {}
        self.rows: list[Wire] = []
        self.constants: list[Wire] = []
        self.is_regular = self._classify()

    def _classify(self) -> bool:
        """Find the class of each operand; returns whether all have one."""
        own, shifted = {*self.outputs}, {wire[:-1]: wire for wire in self.outputs}
        every = (wire for nodes in self.copies for wire in zip(*(n.inputs for n in nodes), strict=True))
        for wire in dict.fromkeys(every):
            if wire in own:
                continue
            if self.produced.isdisjoint(wire):
                (self.rows if len({*wire}) > 1 else self.constants).append(wire)
            elif wire[0] not in self.produced and wire[1:] in shifted:
                self.carries[wire] = shifted[wire[1:]]
            else:
                return False
        return True


class _Roller:
    """A term as values and nodes, and the runs found among these."""

    def __init__(self, term: Term, arguments: Sequence[str], results: Sequence[str]) -> None:
        self.types = list(term.source.table)
        self.values = Values(term, shared=False)
        named = zip(self.values.results, results, strict=False)
        self.given = dict(enumerate(arguments)) | dict(named)
        self.values.names |= self.given
        every = self.values.nodes
        self.kept = [node for node in every if isinstance(node.op, Persistent)]
        self.values.names |= {n.outputs[0]: n.op.name for n in every if isinstance(n.op, Persistent)}
        numbers = [node for node in self.kept if isinstance(node.op, RunNumber)]
        first = {node.op: node.outputs[0] for node in numbers}
        self.number = {node.outputs[0]: first[node.op] for node in numbers}
        self.updates = [node for node in every if isinstance(node.op, Update)]
        nodes = [node for node in every if not isinstance(node.op, (Persistent, Update))]
        scalars = self._scalars(nodes)
        shared = self._shared(node for node in nodes if node.outputs in scalars)
        self.written = [*shared, *(node for node in nodes if node.outputs not in scalars)]
        self.nodes, self.streams = self._compared(self.written)
        self.last_reader = {value: k for k, node in enumerate(self.nodes) for value in node.inputs}
        for value in (*self.values.results, *(node.inputs[0] for node in self.updates)):
            self.last_reader[value] = len(self.nodes)
        self.runs = list(self._runs(0, len(self.nodes), self._word()))

    def _shared(self, scalars: Iterable[Node]) -> Iterable[Node]:
        """Return each scalar once, and read equal ones by one value: each layer computes its own rates."""
        first: dict[tuple[Any, ...], Node] = {}
        for op, inputs, outputs in scalars:
            same = tuple(self.number.get(value, value) for value in inputs)
            node = first.setdefault((op, same), Node(op, same, outputs))
            self.number |= zip(outputs, node.outputs, strict=True)
        return first.values()

    def _compared(self, nodes: Iterable[Node]) -> tuple[list[Node], dict[int, int]]:
        """Read each number of the run, and each stream of random numbers, by one value wherever it occurs.

        Returns the streams too, by their values.
        """
        compared, values = [], dict[int, int]()
        nodes = list(nodes)
        reader = {value: node for node in reversed(nodes) for value in node.inputs}
        for node in nodes:
            op, stream = with_stream(node.op)
            inputs = tuple(self.number.get(value, value) for value in node.inputs)
            if stream is not None:
                if stream not in values:
                    values[stream] = self._stream(node, reader)
                inputs = (*inputs, values[stream])
            compared.append(Node(op, inputs, node.outputs))
        return compared, {value: stream for stream, value in values.items()}

    def _stream(self, node: Node, reader: Mapping[int, Node]) -> int:
        """Return a new value, the stream of a node that draws, named after the layer or the array drawn."""
        value, drawn = len(self.values.types), node.outputs[0]
        self.values.types.append(STREAM)
        while drawn not in self.values.names and drawn in reader:
            drawn = reader[drawn].outputs[0]
        name = node.op.name if isinstance(node.op, Dropout) else self.values.names.get(drawn)
        if name:
            self.values.names[value] = f"{name}.stream"
        return value

    def _scalars(self, nodes: Sequence[Node]) -> set[Wire]:
        """Return the rates that nodes compute from run numbers: all layers read them, the first has them."""
        numbers = {node.outputs[0] for node in self.kept if isinstance(node.op, RunNumber)}
        free = set(numbers)
        for _, inputs, outputs in nodes:
            if free.issuperset(inputs) and not any(self.values.types[v].rank for v in outputs):
                free.update(outputs)
                numbers.update(outputs if not numbers.isdisjoint(inputs) else ())
        return {node.outputs for node in self.values.ancestors([*numbers], frozenset())}

    def _word(self) -> Array:
        """Return a number for each node, equal for equal operations on operands of equal types."""
        letters: dict[Any, int] = {}
        types, streams = self.values.types, self.streams
        keys = (
            (op, *(types[value] for value in inputs), streams.keys().isdisjoint(inputs))
            for op, inputs, _ in self.nodes
        )
        return np.array([letters.setdefault(key, len(letters)) for key in keys], np.int64)

    def _runs(self, start: int, end: int, word: Array) -> Iterator[_Run]:
        """Yield the runs among some nodes in order: the one that saves most, and those on its two sides."""
        for place, period, length in _repetitions(word[start:end]):
            run = self._run(start + place, period, length)
            if run is not None:
                yield from self._runs(start, run.start, word)
                yield run
                yield from self._runs(run.end, end, word)
                return

    def _run(self, place: int, period: int, length: int) -> _Run | None:
        """Return the run with the fewest carries, then with one first layer, that begins there.

        Where names tell neighbours apart, as the first and the last half of a block, a segment has both.
        """
        count = length // period
        if count < MIN_LAYERS:
            return None
        found = []
        for start in range(place, place + length - period * count + 1):
            segments = (self.nodes[start + t * period :][:period] for t in range(count))
            found.append(_Run(start, [*zip(*segments, strict=True)]))
        regular = [(run, self._first_layers(run)) for run in found if run.is_regular]
        costs = [(len(run.carries), len(first), k, run) for k, (run, first) in enumerate(regular) if first]
        return min(costs)[-1] if costs else self._run(place, 2 * period, length) if regular else None

    def _first_layers(self, run: _Run) -> set[tuple[str, ...]]:
        """Return the numbers of first layers in names of arrays; none if names differ otherwise."""
        first = set[tuple[str, ...]]()
        for wire in run.rows:
            names = [self.values.names.get(value, "") for value in wire]
            numbers = numbers_of_layers(names) if all(names) else {}
            if numbers is None:
                return set()
            first.add(tuple(numbers.values()))
        return first or {()}

    def term(self) -> Term:
        """Build the term with loops in the places of the runs."""

        def body(*arguments: Any) -> Any:
            known = {value: self._labelled(value, a) for value, a in enumerate(arguments)}
            known |= {node.outputs[0]: node.op() for node in self.kept}
            place = 0
            for run in self.runs:
                self._apply(self.written[place : run.start], known)
                self._loop(run, known)
                place = run.end
            self._apply([*self.written[place:], *self.updates], known)
            return [known[self.number.get(value, value)] for value in self.values.results]

        return build(body, self.types)

    def _apply(self, nodes: Sequence[Node], known: dict[int, Any]) -> None:
        for op, inputs, outputs in nodes:
            results = op.apply(*(known[self.number.get(value, value)] for value in inputs))
            known |= {v: self._labelled(v, y) for v, y in zip(outputs, results, strict=True)}

    def _labelled(self, value: int, variable: Any) -> Any:
        return variable if value in self.given else _label(variable, self.values.names.get(value))

    def _loop(self, run: _Run, known: dict[int, Any]) -> None:
        """Apply the loop of a run; what is read after it is known then."""
        stacked = [wire for wire in run.outputs if self._is_stacked(wire, run)]
        inputs, names = [*run.carries, *run.rows, *run.constants], self._names(run)

        def iteration(*arguments: Any) -> Any:
            inside = {wire: _label(a, names.get(wire)) for wire, a in zip(inputs, arguments, strict=True)}
            for nodes in run.copies:
                read, made = (zip(*each, strict=True) for each in list(zip(*nodes, strict=True))[1:])
                results = nodes[0].op.apply(*(inside[wire] for wire in read))
                inside |= {w: _label(y, names.get(w)) for w, y in zip(made, results, strict=True)}
            return [inside[wire] for wire in (*run.carries.values(), *stacked)]

        block = Block(build(iteration, [self.values.types[wire[0]] for wire in inputs]))
        known |= {w[0]: Constant(STREAM, self.streams[w[0]])() for w in run.constants if w[0] in self.streams}
        first, constants = ([known[wire[0]] for wire in wires] for wires in (run.carries, run.constants))
        tables = [self._table(wire, names.get(wire), known) for wire in run.rows]
        results = Scan(block, run.count, len(first), len(tables)).apply(*first, *tables, *constants)
        for new, result in zip(run.carries.values(), results, strict=False):
            known[new[-1]] = _label(result, names.get(new))
        for wire, result in zip(stacked, results[len(first) :], strict=True):
            rows = Unstack(run.count).apply(result)
            known |= {v: self._labelled(v, row) for v, row in zip(wire, rows, strict=True)}

    def _table(self, wire: Wire, name: str | None, known: Mapping[int, Any]) -> Any:
        """Stack the rows of a wire, or list them if they are streams."""
        if self.streams.keys() >= {*wire}:
            return _label(array([self.streams[value] for value in wire], Dtype.uint32), name)
        return Stack(len(wire))(*(known[value] for value in wire))

    def _is_stacked(self, wire: Wire, run: _Run) -> bool:
        """Tell whether values of a wire are read after a run, other than the last one of a carry."""
        later = [value for value in wire if self.last_reader.get(value, -1) >= run.end]
        return bool(later) and (later != [wire[-1]] or wire not in run.carries.values())

    def _names(self, run: _Run) -> dict[Wire, str]:
        """Name the wires of a loop's body without the number of the layer."""
        given = {wire: [self.values.names.get(v, "") for v in wire] for wire in (*run.rows, *run.outputs)}
        names = {wire: shared_name(each) for wire, each in given.items() if all(each)}
        words = zip(*(name.split(".") for name in names.values()), strict=False)
        layer = ".".join(first for first, *_ in takewhile(lambda each: len({*each}) == 1, words)) or "layer"
        # A carry of a loop over gradients, such as the sum of their squares, is no cotangent.
        layer = layer.removeprefix("d_")
        roles = ("total", "total") if any(name.startswith("d_") for name in names.values()) else ("x", "out")
        for role, wires in zip(roles, (run.carries, run.carries.values()), strict=True):
            for wire, name in zip(wires, numbered(f"{layer}.{role}", len(run.carries)), strict=True):
                names.setdefault(wire, name)
        return names | {w: names.get(w, f"{layer}.stream") for w in run.rows if w[0] in self.streams}


def _label(variable: Any, name: str | None) -> Any:
    return Label(name)(variable) if name else variable


def _repetitions(word: Array) -> Iterator[tuple[int, int, int]]:
    """Yield start, period and length of the longest run of each period, those that save most first."""
    found = []
    for period in _periods(word):
        differing = np.flatnonzero(word[:-period] != word[period:])
        ends = np.concatenate([[-1], differing, [len(word) - period]])
        longest = int(np.argmax(np.diff(ends)))
        length = int(ends[longest + 1] - ends[longest]) - 1 + period
        saved = (length // period - 1) * period
        if length // period >= MIN_LAYERS and saved >= MIN_OPERATIONS:
            found.append((-saved, period, int(ends[longest]) + 1, length))
    for _, period, start, length in sorted(found):
        yield start, period, length


def _periods(word: Array) -> set[int]:
    """Return the distances between equal factors of a word, one and the next, of all lengths 2ᵏ."""
    periods: set[int] = set()
    length = 1
    while length < len(word):
        order = np.argsort(word, kind="stable")
        equal = word[order[1:]] == word[order[:-1]]
        periods.update(np.diff(order)[equal].tolist())
        pairs = word[:-length] * (word.max() + 1) + word[length:]
        word = np.unique(pairs, return_inverse=True)[1].reshape(-1)
        length *= 2
    return periods
