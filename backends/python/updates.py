"""Outlining of optimisers: equal updates of parameters become calls of one function of any shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from catgrad.naming import Namer
from catgrad.printing.dialect import Call, Literal
from catgrad.programs.ports import Port, Role
from catgrad.programs.program import Apply, Function

from .loops import Loop
from .outline import MIN_OPERATIONS, called

Values = tuple[int, ...]


@dataclass(frozen=True)
class Update:
    """The elementwise operations from a parameter's state, value and gradient to its new state and value.

    `places` are theirs in the function, and `numbers` the scalars that they read.
    """

    function: Function
    states: tuple[str, ...]
    arrays: Values
    results: Values
    places: Values
    numbers: Values

    @property
    def body(self) -> tuple[Apply, ...]:
        """The operations, in order."""
        return tuple(self.function.body[k] for k in self.places)

    def key(self, known: dict[Any, int]) -> tuple[Any, ...]:
        """Return what equal updates share, by value numbering: operations and dtypes, but not shapes."""
        types, arguments = self.function.types, (*self.arrays, *self.numbers)
        number = {v: known.setdefault((k, types[v].dtype), len(known)) for k, v in enumerate(arguments)}
        for op, inputs, (output,) in self.body:
            same = (op.digits, op.weak) if isinstance(op, Literal) else op
            read = (number[v] for v in inputs)
            value = same, types[output].dtype, *(sorted(read) if op.commutative else read)
            number[output] = known.setdefault(value, len(known))
        return self.states, *(number[v] for v in (*arguments, *self.results))

    def calling(self, function: Function) -> Apply:
        """Return a call of a function that is equal to the update."""
        return Apply(Call(function), (*self.arrays, *self.numbers), self.results)

    def outlined(self, name: str) -> Function:
        """Return the update as a function; what it computes has no shape, for that is any."""
        f, arguments = self.function, (*self.arrays, *self.numbers)
        own = [*self.states, "parameter", "gradient", *(f.names.get(v, "number") for v in self.numbers)]
        new = zip(self.results, (f"new_{each}" for each in own), strict=False)
        computed = {v for apply in self.body if apply.inputs for v in apply.outputs}
        return Function(
            name=name,
            arguments=arguments,
            body=self.body,
            results=self.results,
            types=tuple(t.with_shape(()) if v in computed else t for v, t in enumerate(f.types)),
            inputs=tuple(Port(Role.INPUT, n, f.types[v]) for v, n in zip(arguments, own, strict=True)),
            outputs=tuple(Port(Role.OUTPUT, "", f.types[v]) for v in self.results),
            names=dict(zip(arguments, own, strict=True)) | dict(new),
            doc="Update of a parameter: its new state and value, from its gradient.",
        )


def with_updates(
    functions: Sequence[Function], name: str, reserved: Iterable[str]
) -> tuple[list[Function], set[str]]:
    """Replace equal updates in functions, and in those that they call, by calls of one with this name.

    Returns the names of such functions too, whose arrays may have any shape.
    """
    every = {f.name: f for top in functions for f in (*called(top).values(), top)}
    known: dict[Any, int] = {}
    found = {f.name: [(each, each.key(known)) for each in _updates(f)] for f in every.values()}
    alike: dict[Any, list[Update]] = {}
    for update, key in chain(*found.values()):
        alike.setdefault(key, []).append(update)
    namer = Namer((*reserved, *every))
    new = {key: same[0].outlined(namer.fresh(name)) for key, same in alike.items() if len(same) > 1}
    changed: dict[str, Function] = {}
    for f in every.values():
        updates = [(each, new[key]) for each, key in found[f.name] if key in new]
        calls = {each.places[-1]: each.calling(function) for each, function in updates}
        # Numbers stay: other operations may read them, and one that nobody reads has no line.
        inside = {k for each, _ in updates for k in each.places if f.body[k].inputs} - calls.keys()
        body = (calls.get(k) or _calling(apply, changed) for k, apply in enumerate(f.body) if k not in inside)
        changed[f.name] = replace(f, body=tuple(body))
    return [changed[f.name] for f in functions], {f.name for f in new.values()}


def _calling(apply: Apply, changed: Mapping[str, Function]) -> Apply:
    """Replace functions that are called by the changed ones."""
    loop = Loop.of(apply)
    if loop:
        body = tuple(_calling(each, changed) for each in loop.body.body)
        return replace(loop, body=replace(loop.body, body=body)).apply
    if isinstance(apply.op, Call):
        return apply._replace(op=Call(changed[apply.op.function.name], apply.op.only))
    return apply


def _updates(function: Function) -> list[Update]:
    """List the updates of parameters, in the order in which they end."""
    return sorted(_of_parameters(function), key=lambda update: update.places[-1])


def _of_parameters(function: Function) -> Iterator[Update]:
    """Yield the updates of the parameters whose gradient and new value have names."""
    cones = _Cones(function)
    value = {name: v for v, name in function.names.items() if not cones.is_number(v)}
    for parameter in value:
        end = f".{parameter}"
        if {f"d_{parameter}", f"new_{parameter}"} <= value.keys():
            old = [name for name in value if name.endswith(end) and f"new_{name}" in value]
            arrays = tuple(value[name] for name in (*old, parameter, f"d_{parameter}"))
            results = tuple(value[f"new_{name}"] for name in (*old, parameter))
            places = cones.between(arrays, results)
            if sum(bool(function.body[k].inputs) for k in places) >= MIN_OPERATIONS:
                read = dict.fromkeys(v for k in places for v in function.body[k].inputs)
                numbers = (v for v in read if v not in arrays and cones.producer.get(v) not in places)
                states = tuple(name.removesuffix(end) for name in old)
                yield Update(function, states, arrays, results, places, tuple(numbers))


class _Cones:
    """The operations of a function by the values that they compute and read; results are read at its end."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.producer = {v: k for k, apply in enumerate(function.body) for v in apply.outputs}
        self.readers: dict[int, set[int]] = {v: {len(function.body)} for v in function.results}
        for k, apply in enumerate(function.body):
            for v in apply.inputs:
                self.readers.setdefault(v, set()).add(k)

    def between(self, arrays: Values, results: Values) -> Values:
        """Return the places of what computes results of arrays and numbers, elementwise and for nobody else.

        There are none if other operations take part, or if others read what lies between.
        """
        found, waiting = set[int](), [*results]
        while waiting:
            v = waiting.pop()
            k = self.producer.get(v)
            op = None if k is None else self.function.body[k].op
            if v in arrays or k in found or (self.is_number(v) and not isinstance(op, Literal)):
                continue
            if k is None or not (isinstance(op, Literal) or (op and op.elementwise)):
                return ()
            found.add(k)
            waiting += self.function.body[k].inputs
        last, body = max(found, default=0), self.function.body
        computed = [v for k in found if body[k].inputs for v in body[k].outputs]
        others = {v: self.readers.get(v, set()) - found for v in computed}
        if any(min(places) < last if v in results else True for v, places in others.items() if places):
            return ()
        return tuple(sorted(found))

    def is_number(self, value: int) -> bool:
        """Tell whether a value is a scalar."""
        return self.function.types[value] is not None and self.function.types[value].rank == 0
