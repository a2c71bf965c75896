"""Loop-invariant code motion, and elimination of common subexpressions between loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from catgrad.printing.dialect import Layers, Literal
from catgrad.programs.passes.prune import prune
from catgrad.programs.passes.share import share
from catgrad.programs.program import Apply, Function, Nested
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant

Values = tuple[int, ...]
Condition = Callable[[Op], bool]


@dataclass(frozen=True)
class Loop:
    """A loop over lists, whose body is straight-line code."""

    op: Layers
    body: Function
    inputs: Values
    outputs: Values

    @classmethod
    def of(cls, apply: Apply) -> Loop | None:
        """Return an operation as a loop over lists, if it is one."""
        op, inputs, outputs = apply
        if not (isinstance(op, Nested) and isinstance(op.op, Layers)):
            return None
        return cls(op.op, op.functions[0], inputs, outputs)

    @property
    def apply(self) -> Apply:
        """The operation."""
        return Apply(Nested(self.op, (self.body,)), self.inputs, self.outputs)

    @property
    def rows(self) -> dict[int, int]:
        """The rows in the body of the lists that the loop reads."""
        return dict(zip(self.op.parts(self.inputs)[1], self.op.parts(self.body.arguments)[1], strict=True))

    @property
    def constants(self) -> dict[int, int]:
        """The loop invariants in the body, by their values outside."""
        return dict(zip(self.op.parts(self.inputs)[2], self.op.parts(self.body.arguments)[2], strict=True))

    @property
    def filled(self) -> dict[int, int]:
        """The rows in the body of the lists that the loop fills."""
        c = self.op.carried
        return dict(zip(self.outputs[c:], self.body.results[c:], strict=True))


def is_literal(op: Op) -> bool:
    """Tell whether an operation is a number that is written where it is used."""
    return isinstance(op, Literal)


def is_fast(op: Op) -> bool:
    """Tell whether a later loop computes an operation again: views, and elementwise ones that cost little."""
    return op.rearranges or (op.elementwise and not op.costly)


def improved(function: Function, stays: Condition = is_literal, repeats: Condition = is_fast) -> Function:
    """Compute in loops over lists only what depends on the layer, and nothing slow again in a later loop.

    An operation that `stays` is computed in each iteration, one that `repeats` in each loop.
    """
    function = share(_without_invariants(function, stays))
    places = [k for k, apply in enumerate(function.body) if Loop.of(apply)]
    for k in places:
        for j in places[: places.index(k)]:
            function = _with_rows(function, j, k, repeats)
    return _narrowed(prune(function))


def _without_invariants(function: Function, stays: Condition) -> Function:
    """Move loop invariants out of loops, but for constants that they only return."""
    types, names, body = list(function.types), dict(function.names), list[Apply]()
    for apply in function.body:
        loop = Loop.of(apply)
        if loop is None:
            body.append(apply)
            continue
        inside, rest = share(loop.body), list[Apply]()
        outside = {inner: outer for outer, inner in loop.constants.items()}
        for each in inside.body:
            if isinstance(each.op, Nested) or not outside.keys() >= {*each.inputs}:
                rest.append(each)
                continue
            for v in each.outputs:
                outside[v] = len(types)
                types.append(inside.types[v])
                names |= {outside[v]: inside.names[v]} if v in inside.names else {}
            outer = (tuple(outside[v] for v in side) for side in (each.inputs, each.outputs))
            body.append(Apply(each.op, *outer))
            is_only_returned = isinstance(each.op, Constant) and {*each.outputs} <= {*inside.results}
            rest += [each] if stays(each.op) or is_only_returned else []
        known = {v for each in rest for v in each.outputs}.union(inside.arguments)
        new = [v for v in outside if v in _read(rest, inside.results) - known]
        inside = replace(inside, arguments=(*inside.arguments, *new), body=tuple(rest))
        body.append(replace(loop, body=inside, inputs=(*loop.inputs, *(outside[v] for v in new))).apply)
    return replace(function, types=tuple(types), names=names, body=tuple(body))


def _read(body: Sequence[Apply], results: Sequence[int]) -> set[int]:
    return {v for each in body for v in each.inputs}.union(results)


def _with_rows(function: Function, j: int, k: int, repeats: Condition) -> Function:
    """Let a loop read from lists what an earlier one computes of the same rows."""
    first, second = Loop.of(function.body[j]), Loop.of(function.body[k])
    assert first and second
    if first.op.length != second.op.length or first.filled.keys().isdisjoint(second.rows):
        return function
    same = _equal_values(first, second)
    types, lists = list(function.types), {row: outer for outer, row in first.filled.items()}
    inside, new = second.body, _fetched(second.body, same, repeats)
    for v in new:
        if same[v] not in lists:
            row = inside.types[v]
            lists[same[v]] = len(types)
            types.append(row.with_shape((second.op.length, *row.shape)))
            results, outputs = (*first.body.results, same[v]), (*first.outputs, lists[same[v]])
            first = replace(first, body=replace(first.body, results=results), outputs=outputs)
    arguments = _inserted(second, inside.arguments, new)
    rest = tuple(each for each in inside.body if {*new}.isdisjoint(each.outputs))
    second = replace(
        second,
        op=replace(second.op, scanned=second.op.scanned + len(new)),
        body=prune(replace(inside, arguments=arguments, body=rest)),
        inputs=_inserted(second, second.inputs, [lists[same[v]] for v in new]),
    )
    body = list(function.body)
    body[j], body[k] = first.apply, second.apply
    return replace(function, types=tuple(types), body=tuple(body))


def _inserted(loop: Loop, values: Values, rows: Sequence[int]) -> Values:
    """Insert rows after those that a loop reads."""
    end = loop.op.carried + loop.op.scanned
    return (*values[:end], *rows, *values[end:])


def _equal_values(first: Loop, second: Loop) -> dict[int, int]:
    """Map values in the body of the second loop to equal ones in that of the first: value numbering."""
    rows, constants = first.rows | first.filled, first.constants
    same = {inner: rows[outer] for outer, inner in second.rows.items() if outer in rows}
    same |= {inner: constants[outer] for outer, inner in second.constants.items() if outer in constants}
    computed = {_key(each.op, each.inputs): each.outputs[0] for each in _simple(first.body)}
    for each in _simple(second.body):
        if same.keys() >= {*each.inputs}:
            found = computed.get(_key(each.op, [same[v] for v in each.inputs]))
            same |= {each.outputs[0]: found} if found is not None else {}
    return same


def _simple(body: Function) -> Iterator[Apply]:
    """Yield the operations with one result that are no loops."""
    return (each for each in body.body if len(each.outputs) == 1 and not isinstance(each.op, Nested))


def _key(op: Op, inputs: Sequence[int]) -> tuple[Op, Values]:
    return op, tuple(sorted(inputs) if op.commutative else inputs)


def _fetched(body: Function, same: dict[int, int], repeats: Condition) -> list[int]:
    """Return the known values to read as rows; a body computes those itself whose operation it repeats."""
    producer = {each.outputs[0]: each for each in _simple(body) if each.outputs[0] in same}
    others = [each for each in body.body if producer.keys().isdisjoint(each.outputs)]
    stack, seen, fetched = [*_read(others, body.results)], set[int](), list[int]()
    while stack:
        v = stack.pop()
        if v in seen or v not in producer:
            continue
        seen.add(v)
        op, inputs, _ = producer[v]
        if inputs and not repeats(op):
            fetched.append(v)
        else:
            stack += inputs
    return sorted(fetched)


def _narrowed(function: Function) -> Function:
    """Leave out the rows that loops do not read, and the lists that nobody reads."""
    read, body = {*function.results}, list[Apply]()
    for apply in reversed(function.body):
        loop = Loop.of(apply)
        body.append(_narrow(loop, read).apply if loop else apply)
        read.update(body[-1].inputs)
    return replace(function, body=tuple(body[::-1]))


def _narrow(loop: Loop, read: set[int]) -> Loop:
    """Leave out the lists of a loop that are not read later, and the arrays that it does not read."""
    carried, end = loop.op.carried, loop.op.carried + loop.op.scanned
    kept = [k for k, v in enumerate(loop.outputs) if k < carried or v in read]
    inside = prune(replace(loop.body, results=tuple(loop.body.results[k] for k in kept)))
    used = _read(inside.body, inside.results)
    taken = [k for k, v in enumerate(inside.arguments) if k < carried or v in used]
    return Loop(
        replace(loop.op, scanned=sum(carried <= k < end for k in taken)),
        replace(inside, arguments=tuple(inside.arguments[k] for k in taken)),
        tuple(loop.inputs[k] for k in taken),
        tuple(loop.outputs[k] for k in kept),
    )
