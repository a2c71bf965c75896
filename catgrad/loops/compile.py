"""Compile functions to kernels: lowering to canonical form, then the passes of a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import Item, Kernel, Loop, Store, nested, size_hint
from catgrad.loops.ir.scalar import Buffer, Load, Scalar, Space
from catgrad.loops.ir.steps import For, If, Lowered, Step
from catgrad.loops.lowering import attention, data_movement, products, reductions, scatters  # noqa: F401
from catgrad.loops.lowering.index_maps import Indices, Source
from catgrad.loops.lowering.rules import Outside, Stages
from catgrad.loops.machine import Machine
from catgrad.ops.scan import Scan
from catgrad.programs.program import Apply, Function, Nested


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


class _Body:
    """Lowering of a function, or of a block within it, to steps."""

    def __init__(self, stages: Stages) -> None:
        self.stages, self.function, self.machine = stages, stages.function, stages.machine
        self.steps: list[Step] = []

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
                name = self.function.names.get(value, "result")
                result = Buffer(name, self.function.types[value], Space.RESULT, alias=alias)
                copies += _apart(self.stages.copied(result, self._element(value)))
            else:
                seen.add(array)
                result = moved[array] = replace(array, space=Space.RESULT, alias=alias)
            results.append(result)
        lowered = Lowered(self.function, [*self.steps, *copies], list(arguments), results)
        return lowered.replace_buffers(moved)

    def _element(self, value: int, *prefix: Index) -> Source:
        """Return the function from indices to elements of a value, which is indexed by `prefix` first."""
        return lambda indices: self.stages.elements.at(value, (*prefix, *indices))

    def _known_from_now_on(self, values: Sequence[int]) -> None:
        for value in values:
            self.stages.elements.store(value, self.stages.arrays[value])

    def _scan(self, op: Scan, body: Function, apply: Apply) -> None:
        t = Variable(op.length, "t")
        outputs = apply.outputs
        carried, arrays, constants = op.parts(apply.inputs)
        inside, rows, fixed = op.parts(body.arguments)
        carries = [self.stages.array(output) for output in outputs[: op.carried]]
        for array, value in zip(carries, carried, strict=True):
            self.stages.add(self.stages.copied(array, self._element(value)))
        self._flush()
        given: dict[int, Source] = {v: _source(array) for v, array in zip(inside, carries, strict=True)}
        given |= {v: self._element(a, index(t)) for v, a in zip(rows, arrays, strict=True)}
        given |= {v: self._element(a) for v, a in zip(fixed, constants, strict=True)}
        turns = max(1, size_hint(op.length))
        invariant = {v: Outside(self.stages, a, turns) for v, a in zip(fixed, constants, strict=True)}
        within = _Body(Stages(body, given, self.machine, invariant))
        within.run()
        self._flush()
        last = self._iteration_end(op, within, carries, outputs, index(t))
        self.steps.append(For(t, op.backwards, [*within.steps, *last]))
        self._known_from_now_on(outputs)

    def _iteration_end(
        self, op: Scan, body: _Body, carries: Sequence[Buffer], outputs: Sequence[int], t: Index
    ) -> list[Step]:
        """Fill the rows of an iteration, and carry its values to the next."""
        items: list[Item] = []
        new = body.function.results
        for value, output in zip(new[op.carried :], outputs[op.carried :], strict=True):
            items += _row(self.stages.array(output), t, body._element(value))
        held = []
        for value, carry in zip(new[: op.carried], carries, strict=True):
            element = body._element(value)
            if _reads(element, carry.type.rank, carries):
                # A carry that reads another must have the value of this iteration.
                again = Buffer(f"next_{carry.name}", carry.type)
                items += body.stages.copied(again, element)
                element = _source(again)
            held.append((carry, element))
        for carry, element in held:
            items += self.stages.copied(carry, element)
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


def _row(stack: Buffer, t: Index, element: Source) -> list[Item]:
    loops = [Variable(size) for size in stack.type.shape[1:]]
    at = tuple(map(index, loops))
    return nested(loops, [Store(stack, (t, *at), element(at))])
