"""Schedule reductions: loop interchange to the order of memory, strip mining, and sums of partial sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catgrad.dims import Size, product
from catgrad.loops.ir.index import ZERO, Index, Variable, index
from catgrad.loops.ir.nest import (
    Accumulate,
    Indices,
    Item,
    Kernel,
    Loop,
    Reduce,
    Store,
    Substituted,
    nested,
    rewritten,
    size_hint,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Scalar, Space, cast, converted, number
from catgrad.loops.ir.steps import Lowered, kernels
from catgrad.loops.machine import Machine, Vectors
from catgrad.loops.passes.schedule.interchange import short_last
from catgrad.loops.passes.schedule.short_rows import ShortRows, short_rows
from catgrad.loops.passes.schedule.unroll import MAX_UNROLLED_ITERATIONS
from catgrad.ops.arithmetic import Add, Maximum, Minimum, Multiply
from catgrad.ops.compare import Equal, Greater, Less, NotEqual, Select
from catgrad.ops.extrema import ArgMax, ArgMin
from catgrad.ops.logic import And, Or
from catgrad.terms.op import Op
from catgrad.types import Dtype, NdArrayType

MAX_PARTIAL_SUMS = 2**11
"""Partial sums that are alive at once during one pass over their terms."""

MAX_TERMS = 2**12
"""Terms that one float32 accumulator sums with acceptable rounding."""

MAX_LONE_TERMS = 4 * MAX_TERMS
"""Terms of a sum by one loop, whose accumulators are the lanes of a vector: 4 at least."""

COLUMN_BLOCK = 64
"""Columns of a matrix that are reduced together, so that threads can divide blocks of them."""


ACCUMULATORS: dict[type[Op], str] = {Add: "sum", Multiply: "product", Maximum: "greatest", Minimum: "least"}
"""Names of accumulators by what they accumulate."""


class Differs(Op, register=False):
    """Tell whether two numbers differ, where NaN is equal to itself, unlike in a comparison."""

    of: Dtype
    elementwise = True


def schedule_reductions(lowered: Lowered, machine: Machine) -> Lowered:
    """Write reductions as loops around accumulations, in an order that suits the machine."""
    vectors = machine.vectors.lanes > 1

    def scheduled(item: Item, free: tuple[Variable, ...] = ()) -> list[Item]:
        if isinstance(item, Loop) and len(item.body) == 1 and not item.begins:
            inside = scheduled(item.body[0], (*free, item.variable))
            return inside if inside != item.body else [item]
        if not isinstance(item, Reduce):
            return [item]
        if isinstance(item.op, ArgMax | ArgMin):
            return _index_of_extremum(item, free, item.op)
        schedule = _Schedule(item, free, machine.float64_sums)
        return schedule.by_memory(machine.vectors) if vectors else schedule.one_by_one()

    return lowered.map_kernels(
        lambda kernel: Kernel([new for item in kernel.body for new in scheduled(item)])
    )


@dataclass(frozen=True)
class _Schedule:
    """The loops of one reduction, for each value of its free variables."""

    reduce: Reduce
    free: tuple[Variable, ...]
    float64_sums: bool

    @property
    def wide(self) -> Dtype:
        """The dtype of the accumulator."""
        dtype = self.reduce.buffer.type.dtype
        in_float64 = self.float64_sums and dtype.is_floating and isinstance(self.reduce.op, Add)
        return Dtype.float64 if in_float64 else dtype.wide

    def one_by_one(self) -> list[Item]:
        """Finish one reduction before the next begins."""
        few = size_hint(product(tuple(v.extent for v in self.reduce.axes))) <= MAX_UNROLLED_ITERATIONS
        return self._nest([*(short_last(self.free) if few else self.free), *self.reduce.axes])

    def by_memory(self, vectors: Vectors) -> list[Item]:
        """Traverse the elements in memory order, by blocks of columns, or with a sum for each lane."""
        r = self.reduce
        found = short_rows(r, self.free, vectors.lanes)
        if found and (not self._rounds_often(found.terms) or (len(found.rows) > 1 and vectors.keeps_sums)):
            return self._by_rows(found)
        order = _memory_order(r.scalar, self.free, r.axes)
        if order[-1:] and order[-1] in self.free and (cut := _in_blocks(order[-1])):
            outer, inner = cut
            change = Substituted({order[-1]: index(outer) * COLUMN_BLOCK + index(inner)})
            blocked = replace(r, scalar=change.scalar(r.scalar), indices=change.indices(r.indices))
            free = (*(v for v in self.free if v is not order[-1]), outer, inner)
            blocks = _Schedule(blocked, free, self.float64_sums)
            return blocks._nest([outer, *order[:-1], inner], in_two=True)
        if self._is_long_alone(order):
            return replace(self, float64_sums=True)._nest(order)
        return self._nest(order, in_two=True)

    def _nest(self, order: Sequence[Variable], in_two: bool = False) -> list[Item]:
        r, wide = self.reduce, self.wide
        scalar = self._widened(r.scalar)
        first = next((k for k, v in enumerate(order) if v in r.axes), len(order))
        inside, own = [v for v in order[first:] if v in self.free], tuple(map(index, self.free))
        total = self._accumulator(wide)
        if in_two and self._is_long(order[first:]) and not inside:
            return nested(order[:first], self._added_in_two(order[first:], own, total, scalar))
        last: Scalar = Load(total, own)
        body = _again(inside, [Store(total, own, number(r.identity, wide))])
        body += nested(order[first:], [Accumulate(total, own, r.op, scalar)])
        body += _again(inside, [Store(r.buffer, r.indices, self._narrowed(last))])
        return nested(order[:first], body)

    def _by_rows(self, found: ShortRows) -> list[Item]:
        """Sum short rows, element by element, and add up these sums: if there are many rows, in float64."""
        r, own, element = self.reduce, tuple(map(index, self.free)), found.element
        name, at = accumulator(r), (*own, index(element))
        sums = self._sums(lanes_of(name), self.wide, element)
        rows, lanes = found.rows, [*found.inside, element]
        if is_long := self._rounds_often(found.terms):
            rows = rows[1:]
        body = _again(lanes, [Store(sums, at, number(r.identity, self.wide))])
        body += nested([*rows, *lanes], [Accumulate(sums, at, r.op, self._widened(found.scalar))])
        if is_long:
            name = _after(r.buffer, "total")
            part, sums = sums, self._sums(lanes_of(name), Dtype.float64, element)
            body += _again(lanes, [Accumulate(sums, at, r.op, cast(Load(part, at), Dtype.float64))])
            begin = _again(lanes, [Store(sums, at, number(r.identity, Dtype.float64))])
            body = [*begin, *nested(found.rows[:1], body)]
        end = _again(found.inside, self._added_up(name, sums, element.extent))
        return nested(found.outside, [*body, *end])

    def _sums(self, name: str, dtype: Dtype, *elements: Variable) -> Buffer:
        """Return an array of sums, for each value of the free variables and of elements of a row."""
        return Buffer(name, NdArrayType(tuple(v.extent for v in (*self.free, *elements)), dtype))

    def _added_up(self, name: str, sums: Buffer, extent: Size) -> list[Item]:
        """Add up the sums for the elements of a row, and store the total."""
        r, own, again, dtype = self.reduce, tuple(map(index, self.free)), Variable(extent), sums.type.dtype
        total = self._sums(name, dtype)
        add = Accumulate(total, own, r.op, Load(sums, (*own, index(again))))
        narrow = converted(Load(total, own), self.wide)
        return [
            Store(total, own, number(r.identity, dtype)),
            *nested([again], [add]),
            Store(r.buffer, r.indices, self._narrowed(narrow)),
        ]

    def _accumulator(self, dtype: Dtype) -> Buffer:
        return self._sums(accumulator(self.reduce), dtype)

    def _total(self) -> Buffer:
        """The accumulator of partial sums."""
        return self._sums(_after(self.reduce.buffer, "total"), Dtype.float64)

    def _widened(self, term: Scalar) -> Scalar:
        """Convert a term to the accumulator's dtype; a product of two float32 is exact in float64."""
        is_product = isinstance(term, Compute) and isinstance(term.op, Multiply)
        if is_product and (term.dtype, self.wide) == (Dtype.float32, Dtype.float64):
            return Compute(Multiply(), self.wide, tuple(converted(x, self.wide) for x in term.operands))
        return converted(term, self.wide)

    def _narrowed(self, scalar: Scalar) -> Scalar:
        return converted(scalar, self.reduce.buffer.type.dtype)

    def _is_long(self, order: Sequence[Variable]) -> bool:
        """Tell whether one accumulator of a sum by nested loops would round too often."""
        nests = [v for v in order if v.extent != 1]
        is_nest = len(nests) > 1 and nests[0] is order[0]
        return is_nest and self._rounds_often(product(tuple(v.extent for v in order)))

    def _rounds_often(self, terms: Size) -> bool:
        """Tell whether one accumulator would round a sum of so many terms too often."""
        few = isinstance(terms, int) and terms <= MAX_TERMS
        return not few and isinstance(self.reduce.op, Add) and self.wide is Dtype.float32

    def _is_long_alone(self, order: Sequence[Variable]) -> bool:
        """Tell whether a sum by one loop has too many terms for float32, or may have over a whole array."""
        summed = [v.extent for v in self.reduce.axes if v.extent != 1]
        if len(summed) != 1 or order[-1] not in self.reduce.axes or not isinstance(self.reduce.op, Add):
            return False
        [extent] = summed
        is_long = extent > MAX_LONE_TERMS if isinstance(extent, int) else not self.free
        return is_long and self.wide is Dtype.float32

    def _added_in_two(
        self, order: Sequence[Variable], own: Indices, part: Buffer, scalar: Scalar
    ) -> list[Item]:
        """Sum partial sums, the outer one in float64: a float32 would lose late terms."""
        r = self.reduce
        total = self._total()
        iteration: list[Item] = [
            Store(part, own, number(0, Dtype.float32)),
            *nested(order[1:], [Accumulate(part, own, Add(), scalar)]),
            Accumulate(total, own, Add(), cast(Load(part, own), Dtype.float64)),
        ]
        last = self._narrowed(cast(Load(total, own), Dtype.float32))
        begin = Store(total, own, number(0, Dtype.float64))
        return [begin, *nested([order[0]], iteration), Store(r.buffer, r.indices, last)]


def name_accumulators(lowered: Lowered, machine: Machine) -> Lowered:
    """Name accumulators after the results that they are copied to, if several kernels share them."""
    every = (s for kernel in kernels(lowered.steps) for s in statements(kernel.body) if isinstance(s, Store))
    copies = {s.scalar.buffer: s.buffer for s in every if isinstance(s.scalar, Load)}
    shared = (b for b in copies if b.space is Space.WORKSPACE and _accumulates(b, copies[b]))
    return lowered.replace_buffers({b: replace(b, name=copies[b].name) for b in shared})


def accumulator(r: Reduce) -> str:
    """Return a name for what accumulates to the result of a reduction."""
    return _after(r.buffer, ACCUMULATORS.get(type(r.op)) or r.op.result or r.op.macro.lower())


def _accumulates(register: Buffer, result: Buffer) -> bool:
    """Tell by its name whether an accumulator is that of a result."""
    return register.name in {_after(result, role) for role in ACCUMULATORS.values()}


def lanes_of(name: str) -> str:
    """Name the array of sums of which each lane of a vector has one."""
    return f"{name}_lanes"


def _after(result: Buffer, role: str) -> str:
    """Name a register after a result, of a mere total after its layer, or by a word that both have."""
    layer, dot, own = result.name.rpartition(".")
    if role in own.split("_"):
        return role
    return layer + dot + role if own == Add.result else f"{result.name}_{role}"


def reduced_serially(r: Reduce) -> list[Item]:
    """Write one reduction as a loop around an accumulation."""
    if isinstance(r.op, ArgMax | ArgMin):
        return _index_of_extremum(r, (), r.op)
    return _Schedule(r, (), False).one_by_one()


def index_by_reductions(r: Reduce) -> list[Item]:
    """Reduce to the extremum, then to the first index at which it is: the order of terms does not matter."""
    (axis,), dtype, greatest = r.axes, r.scalar.dtype, isinstance(r.op, ArgMax)
    best = Buffer("best", NdArrayType((), dtype), Space.REGISTER)
    where = Buffer("where", NdArrayType((), Dtype.int32), Space.REGISTER)
    least, most = (float("-inf"), float("inf")) if dtype.is_floating else (dtype.limits.min, dtype.limits.max)
    better = Maximum() if greatest else Minimum()
    found = Load(best, ())
    same = Compute(Equal(), Dtype.bool, (r.scalar, found))
    if dtype.is_floating:
        both = (Compute(NotEqual(), Dtype.bool, (x, x)) for x in (r.scalar, found))
        same = Compute(Or(), Dtype.bool, (same, Compute(And(), Dtype.bool, tuple(both))))
    here, never = IndexValue(index(axis), Dtype.int32), number(Dtype.int32.limits.max, Dtype.int32)
    place = Compute(Select(), Dtype.int32, (same, here, never))
    return [
        Reduce(best, (), better, r.scalar, r.axes, least if greatest else most),
        Reduce(where, (), Minimum(), place, r.axes, Dtype.int32.limits.max),
        Store(r.buffer, r.indices, cast(Load(where, ()), Dtype.int64)),
    ]


def _index_of_extremum(r: Reduce, free: Sequence[Variable], op: ArgMax | ArgMin) -> list[Item]:
    """Find the first index of the greatest or least scalar: pairs of both, reduced in order."""
    (axis,), greatest = r.axes, isinstance(op, ArgMax)
    own, dtype = tuple(map(index, free)), r.scalar.dtype
    shape = tuple(v.extent for v in free)
    best = Buffer("best", NdArrayType(shape, dtype))
    # Indices of 32 bits fit into the lanes of elements of 32 bits.
    where = Buffer("where", NdArrayType(shape, Dtype.int32))
    old = Load(best, own)
    if dtype.is_floating:
        # A NaN is never replaced, as nothing is greater or less than it.
        start: Scalar = number(float("-inf" if greatest else "inf"), dtype)
        better_of = Maximum() if greatest else Minimum()
        best_so_far: Scalar = Compute(better_of, dtype, (r.scalar, old))
        better = Compute(Differs(dtype.wide), Dtype.bool, (best_so_far, old))
    else:
        start = Substituted({axis: ZERO}).scalar(r.scalar)
        better = Compute(Greater() if greatest else Less(), Dtype.bool, (r.scalar, old))
        best_so_far = Compute(Select(), dtype, (better, r.scalar, old))
    here = IndexValue(index(axis), Dtype.int32)
    iteration: list[Item] = [
        Store(where, own, Compute(Select(), Dtype.int32, (better, here, Load(where, own)))),
        Store(best, own, best_so_far),
    ]
    begin: list[Item] = [Store(where, own, number(0, Dtype.int32)), Store(best, own, start)]
    end = Store(r.buffer, r.indices, cast(Load(where, own), Dtype.int64))
    return nested(free, [*begin, *nested([axis], iteration), end])


def _memory_order(scalar: Scalar, free: Sequence[Variable], summed: Sequence[Variable]) -> list[Variable]:
    """Sort variables by decreasing stride in the access that depends on most of them.

    Where those summed over come last anyway, all others come first.
    """
    loads = [(load, load.buffer.flat(load.indices)) for load in scalar.loads()]
    if not loads or not (free or summed):
        return [*free, *summed]
    _, main = max(loads, key=lambda pair: sum(pair[1].coefficient(v) != 0 for v in (*free, *summed)))

    def distance(v: Variable) -> int:
        return abs(size_hint(main.coefficient(v))) or (0 if v in summed else 1 << 60)

    order = sorted((*free, *summed), key=lambda v: -distance(v))
    if order[-1] in summed:
        return [*free, *(v for v in order if v in summed)]
    rows = [v for v in order if v in free and any(_is_outside(v, summed, place) for _, place in loads)]
    columns = [v for v in order if v in free and v not in rows]
    if size_hint(product(tuple(v.extent for v in columns))) <= MAX_PARTIAL_SUMS:
        return [*rows, *(v for v in order if v in summed), *columns]
    return order


def _is_outside(v: Variable, summed: Sequence[Variable], place: Index) -> bool:
    """Tell whether the stride along a variable exceeds those along the variables summed over."""
    steps = [abs(size_hint(place.coefficient(s))) for s in summed if place.coefficient(s) != 0]
    return bool(steps) and abs(size_hint(place.coefficient(v))) > max(steps)


def _in_blocks(columns: Variable) -> tuple[Variable, Variable] | None:
    """Strip-mine columns: variables for blocks, and for the columns of one."""
    extent = columns.extent
    if not isinstance(extent, int) or extent % COLUMN_BLOCK or extent == COLUMN_BLOCK:
        return None
    return Variable(extent // COLUMN_BLOCK), Variable(COLUMN_BLOCK)


def _again(variables: Sequence[Variable], items: Sequence[Item]) -> list[Item]:
    """Repeat items in new loops over these variables."""
    new = {v: Variable(v.extent) for v in variables}
    return nested(list(new.values()), rewritten(items, Substituted({v: index(n) for v, n in new.items()})))
