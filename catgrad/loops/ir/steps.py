"""Steps: the kernels and matrix products of a function in order, with the loops and branches around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import Access, Body, Kernel, MatMul, Replaced, Rewriter, rewritten
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Scalar, number
from catgrad.ops.arithmetic import Add, Maximum
from catgrad.programs.program import Function


@dataclass(frozen=True)
class Epilogue:
    """Operations of a library on each element of a product: relu(element + addend + bias), or a part of this.

    The `addend` is an element of a matrix like the product, the `bias` one of a vector along its rows.
    """

    addend: Load | None = None
    bias: Load | None = None
    relu: bool = False

    @property
    def loads(self) -> tuple[Load, ...]:
        """The elements that are added."""
        return tuple(load for load in (self.addend, self.bias) if load)

    def scalar(self, element: Scalar) -> Scalar:
        """Return what becomes of an element."""
        for load in self.loads:
            element = Compute(Add(), element.dtype, (element, load))
        zero = number(0, element.dtype)
        return Compute(Maximum(), element.dtype, (element, zero)) if self.relu else element

    def map(self, change: Rewriter) -> Epilogue:
        """Rewrite its parts."""
        addend, bias = (load and change.load(load) for load in (self.addend, self.bias))
        return Epilogue(addend, bias, self.relu)


@dataclass(eq=False, frozen=True)
class Product:
    """A matrix product for each value of the `batch` variables, summed over those of `sums`."""

    batch: tuple[Variable, ...]
    sums: tuple[Variable, ...]
    matmul: MatMul
    epilogue: Epilogue = Epilogue()

    @property
    def reads(self) -> list[Access]:
        """The elements read."""
        return [*self.matmul.reads, *((load.buffer, load.indices) for load in self.epilogue.loads)]

    @property
    def writes(self) -> list[Access]:
        """The elements written."""
        return self.matmul.writes

    def map(self, change: Rewriter) -> Product:
        """Rewrite its parts."""
        return replace(self, matmul=self.matmul.map(change), epilogue=self.epilogue.map(change))


class AttentionPart(Enum):
    """Results of attention and of its reverse that one step computes."""

    OUTPUT = "output"
    """The output, and the logarithm of each row's sum of exponentials, if it is wanted."""
    QUERIES = "queries"
    """The cotangent of the queries."""
    KEYS = "keys"
    """The cotangents of the keys and of the values."""


@dataclass(eq=False, frozen=True)
class Attend:
    """Attention softmax(scale · q kᵀ) v, or a part of its reverse, for each value of the `batch` variables.

    The operands are elements of q by `query` and `feature`, of k by `key` and `feature`, of v by `key` and
    `column`; in the reverse also of the cotangent by `query` and `column`, and for each query the logarithm
    of its sum of exponentials, and the inner product of its output and cotangent. A query attends to all
    keys, or if `causal` to those up to its own position, of which a `window` takes the last.
    """

    part: AttentionPart
    batch: tuple[Variable, ...]
    query: Variable
    key: Variable
    feature: Variable
    column: Variable
    scale: float
    causal: bool
    window: int | None
    operands: tuple[Scalar, ...]
    results: tuple[Load, ...]

    @property
    def reads(self) -> list[Access]:
        """The elements read."""
        return [(load.buffer, load.indices) for scalar in self.operands for load in scalar.loads()]

    @property
    def writes(self) -> list[Access]:
        """The elements written."""
        return [(load.buffer, load.indices) for load in self.results]

    def map(self, change: Rewriter) -> Attend:
        """Rewrite its parts."""
        operands, results = tuple(map(change.scalar, self.operands)), tuple(map(change.load, self.results))
        return replace(self, operands=operands, results=results)


@dataclass(eq=False, frozen=True)
class For(Body):
    """Steps run for each value of a variable, or from the last to the first.

    `rows` maps buffers of the body to what they are in an iteration: row t of one array, or the entry t of a
    table of several arrays. The `following` of them are row t + 1.
    """

    variable: Variable
    backwards: bool
    body: list[Step]
    rows: Mapping[Buffer, tuple[Buffer, ...]] = field(default_factory=dict)
    following: frozenset[Buffer] = frozenset()

    def place(self, row: Buffer) -> Index:
        """Return the number of a row in the array that it lies in."""
        return index(self.variable) + int(row in self.following)

    @property
    def reads(self) -> list[Access]:
        """The elements read within."""
        return [outer for access in super().reads for outer in self._around(access)]

    @property
    def writes(self) -> list[Access]:
        """The elements written within."""
        return [outer for access in super().writes for outer in self._around(access)]

    @cached_property
    def rows_of(self) -> Mapping[Buffer, list[Buffer]]:
        """The rows that lie in each array around the loop."""
        found: dict[Buffer, list[Buffer]] = {}
        for row, arrays in self.rows.items():
            for array in dict.fromkeys(arrays):
                found.setdefault(array, []).append(row)
        return found

    def _around(self, access: Access) -> list[Access]:
        """Return an element as those of the arrays around the loop."""
        buffer, indices = access
        arrays = self.rows.get(buffer)
        if arrays is None:
            return [access]
        is_table = arrays[0].type == buffer.type
        at = indices if is_table else (self.place(buffer), *indices)
        return [(array, at) for array in arrays]

    def replace_rows(self, buffers: Mapping[Buffer, Buffer]) -> For:
        """Replace arrays around the loop in its rows."""
        rows = {row: tuple(buffers.get(a, a) for a in arrays) for row, arrays in self.rows.items()}
        return replace(self, rows=rows)


@dataclass(eq=False, frozen=True)
class If:
    """Steps of which the first part runs where a condition holds, and the second where it does not."""

    condition: Load
    parts: tuple[list[Step], list[Step]]

    @property
    def reads(self) -> list[Access]:
        """The elements read within."""
        within = [access for part in self.parts for step in part for access in step.reads]
        return [(self.condition.buffer, self.condition.indices), *within]

    @property
    def writes(self) -> list[Access]:
        """The elements written within."""
        return [access for part in self.parts for step in part for access in step.writes]


@dataclass(eq=False, frozen=True)
class Group(Body):
    """Kernels, and loops of kernels, that are one function of different arrays, in any order: one launch."""

    body: list[Step]

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, of which those in loops run for each iteration."""
        return kernels(self.body)


Step = Kernel | Product | Attend | For | If | Group
"""A kernel, a matrix product, a part of attention, a loop or branch of steps, or a group of kernels."""


@dataclass(frozen=True)
class Lowered:
    """A function as steps, and the buffers that are its arguments and its results."""

    function: Function
    steps: list[Step]
    arguments: list[Buffer]
    results: list[Buffer]

    def map(self, change: Callable[[list[Step]], list[Step]]) -> Lowered:
        """Change every list of steps, those within loops and branches first, but not groups of kernels."""
        return replace(self, steps=_mapped(self.steps, change))

    def map_kernels(self, change: Callable[[Kernel], Kernel]) -> Lowered:
        """Change every kernel."""
        return self.map(lambda steps: [change(s) if isinstance(s, Kernel) else s for s in steps])

    def replace_buffers(self, buffers: Mapping[Buffer, Buffer]) -> Lowered:
        """Replace buffers by others in all steps, conditions of branches included."""
        return replace(self, steps=replaced(self.steps, buffers))


def replaced(steps: list[Step], buffers: Mapping[Buffer, Buffer]) -> list[Step]:
    """Replace buffers by others in steps, conditions of branches and rows of loops included."""
    change = Replaced(buffers)

    def new(step: Step) -> Step:
        if isinstance(step, Kernel):
            return Kernel(rewritten(step.body, change))
        if isinstance(step, Product | Attend):
            return step.map(change)
        if isinstance(step, For):
            return step.replace_rows(buffers)
        if isinstance(step, Group):
            return Group(replaced(step.body, buffers))
        return replace(step, condition=change.load(step.condition))

    return _mapped(steps, lambda inside: list(map(new, inside))) if buffers else steps


def _mapped(steps: Sequence[Step], change: Callable[[list[Step]], list[Step]]) -> list[Step]:
    inside: list[Step] = []
    for step in steps:
        if isinstance(step, For):
            inside.append(replace(step, body=_mapped(step.body, change)))
        elif isinstance(step, If):
            first, second = (_mapped(part, change) for part in step.parts)
            inside.append(replace(step, parts=(first, second)))
        else:
            inside.append(step)
    return change(inside)


def conditions(steps: Sequence[Step]) -> set[Buffer]:
    """Find the buffers that decide which part of a branch runs: they are read outside of kernels."""
    return {step.condition.buffer for step in every_step(steps) if isinstance(step, If)}


def in_rows(steps: Sequence[Step]) -> set[Buffer]:
    """Find the buffers of which loops read or write rows: no statement within mentions them."""
    loops = (step for step in every_step(steps) if isinstance(step, For))
    return {array for loop in loops for arrays in loop.rows.values() for array in arrays}


def every_step(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield all steps in order, each with those within its loops and branches."""
    for step in steps:
        yield step
        if isinstance(step, For | Group):
            yield from every_step(step.body)
        elif isinstance(step, If):
            yield from every_step([*step.parts[0], *step.parts[1]])


def kernels(steps: Sequence[Step]) -> list[Kernel]:
    """All kernels, those in loops and branches included, in order."""
    return [step for step in every_step(steps) if isinstance(step, Kernel)]
