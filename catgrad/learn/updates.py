"""The optimiser's update mapped over layers: loops over the parameters that a model reads as rows of tables.

The update of a layer is traced once, however many there are; numbers of the run, such as rates, before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from catgrad import ops
from catgrad.functors.parameters import with_distinct_names
from catgrad.functors.roll import MIN_LAYERS
from catgrad.learn.checks import checked_put
from catgrad.learn.optimiser import Optimiser, Run
from catgrad.naming import shared_name
from catgrad.ops.table import Stack, Unstack
from catgrad.terms.build import build
from catgrad.terms.partition import Values
from catgrad.terms.state import Parameter, Slot
from catgrad.terms.structural import Label
from catgrad.terms.term import Edge, Term, edges
from catgrad.terms.var import Var

Layer = tuple[int, ...]
"""The positions of a layer's parameters."""


def stacks_of(model: Term, parameters: Sequence[Slot]) -> list[list[Layer]]:
    """Find stacks of layers whose parameters a model has in tables: of each layer, their positions."""
    if not any(isinstance(op, Stack) for op in model.H.x.table):
        return []
    place = {slot.name: k for k, slot in enumerate(parameters)}
    values = Values(with_distinct_names(model), shared=False)
    of = {n.outputs[0]: place[n.op.name] for n in values.nodes if isinstance(n.op, Parameter)}
    tables = (n.inputs for n in values.nodes if isinstance(n.op, Stack) and of.keys() >= {*n.inputs})
    stacks, taken, end = list[list[Layer]](), set[int](), 0
    for rows in sorted(tuple(of[value] for value in table) for table in tables):
        if len({*rows} - taken) < max(len(rows), MIN_LAYERS):
            continue
        taken.update(rows)
        if rows[0] >= end or len(rows) != len(stacks[-1]):
            stacks.append([() for _ in rows])
            end = rows[1]
        stacks[-1] = [(*layer, k) for layer, k in zip(stacks[-1], rows, strict=True)]
    return stacks


Lens = Callable[[Optimiser, Run, Sequence[Var]], tuple[Var, ...]]
"""A direction of an optimiser, as a function of its arrays."""


def forward(optimiser: Optimiser, run: Run, arrays: Sequence[Var]) -> tuple[Var, ...]:
    """Map the state and value of a parameter to where the model is evaluated in training."""
    return (optimiser.get(*arrays),)


def put_back(optimiser: Optimiser, run: Run, arrays: Sequence[Var]) -> tuple[Var, ...]:
    """Map the state, value and gradient of a parameter to its new state and value."""
    *lens, gradient = arrays
    return checked_put(optimiser, run, tuple(lens), gradient)


@dataclass(frozen=True)
class Updates:
    """A direction of all parameters' optimisers: of each the optimiser, its arrays, and names of these."""

    run: Run
    optimisers: Sequence[Optimiser]
    arrays: Sequence[Sequence[Var]]
    names: Sequence[Sequence[str]]
    lens: Lens = put_back
    traced: dict[int, tuple[Sequence[Edge], list[int]]] = field(default_factory=dict)

    def apply(self, stacks: Sequence[Sequence[Layer]] = ()) -> list[Sequence[Var]]:
        """Return the results of each parameter; those of equal layers of stacks are computed in loops."""
        loops = {layers[0][0]: layers for stack in stacks for layers in self._equal(stack)}
        new: dict[int, Sequence[Var]] = {}
        for k, arrays in enumerate(self.arrays):
            if k in loops:
                new |= self._loop(loops[k])
            elif k not in new:
                new[k] = self._map(k, arrays)
        return [new[k] for k in range(len(self.arrays))]

    def _map(self, k: int, arrays: Sequence[Var], run: Run | None = None) -> tuple[Var, ...]:
        return self.lens(self.optimisers[k], run or self.run, arrays)

    def _loop(self, layers: Sequence[Layer]) -> Iterator[tuple[int, Sequence[Var]]]:
        """Yield the new arrays of each parameter of some layers, which a loop over these computes."""
        columns = [*zip(*layers, strict=True)]
        tables = [[*zip(*(self.arrays[k] for k in column), strict=True)] for column in columns]
        names = [[*zip(*(self.names[k] for k in column), strict=True)] for column in columns]
        counts: list[int] = []

        def update(_: object, rows: Sequence[Var]) -> tuple[tuple[()], list[Var]]:
            row = iter(rows)
            labelled = ([_labelled(each, next(row)) for each in of_one] for of_one in names)
            new = [*map(self._map, layers[0], labelled)]
            counts[:] = map(len, new)
            return (), [array for arrays in new for array in arrays]

        stack, unstack = Stack(len(layers)), Unstack(len(layers))
        every = [stack(*rows) for of_one in tables for rows in of_one]
        _, results = ops.scan(update, (), every)
        new = iter(unstack.apply(y) for y in ([results] if isinstance(results, Var) else results))
        for column, count in zip(columns, counts, strict=True):
            yield from zip(column, zip(*(next(new) for _ in range(count)), strict=True), strict=True)

    def _equal(self, stack: Sequence[Layer]) -> Iterator[Sequence[Layer]]:
        """Yield the longest runs of layers with the same updates, without parameters that stay constant."""
        ends = [t for t, pair in enumerate(pairwise(stack), 1) if not all(map(self._same, *pair))]
        for start, end in pairwise([0, *ends, len(stack)]):
            changing = [k for k in stack[start] if not self.optimisers[k].is_constant]
            if changing and end - start >= MIN_LAYERS:
                places = [stack[start].index(k) for k in changing]
                yield [tuple(layer[place] for place in places) for layer in stack[start:end]]

    def _same(self, one: int, other: int) -> bool:
        """Tell whether two parameters have the same update: one optimiser, or the same operations."""
        return self.optimisers[one] == self.optimisers[other] or self._alone(one) == self._alone(other)

    def _alone(self, k: int) -> tuple[Sequence[Edge], list[int]]:
        """Return the update of one parameter alone, as operations on numbered wires and its results."""
        if k not in self.traced:
            types = [array.type for array in self.arrays[k]]
            term = build(lambda *arrays: self._map(k, arrays, self.run.anew()), types)
            self.traced[k] = edges(term), term.t.table.tolist()
        return self.traced[k]


def _labelled(names: Sequence[str], row: Var) -> Var:
    return Label(shared_name(names))(row) if all(names) else row
