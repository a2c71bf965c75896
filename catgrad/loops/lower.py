"""From a function to kernels: nests in an order, arrays with places, and what the function is called with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import Item, Kernel, Store, nested
from catgrad.loops.ir.scalar import Buffer, Load, Scalar
from catgrad.loops.ir.steps import For, If, Lowered, Step, decisive, kernels
from catgrad.loops.lowering import (  # noqa: F401  # register their operations
    data_movement,
    products,
    reductions,
    scatters,
)
from catgrad.loops.lowering.index_maps import Indices, Source
from catgrad.loops.lowering.rules import Stages
from catgrad.loops.passes.dead_stores import without_dead_stores
from catgrad.loops.passes.fuse import fused, shrink
from catgrad.loops.passes.in_place import put_in_place
from catgrad.loops.passes.lanes import widened
from catgrad.loops.passes.tidy import tidy
from catgrad.naming import Namer
from catgrad.ops.scan import Scan
from catgrad.programs.program import Apply, Function, Nested

Fuse = Callable[[Sequence[Item]], list[Kernel]]
"""How nests become kernels."""


def lower(
    function: Function,
    reserved: Sequence[str] = (),
    in_place: Mapping[int, int] | None = None,
    fuse: Fuse = fused,
    vectors: bool = True,
) -> Lowered:
    """Kernels of a function, whose blocks are nested already.

    `in_place` gives for results, by their positions, the arguments whose place they take. A machine without
    `vectors` computes one element after the other, wherever they lie.
    """
    lowered = staged(function, reserved, in_place, fuse, vectors)
    without_dead_stores(lowered)
    put_in_place(lowered)
    finish(kernels(lowered.steps), decisive(lowered.steps), vectors)
    return lowered


def staged(
    function: Function,
    reserved: Sequence[str] = (),
    in_place: Mapping[int, int] | None = None,
    fuse: Fuse = fused,
    vectors: bool = True,
) -> Lowered:
    """Kernels of a function as `fuse` makes them, before any other pass over kernels."""
    namer = Namer(reserved)
    arguments = [
        Buffer(namer.fresh(function.names.get(v, "x")), function.types[v], "argument")
        for v in function.arguments
    ]
    given = {v: _source(a) for v, a in zip(function.arguments, arguments, strict=True)}
    body = _Body(function, given, namer, fuse, vectors)
    body.run()
    results, copies = body.results(arguments, in_place or {})
    return Lowered(function, [*body.steps, *map(_kernel, copies)], arguments, results)


def _source(array: Buffer, prefix: Indices = ()) -> Source:
    loads: dict[Indices, Load] = {}

    def at(indices: Indices) -> Scalar:
        if indices not in loads:
            loads[indices] = Load(array, (*prefix, *indices))
        return loads[indices]

    return at


class _Body:
    """The steps of a function, or of a block within it."""

    def __init__(
        self, function: Function, given: Mapping[int, Source], namer: Namer, fuse: Fuse, vectors: bool
    ) -> None:
        self.function, self.namer, self.fuse, self.vectors = function, namer, fuse, vectors
        self.stages = Stages(function, given, namer, vectors)
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
        """Nests so far become kernels; loops and branches are no kernels."""
        self.steps += self.fuse([*self.stages.checks, *self.stages.items])
        self.stages.items, self.stages.checks = [], []

    def results(
        self, arguments: Sequence[Buffer], in_place: Mapping[int, int]
    ) -> tuple[list[Buffer], list[Item]]:
        """The arrays of the results, and copies of those that are no arrays of their own."""
        results, copies, seen = [], [], set(arguments)
        for position, value in enumerate(self.function.results):
            array = self.stages.arrays.get(value)
            if array is None or array in seen or array.place == "literal":
                name = self.function.names.get(value, "result")
                array = Buffer(self.namer.fresh(name), self.function.types[value])
                copies += self.stages.copied(array, self._element(value))
            seen.add(array)
            array.place = "result"
            if position in in_place:
                array.alias = arguments[in_place[position]]
            results.append(array)
        return results, copies

    def _element(self, value: int, *prefix: Index) -> Source:
        """Where the elements of a value come from, behind these indices."""
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
        within = _Body(body, given, self.namer, self.fuse, self.vectors)
        within.run()
        last = self._turn(op, within, carries, outputs, index(t))
        self.steps.append(For(t, op.backwards, [*within.steps, *last]))
        self._known_from_now_on(outputs)

    def _turn(
        self, op: Scan, body: _Body, carries: Sequence[Buffer], outputs: Sequence[int], turn: Index
    ) -> list[Kernel]:
        """What a turn leaves to the next, and the rows it fills."""
        items: list[Item] = []
        new = body.function.results
        for value, output in zip(new[op.carried :], outputs[op.carried :], strict=True):
            items += _row(self.stages.array(output), turn, body._element(value))
        held = []
        for value, carry in zip(new[: op.carried], carries, strict=True):
            # A carry that reads another must have the value of this turn.
            again = Buffer(self.namer.fresh(f"next_{carry.name}"), carry.type)
            items += body.stages.copied(again, body._element(value))
            held.append((carry, again))
        for carry, again in held:
            items += self.stages.copied(carry, _source(again))
        return self.fuse(items)

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
            within = _Body(function, known, self.namer, self.fuse, self.vectors)
            within.run()
            items: list[Item] = []
            for array, value in zip(arrays, function.results, strict=True):
                items += within.stages.copied(array, within._element(value))
            parts.append([*within.steps, *map(_kernel, items)])
        self.steps.append(If(decided, (parts[0], parts[1])))
        self._known_from_now_on(apply.outputs)


def _kernel(item: Item) -> Kernel:
    return Kernel([item])


def _row(stack: Buffer, turn: Index, element: Source) -> list[Item]:
    loops = [Variable(size) for size in stack.type.shape[1:]]
    at = tuple(map(index, loops))
    return nested(loops, [Store(stack, (turn, *at), element(at))])


def finish(every: Sequence[Kernel], kept: Collection[Buffer], vectors: bool = True) -> None:
    """What kernels gain when all of them are known: arrays without needless axes, lanes, fewer loops."""
    shrink(every, kept)
    if vectors:
        for kernel in every:
            widened(kernel)
        shrink(every, kept)
    tidy(every)
