"""Compile functions to kernels: lowering to canonical form, then the passes of a machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catgrad.dims import coefficients
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import Item, Kernel, Loop, Store, copies_itself, nested, size_hint, statements
from catgrad.loops.ir.scalar import Buffer, Load, Scalar, Space
from catgrad.loops.ir.steps import For, If, Lowered, Step, replaced
from catgrad.loops.lowering import (  # noqa: F401
    attention,
    data_movement,
    folds,
    products,
    reductions,
    scatters,
)
from catgrad.loops.lowering.index_maps import Indices, Source
from catgrad.loops.lowering.rules import Outside, Stages
from catgrad.loops.machine import Machine
from catgrad.ops.scan import Scan
from catgrad.ops.table import Stack, Unstack
from catgrad.programs.program import Apply, Function, Nested
from catgrad.types import NdArrayType


def compile_kernels(
    function: Function, machine: Machine, in_place: Mapping[int, int] | None = None
) -> Lowered:
    """Compile a function, whose blocks are nested already, to kernels for a machine.

    `in_place` gives for results, by their positions, the arguments that they overwrite.
    """
    lowered = canonical(function, machine, in_place)
    for each in machine.passes:
        lowered = each(lowered, machine)
    return lowered


def canonical(function: Function, machine: Machine, in_place: Mapping[int, int] | None = None) -> Lowered:
    """Lower a function to kernels in the machine's canonical form: one nest each, without a schedule."""
    arguments = [
        Buffer(function.names.get(v, "x"), function.types[v], Space.ARGUMENT) for v in function.arguments
    ]
    given = {v: _source(a) for v, a in zip(function.arguments, arguments, strict=True)}
    body = _Body(Stages(function, given, machine))
    body.run()
    return body.finished(arguments, in_place or {})


def _source(array: Buffer) -> Source:
    loads: dict[Indices, Load] = {}

    def at(indices: Indices) -> Scalar:
        if indices not in loads:
            loads[indices] = Load(array, indices)
        return loads[indices]

    return at


@dataclass(frozen=True)
class _Carry:
    """Buffers of a value that a loop carries: before an iteration, and after it.

    Both are one buffer, or neighbouring rows of the array of `every` value, which a loop returns as `stack`.
    """

    old: Buffer
    new: Buffer
    every: Buffer | None = None
    stack: int | None = None


class _Body:
    """Lowering of a function, or of a block within it, to steps."""

    def __init__(self, stages: Stages) -> None:
        self.stages, self.function, self.machine = stages, stages.function, stages.machine
        self.steps: list[Step] = []
        self.layered = set[int]()

    def run(self) -> None:
        """Lower every operation."""
        for apply in self.function.body:
            if not isinstance(apply.op, Nested):
                self.stages.emit(apply)
                continue
            self._flush()
            if isinstance(apply.op.op, Scan):
                self._scan(apply.op.op, apply.op.functions[0], apply)
            else:
                self._cond(apply.op.functions, apply)
        self._flush()

    def _flush(self) -> None:
        """Append the pending kernels to the steps, bounds checks first."""
        self.steps += [*self.stages.checks, *self.stages.steps]
        self.stages.steps, self.stages.checks = [], []

    def finished(self, arguments: Sequence[Buffer], in_place: Mapping[int, int]) -> Lowered:
        """Return the function with a buffer for each result; a result without one of its own is copied."""
        results, moved, copies, seen = list[Buffer](), dict[Buffer, Buffer](), list[Step](), set(arguments)
        for position, value in enumerate(self.function.results):
            array = self.stages.arrays.get(value)
            alias = arguments[in_place[position]] if position in in_place else None
            if array is None or array in seen or array.space is Space.LITERAL:
                result = Buffer(
                    self._result_name(position, value), self.function.types[value], Space.RESULT, alias=alias
                )
                copies += _apart(self.stages.copied(result, self._element(value)))
            else:
                seen.add(array)
                result = moved[array] = replace(array, space=Space.RESULT, alias=alias)
            results.append(result)
        lowered = Lowered(self.function, [*self.steps, *copies], list(arguments), results)
        return _rows_in_place(lowered.replace_buffers(moved))

    def _result_name(self, position: int, value: int) -> str:
        """Name a copy by its place among the results: other results may have the same value."""
        label = self.function.outputs[position].label if self.function.outputs else ""
        return label or self.function.names.get(value, "result")

    def _element(self, value: int, *prefix: Index) -> Source:
        """Return the function from indices to elements of a value, which is indexed by `prefix` first."""
        return lambda indices: self.stages.elements.at(value, (*prefix, *indices))

    def _known_from_now_on(self, values: Sequence[int]) -> None:
        for value in values:
            self.stages.elements.store(value, self.stages.arrays[value])

    def _scan(self, op: Scan, body: Function, apply: Apply) -> None:
        t = Variable(op.length, "layer" if self._is_of_layers(op, apply) else "t")
        self.stages.names.add_loop(apply, body, op.carried)
        _, arrays, constants = op.parts(apply.inputs)
        inside, rows, fixed = op.parts(body.arguments)
        carries = self._carries(op, body, apply)
        if op.length == 0:
            self._known_from_now_on([v for v in apply.outputs if self.stages.array(v)])
            return
        given: dict[int, Source] = {v: _source(carry.old) for v, carry in zip(inside, carries, strict=True)}
        tables: dict[Buffer, tuple[Buffer, ...]] = {}
        for inner, outer in zip(rows, arrays, strict=True):
            row = self._row(body, inner, outer)
            tables |= row
            given[inner] = _source(*row) if row else self._element(outer, index(t))
        given |= {v: self._element(a) for v, a in zip(fixed, constants, strict=True)}
        turns = max(1, size_hint(op.length))
        invariant = {v: Outside(self.stages, a, turns) for v, a in zip(fixed, constants, strict=True)}
        within = _Body(Stages(body, given, self.machine, invariant))
        within.run()
        new = dict(zip(carries, body.results, strict=False))
        kept = {carry.stack for carry in carries}
        pairs = zip(apply.outputs[op.carried :], body.results[op.carried :], strict=True)
        results = {output: value for output, value in pairs if output not in kept}
        stacks = self._stacks(within, results)
        self._flush()
        last = self._iteration_end(within, new, stacks, results.values(), index(t))
        loop = For(t, op.backwards, [*within.steps, *last])
        if self.machine.passes_rows:
            every = {row: (c.every,) for c in carries if c.every for row in (c.old, c.new)}
            following = (c.old if op.backwards else c.new for c in carries if c.every)
            loop = replace(loop, rows=tables | stacks | every, following=frozenset(following))
            kept_rows = ((value, carry.new) for carry, value in new.items() if carry.every)
            loop = _filled_directly(loop, within, [*zip(results.values(), stacks, strict=True), *kept_rows])
        self.steps.append(_carried_directly(loop, within, new))
        self._known_from_now_on([v for v in apply.outputs if v in self.stages.arrays])

    def _is_of_layers(self, op: Scan, apply: Apply) -> bool:
        """Tell whether a loop reads or makes rows of tables, or reads those that a loop over layers made."""
        read, made = op.parts(apply.inputs)[1], apply.outputs[op.carried :]
        makers = map(self.stages.choice.producer.get, read)
        is_table = any(isinstance(maker.op, Stack) for maker in makers if maker)
        if is_table or not self.layered.isdisjoint(read) or any(map(self._apart, made)):
            self.layered.update(made)
            return True
        return False

    def _carries(self, op: Scan, body: Function, apply: Apply) -> list[_Carry]:
        """Copy the first values of carries, and return where their values are in an iteration."""
        first, last = (op.length, 0) if op.backwards else (0, op.length)
        kept, elements, carries = self._kept(op, body, apply), self.stages.elements, list[_Carry]()
        inside = body.arguments[: op.carried]
        for value, output, inner in zip(apply.inputs, apply.outputs, inside, strict=False):
            if inner not in kept:
                array = self.stages.array(output)
                self.stages.add(self.stages.copied(array, self._element(value)))
                carries.append(_Carry(array, array))
                continue
            stack, type = kept[inner], body.types[inner]
            every = Buffer(self.stages.names.of(stack), type.with_shape((op.length + 1, *type.shape)))
            old = _row_of([every], body.names.get(inner, every.name), type, Space.RESULT)
            new = _row_of([every], self.stages.names.of(output), type, Space.RESULT)
            carries.append(_Carry(old, new, every, stack))
            self.stages.add(_filled(every, Index((), first), self._element(value)))
            elements.store(output, every, lambda i: (Index((), last), *i))
            elements.store(stack, every, lambda i: (i[0] + int(op.backwards), *i[1:]))
        self._flush()
        return carries

    def _kept(self, op: Scan, body: Function, apply: Apply) -> dict[int, int]:
        """Map carries, of which a loop stacks all values, to these stacks, unless they are arrays apart."""
        if not self.machine.passes_rows or op.length == 0:
            return {}
        stacks = zip(body.results[op.carried :], apply.outputs[op.carried :], strict=True)
        whole = {v for v in apply.outputs if v in self.function.results or self._apart(v)}
        return {v: stack for v, stack in stacks if v in body.arguments[: op.carried] and stack not in whole}

    def _row(self, body: Function, inner: int, outer: int) -> dict[Buffer, tuple[Buffer, ...]]:
        """Return a buffer for the rows of a value that a loop reads, and the arrays they lie in, if any."""
        apply = self.stages.choice.producer.get(outer)
        if not self.machine.passes_rows:
            return {}
        if outer in self.stages.tables:
            arrays = self.stages.tables[outer]
        elif apply is not None and isinstance(apply.op, Stack):
            arrays = tuple(map(self.stages.materialised, apply.inputs))
        else:
            whole = tuple(index(Variable(size)) for size in self.function.types[outer].shape)
            element = self.stages.elements.at(outer, whole)
            if not (isinstance(element, Load) and element.indices == whole and element.buffer.is_row_major):
                return {}
            if element.buffer.space is Space.LITERAL and not self.machine.literals_have_addresses:
                return {}
            arrays = (element.buffer,)
        space = Space.ARGUMENT if arrays[0].space is Space.ARGUMENT else Space.RESULT
        return {_row_of(arrays, body.names.get(inner, arrays[0].name), body.types[inner], space): arrays}

    def _stacks(self, body: _Body, results: Mapping[int, int]) -> dict[Buffer, tuple[Buffer, ...]]:
        """Return a buffer for each row that a loop writes, and the stack or the arrays that it lies in."""
        stacks: dict[Buffer, tuple[Buffer, ...]] = {}
        for output, value in results.items():
            name, type = body.stages.names.of(value), body.function.types[value]
            if apart := self._apart(output):
                arrays = tuple(map(self.stages.array, apart.outputs))
                self.stages.tables[output] = arrays
                self._known_from_now_on(apart.outputs)
            else:
                arrays = (self.stages.array(output),)
            stacks[_row_of(arrays, name, type, Space.RESULT)] = arrays
        return stacks

    def _apart(self, stack: int) -> Apply | None:
        """Return the operation that takes a stack apart, if all others read its rows in loops."""
        readers = self.stages.choice.readers(stack)
        apart = next((r for r in readers if isinstance(r.op, Unstack)), None)
        is_whole = stack in self.function.results or not self.machine.passes_rows
        others = (r for r in readers if r is not apart)
        return None if is_whole or not all(_reads_rows(r, stack) for r in others) else apart

    def _iteration_end(
        self,
        body: _Body,
        carries: Mapping[_Carry, int],
        rows: Mapping[Buffer, tuple[Buffer, ...]],
        values: Iterable[int],
        t: Index,
    ) -> list[Step]:
        """Fill the rows of an iteration, and carry its values to the next."""
        items: list[Item] = []
        for value, (row, arrays) in zip(values, rows.items(), strict=True):
            if self.machine.passes_rows:
                items += body.stages.copied(row, body._element(value))
            else:
                items += _filled(arrays[0], t, body._element(value))
        overwritten, held = [c.new for c in carries if c.every is None], []
        for carry, value in carries.items():
            element = body._element(value)
            if carry.every is not None:
                items += self.stages.copied(carry.new, element)
                continue
            if _reads(element, carry.new.type.rank, overwritten):
                # A carry that reads another must have the value of this iteration.
                again = Buffer(f"next_{carry.new.name}", carry.new.type)
                items += body.stages.copied(again, element)
                element = _source(again)
            held.append((carry.new, element))
        for array, element in held:
            items += self.stages.copied(array, element)
        return [Kernel([item]) for item in items]

    def _cond(self, functions: Sequence[Function], apply: Apply) -> None:
        condition, *inputs = apply.inputs
        arrays = [self.stages.array(output) for output in apply.outputs]
        decided = self.stages.elements.at(condition, ())
        if not isinstance(decided, Load):
            decided = Load(self.stages.materialised(condition), ())
            self._flush()
        parts = []
        for function in functions:
            sources = zip(function.arguments, inputs, strict=True)
            known = {v: self._element(a) for v, a in sources}
            within = _Body(Stages(function, known, self.machine))
            within.run()
            items: list[Item] = []
            for array, value in zip(arrays, function.results, strict=True):
                items += within.stages.copied(array, within._element(value))
            parts.append([*within.steps, *_apart(items)])
        self.steps.append(If(decided, (parts[0], parts[1])))
        self._known_from_now_on(apply.outputs)


def _reads(element: Source, rank: int, buffers: Sequence[Buffer]) -> bool:
    """Tell whether an array's elements are computed from elements of buffers."""
    loads = element(tuple(index(Variable(1)) for _ in range(rank))).loads()
    return any(load.buffer in buffers for load in loads)


def _apart(items: Sequence[Item]) -> list[Step]:
    """Kernels for copies that are not fused with what they copy."""
    return [Kernel([replace(item, begins=True) if isinstance(item, Loop) else item]) for item in items]


def _reads_rows(apply: Apply, stack: int) -> bool:
    """Tell whether an operation is a loop that reads a stack row by row only."""
    if not (isinstance(apply.op, Nested) and isinstance(apply.op.op, Scan)):
        return False
    carried, _, constants = apply.op.op.parts(apply.inputs)
    return stack not in (*carried, *constants)


def _filled(stack: Buffer, t: Index, element: Source) -> list[Item]:
    """Loops that fill a row of a stack."""
    loops = [Variable(size) for size in stack.type.shape[1:]]
    at = tuple(map(index, loops))
    return nested(loops, [Store(stack, (t, *at), element(at))])


def _rows_in_place(lowered: Lowered) -> Lowered:
    """Let rows of results overwrite those of arguments, where all entries of their tables do."""

    def in_place(step: Step) -> Step:
        if not isinstance(step, For):
            return step
        olds = {arrays: row for row, arrays in step.rows.items()}
        aliases: dict[Buffer, tuple[Any, ...]] = {
            row: tuple(array.alias for array in arrays) for row, arrays in step.rows.items()
        }
        new = {row: replace(row, alias=olds[old]) for row, old in aliases.items() if old in olds}
        body = replaced(step.body, new)
        return replace(step, body=body, rows={new.get(row, row): a for row, a in step.rows.items()})

    return lowered.map(lambda steps: list(map(in_place, steps)))


def _filled_directly(loop: For, body: _Body, written: Iterable[tuple[int, Buffer]]) -> For:
    """Compute what a loop stacks where it lies, rather than in a temporary that is copied there."""
    moved: dict[Buffer, Buffer] = {}
    for value, row in written:
        array = body.stages.arrays.get(value)
        if array and array not in moved and array.space is Space.WORKSPACE and array.is_row_major:
            moved[array] = row
    return replace(loop, body=[step for step in replaced(loop.body, moved) if not _copies_itself(step)])


def _carried_directly(loop: For, body: _Body, new: Mapping[_Carry, int]) -> For:
    """Compute the next values of carries where they lie, if the steps that read the last ones are before."""
    for carry, value in new.items():
        array = body.stages.arrays.get(value)
        if carry.every or not array or array.space is not Space.WORKSPACE or not array.is_row_major:
            continue
        renamed = [step for step in replaced(loop.body, {array: carry.new}) if not _copies_itself(step)]
        if len(renamed) == len(loop.body):
            continue
        reading = [k for k, step in enumerate(loop.body) if any(b is carry.new for b, _ in step.reads)]
        writing = [k for k, step in enumerate(loop.body) if any(b is array for b, _ in step.writes)]
        if writing and max(reading, default=-1) < min(writing):
            loop = replace(loop, body=renamed)
    return loop


def _copies_itself(step: Step) -> bool:
    return isinstance(step, Kernel) and all(
        isinstance(s, Store) and copies_itself(s, s.buffer) for s in statements(step.body)
    )


def _row_of(arrays: Sequence[Buffer], name: str, type: NdArrayType, space: Space) -> Buffer:
    """Return the buffer of a row; those of one stack are aligned if each has a multiple of 16 bytes."""
    aligned = len(arrays) > 1 or all(n % 16 == 0 for n in coefficients(type.bytes).values())
    return Buffer(name, type, space, is_aligned=aligned)
