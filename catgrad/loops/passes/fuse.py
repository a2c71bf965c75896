"""Fusion: nests over the same elements become one, and what only one turn of a loop reads needs no array."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from catgrad.dims import Size
from catgrad.loops.ir.index import Atom, Index, Variable, index
from catgrad.loops.ir.nest import (
    Accumulate,
    Indices,
    Item,
    Kernel,
    Loop,
    MatMul,
    Sort,
    Store,
    may_fail,
    size_hint,
    statements,
    substituted,
)
from catgrad.loops.ir.scalar import Buffer, Number

Fit = Callable[[Loop, Loop], bool]
"""Whether a nest may become part of an earlier one, as far as their sizes go."""

LITTLE = 2**15
"""Turns of a nest that is fused even if its loops then cannot be shared among threads."""


def fused(items: Sequence[Item], fit: Fit = lambda loop, item: True) -> list[Kernel]:
    """The items as kernels, each within the last earlier nest that it may join and that it fits."""
    block: list[Item] = []
    for item in items:
        _insert(block, item, {}, fit)
    return _grouped(block)


def _grouped(block: Sequence[Item]) -> list[Kernel]:
    """One kernel for each nest, with the nests before it that set to a number what it updates."""
    kernels: list[Kernel] = []
    waiting: list[Item] = []
    updated = [_updated(item) for item in block]
    everything = set[Buffer]().union(*updated)
    for item, mine in zip(block, updated, strict=True):
        if _is_beginning(item) and not everything.isdisjoint(a for a, _ in item.writes):
            waiting.append(item)
            continue
        first = [each for each in waiting if not mine.isdisjoint(a for a, _ in each.writes)]
        waiting = [each for each in waiting if each not in first]
        if not isinstance(item, Loop) and (home := _home(kernels, item)) is not None:
            home.body += [*first, item]
        else:
            kernels.append(Kernel([*first, item]))
    return kernels


def _home(kernels: Sequence[Kernel], item: Item) -> Kernel | None:
    """The last kernel that writes what a single statement reads, if nothing is checked after it."""
    reads = {array for array, _ in item.reads}
    for kernel in reversed(kernels):
        if not reads.isdisjoint(array for array, _ in kernel.writes):
            return kernel
        if may_fail(kernel.body):
            return None
    return None


def _updated(item: Item) -> set[Buffer]:
    parts = [s for s in statements([item]) if isinstance(s, Accumulate) or (isinstance(s, MatMul) and s.add)]
    return {s.buffer for s in parts}


def _is_beginning(item: Item) -> bool:
    """Whether a nest does nothing but set elements to a number."""
    return all(isinstance(s, Store) and isinstance(s.scalar, Number) for s in statements([item]))


def _insert(block: list[Item], item: Item, values: dict[Variable, Index], fit: Fit | None = None) -> None:
    if isinstance(item, Loop) and not item.begins:
        place = _place(block, item, values, fit)
        if place is not None:
            inside = {**values, item.variable: index(place.variable)}
            for each in item.body:
                _insert(place.body, each, inside)
            return
    new = substituted(item, values)
    if _is_beginning(new) and not _is_read_outside(new, block):
        # Nothing comes before a number, so it does not keep what it is for from joining a loop.
        first = next((k for k, each in enumerate(block) if not _is_beginning(each)), len(block))
        block.insert(first, new)
    else:
        block.append(new)


def _is_read_outside(item: Item, block: Sequence[Item]) -> bool:
    """Whether a block has touched the array already, as where parts of it are written one after the other."""
    arrays = {array for array, _ in item.writes}
    return any(array in arrays for each in block for array, _ in (*each.reads, *each.writes))


def _place(block: list[Item], item: Loop, values: Mapping[Variable, Index], fit: Fit | None) -> Loop | None:
    """The loop of a block that a loop may join; an outermost one is asked whether it fits."""
    touched = _touched(item)
    for other in reversed(block):
        shared = touched.keys() & _touched(other).keys()
        if (
            isinstance(other, Loop)
            and (fit is None or (_is_worth_joining(other, item, shared) and fit(other, item)))
            and _may_join(other, item, values)
        ):
            return other
        if may_fail([other]):
            return None  # what is checked there may be an index here
        if shared & {array for array, _ in (*other.writes, *item.writes)}:
            return None  # it reads what the other writes, or writes what the other reads
    return None


def _is_worth_joining(loop: Loop, item: Loop, shared: Collection[Buffer]) -> bool:
    """Whether turns have something in common: an array through which both loops move alike."""
    there, here = _touched(loop), _touched(item)
    return any(
        _steps(array, there[array], loop.variable) & _steps(array, here[array], item.variable) - {0}
        for array in shared
    )


def _steps(array: Buffer, accesses: Sequence[Indices], variable: Variable) -> set[Size]:
    return {array.flat(indices).coefficient(variable) for indices in accesses}


def _may_join(loop: Loop, item: Loop, values: Mapping[Variable, Index]) -> bool:
    if loop.variable.extent != item.variable.extent or may_fail([loop, item]):
        return False
    if is_parallel(loop) and not is_parallel(item) and (_turns(item) > LITTLE or _spreads(item, values)):
        return False
    trial = {**values, item.variable: index(loop.variable)}
    there, here = _touched(loop), _touched(item)
    joined = set(trial.values())
    after = (
        _same_turn(loop.variable, written, tuple(i.substitute(trial) for i in read), joined)
        for array, written in loop.writes
        for read in here.get(array, ())
    )
    before = (
        _same_turn(loop.variable, read, tuple(i.substitute(trial) for i in written), joined)
        for array, written in item.writes
        for read in there.get(array, ())
    )
    return all(after) and all(before)


def _spreads(item: Loop, values: Mapping[Variable, Index]) -> bool:
    """Whether an inner loop adds to several elements in each turn, and so would keep others from vectors."""
    return bool(values) and any(isinstance(each, Loop) for each in item.body)


def _same_turn(variable: Variable, written: Indices, read: Indices, joined: set[Index]) -> bool:
    """Whether what is read was written in the same turn of the loop over a variable."""
    outer = {v for i in joined if (v := i.variable)}
    pinned = False
    for w, r in zip(written, read, strict=True):
        step = w.coefficient(variable)
        if step == 0:
            continue
        pinned = True
        if _part(w, outer) != _part(r, outer) or w.constant != r.constant:
            return False
        steps = [c for atom, c in w.terms if atom in outer]
        rest = Index(tuple(t for t in r.terms if t[0] not in outer))
        if any(not _below(rest, size) for size in steps):
            return False
    return pinned


def _part(whole: Index, variables: set[Variable]) -> tuple[tuple[Atom, Size], ...]:
    return tuple(term for term in whole.terms if term[0] in variables)


def _below(rest: Index, size: object) -> bool:
    greatest = rest.greatest
    room = None if greatest is None else size - greatest  # type: ignore[operator]
    return isinstance(room, int) and room >= 1


def is_parallel(loop: Loop) -> bool:
    """Prove that a loop carries no dependence: no two iterations write the same element."""
    inner = {v for item in loop.body for v in _variables(item)}
    written: dict[Buffer, list[Indices]] = {}
    for array, indices in loop.writes:
        written.setdefault(array, []).append(indices)
    return all(
        any(_separates(array, axis, accesses, loop.variable, inner) for axis in range(len(accesses[0])))
        for array, accesses in written.items()
    )


def _separates(
    array: Buffer, axis: int, accesses: Sequence[Indices], variable: Variable, inner: set[Variable]
) -> bool:
    """Prove that two iterations never meet along an axis, whichever accesses they make."""
    along = [indices[axis] for indices in accesses]
    step, moving = along[0].coefficient(variable), {variable, *inner}
    fixed = {Index(tuple(term for term in i.terms if term[0] not in moving)) for i in along}
    if step == 0 or any(i.coefficient(variable) != step for i in along) or len(fixed) > 1:
        return False
    if not moving.isdisjoint(fixed.pop().variables()):
        return False
    offsets = [d for i in along if isinstance(d := i.constant - along[0].constant, int)]
    if len(offsets) < len(along):
        return False
    rests = [Index(_part(i, inner), d - min(offsets)) for i, d in zip(along, offsets, strict=True)]
    apart = all(rest == Index() or _below(rest, step) or _below(rest, step * -1) for rest in rests)
    return apart and (len(along) == 1 or _stays_within(array, axis, accesses))


def _stays_within(array: Buffer, axis: int, accesses: Sequence[Indices]) -> bool:
    """Prove that equal elements have equal indices along an axis.

    Collapsed loops have one index that runs on beyond its axis, into the next element of the axis around.
    """
    around = array.order[: array.order.index(axis)] if axis in array.order else ()
    same = all(len({indices[a] for indices in accesses}) == 1 for a in around)
    return same or all(_below(indices[axis], array.type.shape[axis]) for indices in accesses)


def _variables(item: Item) -> set[Variable]:
    if not isinstance(item, Loop):
        return set()
    return {item.variable}.union(*map(_variables, item.body))


def _turns(item: Item) -> int:
    if not isinstance(item, Loop):
        return 1
    return size_hint(item.variable.extent) * sum(map(_turns, item.body))


def _touched(item: Item) -> dict[Buffer, list[Indices]]:
    touched: dict[Buffer, list[Indices]] = {}
    for array, indices in (*item.reads, *item.writes):
        touched.setdefault(array, []).append(indices)
    return touched


def shrink(nests: Sequence[Kernel], kept: Collection[Buffer]) -> None:
    """Take from each temporary array the axes along which only one turn of a loop reads what it wrote.

    Those that are `kept` are read elsewhere too. What products and sorts touch does not become a number, for
    they are given its address.
    """
    pointed = {
        array
        for nest in nests
        for s in statements(nest.body)
        if isinstance(s, (MatMul, Sort))
        for array, _ in (*s.reads, *s.writes)
    }
    where: dict[Buffer, set[int]] = {}
    accesses: dict[Buffer, list[Indices]] = {}
    for number, nest in enumerate(nests):
        for array, indices in (*nest.reads, *nest.writes):
            where.setdefault(array, set()).add(number)
            accesses.setdefault(array, []).append(indices)
    for array, places in where.items():
        if len(places) == 1 and array not in kept and array.place in ("workspace", "turn"):
            one = {
                a for a, size in enumerate(array.type.shape) if size == 1 or _is_one_turn(accesses[array], a)
            }
            is_number = one.issuperset(array.order)
            if (one or is_number) and not (is_number and array in pointed):
                array.order, array.place = tuple(a for a in array.order if a not in one), "turn"


def _is_one_turn(accesses: Sequence[Indices], axis: int) -> bool:
    variables = {indices[axis].variable for indices in accesses}
    return len(variables) == 1 and None not in variables
