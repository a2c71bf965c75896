"""Reference interpreter of kernels: run statements element by element, in NumPy, and check each access."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np

from catgrad.dims import Dim, Size
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import is_parallel, verify
from catgrad.loops.ir.index import Atom, Either, Index, Quotient, Read, Variable
from catgrad.loops.ir.nest import (
    Accumulate,
    Await,
    Barrier,
    Check,
    Combine,
    Commit,
    Item,
    Let,
    Loop,
    MatMul,
    Reduce,
    Sort,
    Store,
)
from catgrad.loops.ir.scalar import (
    ROW_MAJOR,
    Bounds,
    Buffer,
    Compute,
    IndexValue,
    Load,
    Masked,
    Number,
    Scalar,
    Space,
)
from catgrad.loops.ir.steps import Attend, AttentionPart, For, Group, If, Lowered, Product, Step
from catgrad.loops.memory_plan import Plan
from catgrad.loops.passes.schedule.reductions import Differs
from catgrad.ops.attention import seen
from catgrad.ops.extrema import ArgMax, ArgMin
from catgrad.ops.random import Draw
from catgrad.ops.sort import ArgSort
from catgrad.programs.program import bind_symbols
from catgrad.terms.op import Op
from catgrad.types import Array, Dtype

Parts = tuple[Index, int, list[tuple[Variable, int]], list[tuple[Atom, int]]]
"""An index, and its constant, variables and other terms."""


def run(lowered: Lowered, *arrays: Any, plan: Plan | None = None, shuffled: bool = False) -> list[Array]:
    """Compute the results of a function's kernels; arguments change only where results overwrite them.

    With a memory plan, temporaries lie in its workspace. `shuffled` runs the iterations of parallel loops in
    a random order.

    Raises: AssertionError if an access is not within its buffer, an iteration of a parallel loop touches an
            element that another writes, or the kind of a loop cannot be proved; IndexError if a check fails
    """
    given = [np.array(array, a.type.dtype.numpy) for a, array in zip(lowered.arguments, arrays, strict=True)]
    sizes = bind_symbols([a.type for a in lowered.arguments], [array.shape for array in given])
    machine = Interpreter(sizes, plan, shuffled)
    for argument, array in zip(lowered.arguments, given, strict=True):
        machine.memory[argument] = array.reshape(-1)
    with np.errstate(all="ignore"):
        machine.steps(lowered.steps)
    shapes = [[machine.size(size) for size in r.type.shape] for r in lowered.results]
    return [machine.memory_of(r).reshape(s).copy() for r, s in zip(lowered.results, shapes, strict=True)]


class Touched:
    """The elements that one iteration of a loop has read and written, each an array and a number in it."""

    def __init__(self) -> None:
        self.read: set[tuple[Buffer, int]] = set()
        self.written: set[tuple[Buffer, int]] = set()

    def add(self, iterations: Sequence[Touched], of_kernel: bool) -> None:
        """Add those of iterations within it, perhaps with those of arrays that are private to a kernel."""
        read, written = ([getattr(each, kind) for each in iterations] for kind in ("read", "written"))
        for own, inner in ((self.read, read), (self.written, written)):
            if of_kernel:
                own.update(*inner)
            else:
                own.update(each for some in inner for each in some if not each[0].is_of_kernel)


class Interpreter:
    """Memory for every buffer, and the values of variables. It has no warp groups."""

    def __init__(self, sizes: Mapping[str, int], plan: Plan | None = None, shuffled: bool = False) -> None:
        self.sizes, self.plan = sizes, plan
        self.random = Random(0) if shuffled else None
        self.touched: list[Touched] = []
        self.teams = 0
        self.copies: list[list[tuple[Buffer, Any, Any]]] = [[]]
        """Groups of asynchronous copies: elements that are not written yet, the newest group last."""
        self.is_copying = False
        self.memory: dict[Buffer, Array] = {}
        self.values: dict[Variable, Any] = {}
        self.parallel: dict[Loop, bool] = {}
        self.indices: dict[int, Parts] = {}
        """Parts of indices by their ids; an index stays alive, so that no other gets its id."""
        self.places: dict[tuple[int, int], tuple[Any, Index, int, Index | None]] = {}
        """Offsets of elements, sizes of arrays, and numbers of elements that share offsets, by ids."""
        self.operations: dict[int, Op] = {}
        """Operations at the sizes of this run, by the numbers of scalars."""
        self.workspace = np.full(self.size(plan.size) if plan else 0, 0xA5, np.uint8)
        scratch = max(map(self.size, plan.scratch_sizes.values()), default=0) if plan else 0
        self.scratch = np.full(scratch, 0xA5, np.uint8)

    def size(self, size: Size) -> int:
        """Evaluate a size."""
        return int(size.substitute(self.sizes)) if isinstance(size, Dim) else size

    def memory_of(self, array: Buffer) -> Array:
        """Return the memory of an array, in row-major order; its initial contents are undefined."""
        place = array.home
        if place not in self.memory:
            self.memory[place] = self._new(place)
        return self.memory[place]

    def _new(self, array: Buffer) -> Array:
        dtype, count = array.type.dtype.numpy, self.size(array.size)
        if array.space is Space.LITERAL:
            whole = int if array.type.dtype is not Dtype.bool else "True".__eq__
            return np.array([*map(float if array.type.dtype.is_floating else whole, array.elements)], dtype)
        if self.plan is not None and array in self.plan.offsets:
            return np.frombuffer(self.workspace, dtype, count, self.size(self.plan.offsets[array]))
        if self.plan is not None and array in self.plan.scratch:
            return np.frombuffer(self.scratch, dtype, count, self.size(self.plan.scratch[array]))
        return np.full(count * dtype.itemsize, 0xA5, np.uint8).view(dtype)

    def steps(self, steps: Sequence[Step]) -> None:
        """Run steps in order."""
        for step in steps:
            if isinstance(step, For):
                count = self.size(step.variable.extent)
                for iteration in reversed(range(count)) if step.backwards else range(count):
                    self.values[step.variable] = iteration
                    rows = step.rows.items()
                    places = {row: iteration + (row in step.following) for row, _ in rows}
                    self.memory |= {row: self.row(row, arrays, places[row]) for row, arrays in rows}
                    self.steps(step.body)
            elif isinstance(step, If):
                self.steps(step.parts[0 if self.scalar(step.condition) else 1])
            elif isinstance(step, Product):
                self.product(step)
            elif isinstance(step, Attend):
                self.attend(step)
            elif isinstance(step, Group):
                self.steps(self.random.sample(step.body, len(step.body)) if self.random else step.body)
            else:
                verify(step)
                self.items(step.body)

    def row(self, row: Buffer, arrays: Sequence[Buffer], place: int) -> Array:
        """Return the memory of a row: a part of that of a stack, or that of an entry of a table."""
        if arrays[0].type == row.type:
            return self.memory_of(arrays[place])
        size = self.size(row.size)
        return self.memory_of(arrays[0])[place * size :][:size]

    def product(self, step: Product) -> None:
        """Compute a product for each value of the batch variables, summed over those of the others."""
        s, epilogue = step.matmul, step.epilogue
        batch, sums = ([range(self.size(v.extent)) for v in group] for group in (step.batch, step.sums))
        for at in product(*batch):
            self.values |= dict(zip(step.batch, at, strict=True))
            for number, summed in enumerate(product(*sums)):
                self.values |= dict(zip(step.sums, summed, strict=True))
                self.multiply(replace(s, add=number > 0))
            if epilogue.loads or epilogue.relu:
                self.write(s.buffer, s.indices, self.scalar(epilogue.scalar(Load(s.buffer, s.indices))))

    def attend(self, step: Attend) -> None:
        """Compute a part of attention for each value of the batch variables, with all scores at once."""
        query, key, feature, column = step.query, step.key, step.feature, step.column
        axes = ((query, feature), (key, feature), (key, column), (query, column), (query,), (query,))
        places = {
            AttentionPart.OUTPUT: ((query, column), (query,)),
            AttentionPart.QUERIES: ((query, feature),),
            AttentionPart.KEYS: ((key, feature), (key, column)),
        }[step.part]
        for at in product(*(range(self.size(v.extent)) for v in step.batch)):
            self.values |= dict(zip(step.batch, at, strict=True))
            operands = [self.table(s, a) for s, a in zip(step.operands, axes, strict=False)]
            results = attended(step, *operands)
            for load, variables, result in zip(step.results, places, results, strict=False):
                for where, value in np.ndenumerate(result):
                    self.values |= dict(zip(variables, where, strict=True))
                    self.write(load.buffer, load.indices, value)

    def table(self, scalar: Scalar, axes: Sequence[Variable]) -> Array:
        """Evaluate a scalar for all values of some variables."""
        every = np.empty([self.size(v.extent) for v in axes], scalar.dtype.numpy)
        for at in np.ndindex(every.shape):
            self.values |= dict(zip(axes, at, strict=True))
            every[at] = self.scalar(scalar)
        return every

    def items(self, items: Sequence[Item]) -> None:
        """Run items in order."""
        for item in items:
            if isinstance(item, Loop):
                self.loop(item)
            else:
                self.statement(item)

    def loop(self, loop: Loop) -> None:
        """Run each iteration of a loop; those of a parallel one must not depend on each other."""
        variable = loop.variable
        iterations = list(range(0, self.size(variable.extent), variable.step))
        if loop not in self.parallel:
            self.parallel[loop] = loop.axis.is_concurrent or is_parallel(loop)
        parallel = self.parallel[loop]
        if self.random and parallel:
            self.random.shuffle(iterations)
        has_teams = loop.axis.is_concurrent and loop.axis is not Axis.THREAD
        is_checked = parallel and (has_teams or len(iterations) > 1)
        around, own = self.touched, [Touched() for _ in iterations] if is_checked else []
        teams = self.teams
        self.teams = len(around) + 1 if has_teams else teams
        self.is_copying = loop.axis is Axis.COPY
        for place, number in enumerate(iterations):
            self.values[variable] = number
            if loop.axis.has_team:
                self.begin_team()
            self.touched = [*around, own[place]] if own else around
            if all(map(self.holds, loop.conditions)):
                self.items(loop.body[:-1] if loop.axis is Axis.EITHER else loop.body)
        assert_independent(own)
        if own and around:
            around[-1].add(own, of_kernel=len(around) > self.teams)
        self.touched, self.teams, self.is_copying = around, teams, False

    def begin_team(self) -> None:
        """Begin an iteration that a team runs."""
        self.copies = [[]]

    def holds(self, condition: Bounds) -> bool:
        """Test a condition."""
        i, size = self.index(condition.index), self.size(condition.size)
        return (not condition.below or i >= 0) and (not condition.above or i < size)

    def touch(self, array: Buffer, indices: Sequence[Index], place: Any, kind: str) -> None:
        """Record an access of an element; arrays private to a kernel are private to each iteration.

        Within a team, so are its shared memory, and the registers of its threads.
        """
        is_private = array.is_of_kernel
        if len(self.touched) <= (self.teams if is_private else 0) or (self.teams and array.is_register):
            return
        owner, (*_, element) = array if is_private else array.home, self.places[id(array), id(indices)]
        number = place if element is None or not is_private else self.index(element)
        touched = getattr(self.touched[-1], kind)
        if isinstance(number, np.ndarray):
            touched.update((owner, each) for each in number.ravel().tolist())
        else:
            touched.add((owner, number))

    def statement(self, s: Any) -> None:
        """Run one statement."""
        if isinstance(s, Check):
            if not 0 <= self.scalar(s.scalar) < self.size(s.size):
                raise IndexError("an index must lie inside its array, but one lies outside")
        elif isinstance(s, Let):
            self.memory_of(s.buffer)[0] = self.scalar(s.scalar)
        elif isinstance(s, Store):
            self.write(s.buffer, s.indices, self.scalar(s.scalar))
        elif isinstance(s, Accumulate):
            value = self.scalar(s.scalar)
            self.write(s.buffer, s.indices, s.op.compute(self.read(s.buffer, s.indices), value))
        elif isinstance(s, Commit):
            self.copies.append([])
        elif isinstance(s, Barrier) and s.pending is not None:
            self.finish_copies(s.pending)
        elif isinstance(s, (Barrier, Await, Combine)):
            pass  # iterations run one after the other, so that a register has the sum over all threads
        elif isinstance(s, Reduce):
            self.write(s.buffer, s.indices, self.reduced(s))
        elif isinstance(s, Sort):
            self.values[s.along] = np.arange(self.size(s.along.extent))
            self.write(s.buffer, s.indices, ArgSort(0, s.descending).compute(self.scalar(s.keys)))
        else:
            self.multiply(s)

    def finish_copies(self, pending: int) -> None:
        """Write what asynchronous copies have read, but for that of the last groups."""
        while len(self.copies) - 1 > pending:
            for array, place, value in self.copies.pop(0):
                self.memory_of(array)[place] = value

    def reduced(self, s: Reduce) -> Any:
        """Combine the scalars over all values of the axes, in order."""
        every = []
        for at in product(*(range(0, self.size(v.extent), v.step) for v in s.axes)):
            self.values |= dict(zip(s.axes, at, strict=True))
            every.append(self.scalar(s.scalar))
        if isinstance(s.op, ArgMax | ArgMin):
            return replace(s.op, axis=0).compute(np.array(every))
        total = np.asarray(s.identity, s.buffer.type.dtype.wide.numpy)[()]
        for each in every:
            total = s.op.compute(total, each.astype(total.dtype))
        return total

    def multiply(self, s: MatMul) -> None:
        """Compute the whole product vectorised: each variable is an axis."""
        kept, summed = (*s.rows, *s.columns), s.depth
        axes = np.ix_(*(np.arange(self.size(v.extent)) for v in (*kept, *summed)))
        self.values |= dict(zip((*kept, *summed), axes, strict=True))
        wide = s.buffer.type.dtype.wide.numpy
        left, right = (np.asarray(self.scalar(factor), wide) for factor in (s.left, s.right))
        total = np.sum(np.multiply(left, right), axis=tuple(range(len(kept), len(axes))))
        first: Any = (..., *(0 for _ in summed))
        self.values |= dict(zip(kept, (axis[first] for axis in axes), strict=False)) | dict.fromkeys(
            summed, 0
        )
        self.write(s.buffer, s.indices, total + self.read(s.buffer, s.indices) if s.add else total)

    def place(self, array: Buffer, indices: Sequence[Index]) -> Any:
        """Compute the offset of an element, and assert that it is within the array."""
        key = id(array), id(indices)
        if key not in self.places:
            at, shares = tuple(indices), len(array.order) < len(indices)
            number = replace(array, order=ROW_MAJOR).flat(at) if shares else None
            self.places[key] = indices, array.flat(at), self.size(array.size), number
        _, index, size, _ = self.places[key]
        place = self.index(index)
        if not (0 <= place < size if isinstance(place, int) else np.all((place >= 0) & (place < size))):
            raise AssertionError(f"{array.name} has no element {place}")
        return place

    def read(self, array: Buffer, indices: Sequence[Index]) -> Any:
        """Read an element."""
        place = self.place(array, indices)
        self.touch(array, indices, place, "read")
        return self.memory_of(array)[place]

    def write(self, array: Buffer, indices: Sequence[Index], value: Any) -> None:
        """Write an element, or let an asynchronous copy do so."""
        place, value = self.place(array, indices), np.asarray(value, array.type.dtype.numpy)
        self.touch(array, indices, place, "written")
        if self.is_copying:
            self.copies[-1].append((array, place, value))
        else:
            self.memory_of(array)[place] = value

    def index(self, i: Index) -> Any:
        """Evaluate an index."""
        _, total, variables, others = self.indices.get(id(i)) or self._parts(i)
        for variable, factor in variables:
            total = total + self.values[variable] * factor
        for atom, factor in others:
            total = total + self.atom(atom) * factor
        return total

    def _parts(self, i: Index) -> Parts:
        """Divide an index into its parts, with the sizes of this run, and keep them."""
        variables = [(a, self.size(factor)) for a, factor in i.terms if isinstance(a, Variable)]
        others: list[tuple[Atom, int]] = [
            (a, self.size(factor)) for a, factor in i.terms if not isinstance(a, Variable)
        ]
        self.indices[id(i)] = i, self.size(i.constant), variables, others
        return self.indices[id(i)]

    def atom(self, atom: Any) -> Any:
        """Evaluate an atom of an index that is no variable."""
        if isinstance(atom, Read):
            return int(self.scalar(atom.scalar))
        if isinstance(atom, Either):
            return self.index(atom.second)
        inside, divisor = self.index(atom.index), self.size(atom.divisor)
        if np.any(inside < 0):
            raise AssertionError(f"{inside} is divided by {divisor}, which languages do differently")
        return inside // divisor if isinstance(atom, Quotient) else inside % divisor

    def scalar(self, scalar: Scalar, known: dict[int, Any] | None = None) -> Any:
        """Evaluate a scalar, each subexpression once."""
        known = {} if known is None else known
        if scalar.number not in known:
            known[scalar.number] = self._value(scalar, known)
        return known[scalar.number]

    def _value(self, scalar: Scalar, known: dict[int, Any]) -> Any:
        if isinstance(scalar, Load):
            return self.read(scalar.buffer, scalar.indices)
        if isinstance(scalar, Number):
            return np.asarray(scalar.constant.value, scalar.dtype.numpy)[()]
        if isinstance(scalar, IndexValue):
            return np.asarray(self.index(scalar.index), scalar.dtype.numpy)[()]
        if isinstance(scalar, Masked):
            holds = all(map(self.holds, scalar.conditions))
            return self.scalar(scalar.inside if holds else scalar.outside, known)
        if not isinstance(scalar, Compute):
            raise AssertionError(f"{scalar} is no scalar")
        return self._computed(scalar, [self.scalar(o, known) for o in scalar.operands])

    def _computed(self, scalar: Compute, operands: list[Any]) -> Any:
        if scalar.number not in self.operations:
            op = scalar.op.substitute(self.sizes)
            self.operations[scalar.number] = replace(op, shape=()) if isinstance(op, Draw) else op
        op = self.operations[scalar.number]
        if isinstance(op, Differs):
            x, y = operands
            value: Any = x != y and (x == x or y == y)
        else:
            value = op.compute(*operands)
        return np.asarray(value, scalar.dtype.numpy)[()]


def attended(
    step: Attend, q: Array, k: Array, v: Array, of_output: Any = 0, logsumexp: Any = 0, inner: Any = 0
) -> tuple[Array, ...]:
    """Compute a part of attention from all operands, as its definition does."""
    scale = q.dtype.type(step.scale)
    scores = q @ k.T * scale
    if step.causal:
        scores = np.where(seen(len(q), len(k), step.window), scores, -np.inf)
    if step.part is AttentionPart.OUTPUT:
        greatest = scores.max(axis=1, keepdims=True)
        exponentials = np.exp(scores - greatest)
        sums = exponentials.sum(axis=1, keepdims=True)
        return exponentials / sums @ v, (greatest + np.log(sums))[:, 0]
    weights = np.exp(scores - logsumexp[:, None])
    of_scores = weights * (of_output @ v.T - inner[:, None]) * scale
    return (
        (of_scores @ k,) if step.part is AttentionPart.QUERIES else (of_scores.T @ q, weights.T @ of_output)
    )


def assert_independent(iterations: Sequence[Touched]) -> None:
    """Raises AssertionError if one iteration reads or writes an element that another writes."""
    written = set[Any]().union(*(touched.written for touched in iterations))
    if len(written) < sum(len(touched.written) for touched in iterations):
        raise AssertionError(f"{twice(iterations)} is written by two iterations of a parallel loop")
    for touched in iterations:
        for element in (touched.read & written) - touched.written:
            raise AssertionError(f"{element} is written by one iteration and read by another")


def twice(iterations: Sequence[Touched]) -> Any:
    """Return an element that two iterations write."""
    count = Counter(element for touched in iterations for element in touched.written)
    return next(element for element, times in count.items() if times > 1)
