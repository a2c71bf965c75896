"""Random programs over all operations, and inputs of every kind.

A program is drawn step by step: each applies an operation to values that are there already, made to fit
by casts, reshapes and copies. Every registered operation takes part by its examples, and element-by-element
ones on any shape; those with attributes worth varying also have a rule below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from catgrad import ops
from catgrad.block import HigherOrder, blocks
from catgrad.build import Var, build
from catgrad.dims import Dim
from catgrad.errors import CatgradError
from catgrad.functors import reverse
from catgrad.op import OPS
from catgrad.program import Function, lower, straighten
from catgrad.structural import Constant
from catgrad.term import Term
from catgrad.testing import in_dtype
from catgrad.types import Array, Dtype, NdArrayType, symbols

FLOATING = (Dtype.float32, Dtype.float64, Dtype.float16, Dtype.bfloat16)
WHOLE = (Dtype.int32, Dtype.int64, Dtype.uint32)
NUMERIC = (*FLOATING, *WHOLE)
DTYPES = (*NUMERIC, Dtype.bool)
SIZES = (2, 1, 3, 0, 4, 1, 5)
"""Of axes: loops have no iteration, one, or a few."""
LARGE = (17, 33, 64)
"""Of an axis now and then: vectors, blocks and matrix products begin here."""
MOST_ELEMENTS = 1 << 12
SYMBOLS = (Dim("n"), Dim("m"))
TYPICAL = 7
"""The size taken for a symbol where elements are counted."""


@dataclass(frozen=True)
class Program:
    """A term, and arrays for its inputs."""

    term: Term
    inputs: tuple[Array, ...]

    def __repr__(self) -> str:
        given = "\n".join(f"  x{k} = {array!r}" for k, array in enumerate(self.inputs))
        return f"\n{listing(lower(self.term))}\n{given}"


def listing(function: Function, indent: str = "  ") -> str:
    """A function as text, one operation a line, with the blocks of loops and branches below."""

    def text(values: Sequence[int]) -> str:
        return ", ".join(f"v{value}: {function.types[value]}" for value in values) or "()"

    lines = [f"{indent}{text(function.arguments)} -> {text(function.results)}"]
    for op, inputs, outputs in function.body:
        lines.append(f"{indent}{text(outputs)} = {op!r}({', '.join(f'v{v}' for v in inputs)})")
        lines += [listing(straighten(block.term), f"{indent}    ") for block in blocks(op).values()]
    return "\n".join(lines)


@st.composite
def programs(draw: Any, steps: int = 8, symbolic: bool = True, dtypes: Sequence[Dtype] = DTYPES) -> Program:
    """A random program, or the reverse derivative of one, with its inputs."""
    chosen = draw(st.lists(st.sampled_from(SYMBOLS), max_size=2, unique=True)) if symbolic else []
    outer = Maker(draw, [], chosen, dtypes)
    types = [outer.type() for _ in range(draw(st.integers(1, 3)))]
    told = symbols(tuple(t for t in types if any(s in chosen for s in t.shape)))
    types += [NdArrayType((symbol,)) for symbol in chosen if symbol.symbols.isdisjoint(told)]

    def body(*inputs: Var) -> list[Var]:
        maker = Maker(draw, list(inputs), chosen, dtypes)
        maker.steps(draw(st.integers(1, steps)))
        last = maker.pool[len(inputs) :][-1:]
        return [*last, *(maker.value() for _ in range(draw(st.integers(0, 2))))]

    term = build(body, types)
    if draw(st.integers(0, 3)) == 3:
        term = reverse(term)
    sizes = {symbol: draw(st.sampled_from((2, 0, 1, 3, 5, 19))) for symbol in ("n", "m")}
    return Program(term, tuple(_array(draw, t.substitute(sizes)) for t in term.source.table))


def _array(draw: Any, type: NdArrayType) -> Array:
    """An array of small numbers, with a few that are extreme."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if type.dtype is Dtype.bool:
        return rng.integers(0, 2, type.shape).astype(bool)
    if not type.dtype.is_floating:
        low = 0 if type.dtype is Dtype.uint32 else -4
        array = np.asarray(rng.integers(low, 5, type.shape)).astype(type.dtype.numpy)
        limits = np.iinfo(type.dtype.numpy)
        return _planted(draw, rng, array, (limits.max, limits.min, limits.max - 1))
    kind = draw(st.sampled_from(("whole", "real")))
    drawn = rng.integers(-3, 4, type.shape) if kind == "whole" else rng.normal(size=type.shape)
    array = np.asarray(drawn).astype(type.dtype.numpy)
    with np.errstate(all="ignore"):
        return _planted(draw, rng, array, (np.nan, np.inf, -np.inf, 1e30, -1e30, -0.0, 88.0, 1e-30))


def _planted(draw: Any, rng: Any, array: Array, extremes: Sequence[float]) -> Array:
    for extreme in draw(st.lists(st.sampled_from(extremes), max_size=2)):
        if array.size:
            array.reshape(-1)[rng.integers(array.size)] = np.asarray(extreme).astype(array.dtype)
    return array


class Maker:
    """The values of a program under construction."""

    def __init__(
        self, draw: Any, pool: list[Var], symbols: Sequence[Dim], dtypes: Sequence[Dtype], depth: int = 0
    ) -> None:
        self.draw, self.pool, self.symbols, self.dtypes, self.depth = draw, pool, symbols, dtypes, depth

    def steps(self, count: int) -> None:
        """Apply so many operations, leaving out those that do not fit."""
        for _ in range(count):
            rule = self.one_of(RULES)
            try:
                result = rule(self)
            except CatgradError:
                continue
            for x in result if isinstance(result, (tuple, list)) else (result,):
                if _elements(x.shape) <= MOST_ELEMENTS:
                    self.pool.append(x)

    def inside(self, *inputs: Var) -> Maker:
        """The maker of a block within the program, which reads what is around it, too."""
        return Maker(self.draw, [*self.pool, *inputs], self.symbols, self.dtypes, self.depth + 1)

    def one_of(self, choices: Sequence[Any]) -> Any:
        """One of several things; shrinks to the first."""
        return choices[self.number(len(choices) - 1)]

    def number(self, most: int) -> int:
        """A number from 0 to `most`."""
        return int(self.draw(st.integers(0, most)))

    def flag(self) -> bool:
        """A truth value."""
        return bool(self.number(1))

    def value(self) -> Var:
        """A value that is there already."""
        return self.one_of(self.pool[::-1])

    def of(self, dtypes: Sequence[Dtype] = DTYPES, least: int = 0, most: int = 4) -> Var:
        """A value of one of these dtypes, with `least` to `most` axes."""
        x = self.value()
        if x.dtype not in dtypes:
            x = ops.cast(x, self.one_of([d for d in dtypes if d in self.dtypes] or dtypes))
        while x.type.rank < least:
            x = ops.expand_dims(x, self.number(x.type.rank))
        while x.type.rank > most:
            x = _total(x, 0)
        return x

    def like(self, type: NdArrayType) -> Var:
        """A value of this type: one that is there, or one made to fit."""
        same = [v for v in self.pool if v.type is type]
        return self.one_of(same) if same and not self.flag() else fitted(self.value(), type)

    def constant(self, type: NdArrayType) -> Var:
        """An array of one number."""
        number = self.number(1 if type.dtype is Dtype.bool else 3)
        extreme = self.one_of((0.5, -1.0, -0.0, float("inf"), float("nan"), 1e4))
        return Constant(type, extreme if type.dtype.is_floating and self.flag() else number)()

    def size(self) -> Any:
        """The size of an axis."""
        if self.symbols and self.number(3) == 3:
            return self.one_of(self.symbols)
        return self.one_of(LARGE) if self.number(19) == 19 else self.one_of(SIZES)

    def shape(self, most: int = 3) -> tuple[Any, ...]:
        """A shape of not too many elements."""
        sizes = [self.size() for _ in range(self.number(most))]
        while _elements(sizes) > MOST_ELEMENTS:
            sizes.pop()
        return tuple(sizes)

    def type(self) -> NdArrayType:
        """An array type."""
        return NdArrayType(self.shape(), self.one_of((self.dtypes[0], *self.dtypes)))

    def axis(self, x: Var) -> int:
        """An axis of an array."""
        return self.number(x.type.rank - 1)

    def axes(self, x: Var) -> tuple[int, ...]:
        """Some axes of an array."""
        return tuple(a for a in range(x.type.rank) if self.flag())

    def order(self, rank: int) -> tuple[int, ...]:
        """A permutation of axes."""
        return tuple(self.draw(st.permutations(range(rank))))

    def indices(self, shape: Sequence[Any], size: Any) -> Var:
        """Whole numbers below a size; rarely ones beyond, which every target must notice."""
        dtype = self.one_of((Dtype.int64, Dtype.int32))
        x = self.like(NdArrayType(tuple(shape), dtype))
        within = x % ops.broadcast(ops.number_of(size, dtype), x.shape)
        return x if self.number(19) == 19 else within


def fitted(x: Var, type: NdArrayType) -> Var:
    """The value in another dtype and shape: its elements over and over, or their sum everywhere."""
    x = ops.cast(x, type.dtype)
    if x.shape == type.shape:
        return x
    have, want = x.type.size, type.size
    if not isinstance(have, int) or not isinstance(want, int) or not 0 < have <= 64:
        return ops.broadcast(_total(x, None), type.shape)
    times = -(-want // have)
    flat = ops.reshape(ops.broadcast(ops.reshape(x, have), (times, have)), times * have)
    return ops.reshape(ops.slice(flat, (0,), (want,)), *type.shape)


def _total(x: Var, axes: Any) -> Var:
    return ops.any(x, axes) if x.dtype is Dtype.bool else ops.sum(x, axes)


def _elements(shape: Sequence[Any]) -> int:
    return prod(s if isinstance(s, int) else int(s.substitute({"n": TYPICAL, "m": TYPICAL})) for s in shape)


Rule = Callable[[Maker], Any]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    """Let programs have such a step."""
    RULES.append(function)
    return function


ELEMENTWISE = [c for c in OPS.values() if c.elementwise and not c.__dataclass_fields__]  # type: ignore[attr-defined]
EXAMPLES = [(op, types) for c in OPS.values() for op, types in c.examples()]


@rule
def elementwise(m: Maker) -> Any:
    op = m.one_of(ELEMENTWISE)()
    x = m.value()
    for dtype in (x.dtype, Dtype.float32, Dtype.int32, Dtype.bool):
        condition = (Dtype.bool,) if type(op).__name__ == "Select" else ()
        dtypes = (*condition, *(dtype,) * (op.arity() - len(condition)))
        types = [NdArrayType(x.shape, d) for d in dtypes]
        try:
            op.outputs(*types)
        except CatgradError:
            continue
        first = len(condition)
        return op(*(fitted(x, t) if i == first else m.like(t) for i, t in enumerate(types)))
    raise AssertionError(f"{op} takes no dtype that is known")


@rule
def example(m: Maker) -> Any:
    op, types = m.one_of(EXAMPLES)
    dtype = m.one_of([d for d in FLOATING if d in m.dtypes] or [Dtype.float32])
    if dtype is not Dtype.float32 and not isinstance(op, HigherOrder):
        op, types = in_dtype(op, dtype), in_dtype(types, dtype)
    operands = [
        m.like(t) if t.dtype in FLOATING or t.dtype is Dtype.bool else m.indices(t.shape, 3) for t in types
    ]
    return op.apply(*(ops.cast(x, t.dtype) for x, t in zip(operands, types, strict=True)))


@rule
def generated(m: Maker) -> Any:
    kind = m.number(3)
    if kind == 0:
        return m.constant(m.type())
    if kind == 1:
        return ops.iota(m.size(), m.one_of(NUMERIC))
    if kind == 2:
        dtype = m.one_of(DTYPES)
        shape = [m.one_of((2, 1, 3)) for _ in range(m.number(2))]
        values = np.reshape([m.number(5) for _ in range(prod(shape))], shape)
        return ops.array((values > 2).tolist() if dtype is Dtype.bool else values.tolist(), dtype)
    seed, counter = (m.like(NdArrayType((), Dtype.int64)) for _ in range(2))
    draw = m.one_of((ops.random_bits, ops.random_uniform, ops.random_normal))
    return draw(m.shape(2), m.number(9), seed, counter)


@rule
def cast(m: Maker) -> Any:
    return ops.cast(m.value(), m.one_of(m.dtypes))


@rule
def reshape(m: Maker) -> Any:
    x = m.value()
    kind = m.number(3)
    if kind == 0:
        return ops.reshape(x, -1)
    if kind == 1:
        return ops.expand_dims(x, m.number(x.type.rank))
    if kind == 2:
        return ops.squeeze(x)
    return ops.reshape(x, *x.shape[1:], *x.shape[:1])


@rule
def rearrange(m: Maker) -> Any:
    x = m.of(least=1)
    kind = m.number(3)
    if kind == 0:
        return ops.permute(x, *m.order(x.type.rank))
    if kind == 1:
        return ops.flip(x, m.axes(x))
    if kind == 2:
        new = sorted(m.draw(st.lists(st.integers(0, x.type.rank), min_size=1, max_size=2, unique=True)))
        shape = list(x.shape)
        for axis in new:
            shape.insert(axis, m.size())
        return ops.broadcast(x, tuple(shape), new)
    size = x.shape[0]
    first = m.number(size) if isinstance(size, int) else 0
    return ops.split(x, (first, size - first), 0)


@rule
def cut(m: Maker) -> Any:
    x = m.of()
    if m.flag() and x.dtype is not Dtype.bool:
        return ops.pad(x, [(m.number(2), m.number(2)) for _ in x.shape])
    starts, sizes = [], []
    for size in x.shape:
        start = m.number(size) if isinstance(size, int) else 0
        starts.append(start)
        sizes.append(m.number(size - start) if isinstance(size, int) else size)
    return ops.slice(x, starts, sizes)


@rule
def join(m: Maker) -> Any:
    x = m.of(least=1)
    if m.flag():
        return ops.stack([x, m.like(x.type)], m.number(x.type.rank))
    axis = m.axis(x)
    other = x.type.with_shape((*x.shape[:axis], m.size(), *x.shape[axis + 1 :]))
    return ops.concat([x, m.like(other), *([x] if m.flag() else [])], axis)


@rule
def reduction(m: Maker) -> Any:
    x = m.of()
    if x.dtype is Dtype.bool:
        return m.one_of((ops.any, ops.all))(x, m.axes(x))
    if x.dtype in WHOLE or m.flag():
        return ops.sum(x, m.axes(x))
    return ops.mean(x, m.axes(x))


@rule
def along_an_axis(m: Maker) -> Any:
    whole = m.one_of((ops.argmax, ops.argmin, ops.cumsum, ops.argsort))
    if m.flag():
        x = m.of(NUMERIC, least=1)
        return whole(x, m.axis(x))
    x = m.of(FLOATING, least=1)
    float_only = (ops.max, ops.min, ops.softmax, ops.log_softmax, ops.logsumexp)
    return m.one_of(float_only)(x, m.axis(x))


@rule
def order(m: Maker) -> Any:
    x = m.of(NUMERIC, least=1)
    axis = m.axis(x)
    size = x.shape[axis]
    if isinstance(size, int) and m.flag():
        return ops.top_k(x, m.number(size), axis, m.flag())
    return ops.sort(x, axis, m.flag())


@rule
def running(m: Maker) -> Any:
    x = m.of(NUMERIC, least=1)
    return ops.cumsum(x, m.axis(x), backwards=m.flag())


@rule
def lookup(m: Maker) -> Any:
    x = m.of(least=1)
    if m.flag():
        return ops.take(x, m.indices(m.shape(2), x.shape[axis := m.axis(x)]), axis)
    axis = m.axis(x)
    shape = (*x.shape[:axis], m.size(), *x.shape[axis + 1 :])
    return ops.take_along_axis(x, m.indices(shape, x.shape[axis]), axis)


@rule
def scatter(m: Maker) -> Any:
    x = m.of(NUMERIC, least=1)
    size = m.size()
    if m.flag():
        return ops.scatter_add(x, m.indices(x.shape[: 1 + m.number(x.type.rank - 1)], size), size)
    return ops.scatter_add_along_axis(x, m.indices(x.shape, size), size, m.axis(x))


@rule
def contraction(m: Maker) -> Any:
    x = m.of(NUMERIC, most=3)
    axes = m.number(x.type.rank)
    y = m.like(x.type.with_shape((*x.shape[x.type.rank - axes :], *m.shape(2))))
    return ops.contract(x, y, axes)


@rule
def product(m: Maker) -> Any:
    x = m.of(NUMERIC, least=2, most=4)
    return ops.matmul(x, m.like(x.type.with_shape((*x.shape[:-2], x.shape[-1], m.size()))))


@rule
def attention(m: Maker) -> Any:
    q = m.of(FLOATING, least=2)
    *batch, _, d = q.shape
    s, e = m.size(), m.size()
    k, v = (m.like(q.type.with_shape((*batch, s, width))) for width in (d, e))
    return ops.attention(q, k, v, causal=m.flag())


@rule
def window(m: Maker) -> Any:
    x = m.of(NUMERIC, least=1, most=2)
    axis = m.axis(x)
    return ops.window(x, (axis,), (1 + m.number(2),), (1 + m.number(1),), (1 + m.number(1),))


@rule
def convolution(m: Maker) -> Any:
    x = m.of(FLOATING, least=3, most=4)
    places = x.type.rank - 2
    channels = x.shape[1]
    w = m.like(x.type.with_shape((m.one_of(SIZES), channels, *(1 + m.number(2) for _ in range(places)))))
    return ops.conv(x, w, stride=1 + m.number(1), padding=m.number(1), dilation=1 + m.number(1))


@rule
def pool(m: Maker) -> Any:
    x = m.of(FLOATING, least=3, most=4)
    return m.one_of((ops.max_pool, ops.avg_pool))(x, 1 + m.number(2), 1 + m.number(1))


@rule
def norm(m: Maker) -> Any:
    x = m.of(FLOATING, least=1)
    rank = 1 + m.number(x.type.rank - 1)
    kind = m.number(2)
    if kind == 2:
        w, b = (m.like(x.type.with_shape(x.shape[x.type.rank - rank :])) for _ in range(2))
        return ops.affine_layer_norm(x, w, b)
    return (ops.layer_norm, ops.rms_norm)[kind](x, rank)


@rule
def clamp(m: Maker) -> Any:
    return ops.clamp(m.of(FLOATING), m.one_of((None, -1.0, 0.5)), m.one_of((1.0, None)))


@rule
def scan(m: Maker) -> Any:
    if m.depth >= 2:
        return m.value()
    carry = tuple(m.of(most=2) for _ in range(m.number(2)))
    length = m.size()
    rows = tuple(m.like(NdArrayType((length, *m.shape(1)), m.value().dtype)) for _ in range(m.number(2)))

    def body(c: Any, x: Any) -> Any:
        within = m.inside(*c, *x)
        within.steps(1 + m.number(2))
        return tuple(within.like(each.type) for each in c), tuple(within.value() for _ in range(m.number(1)))

    last, stacks = ops.scan(body, carry, rows, length=length, backwards=m.flag())
    return [*last, *(stacks if isinstance(stacks, tuple) else [stacks])]


@rule
def cond(m: Maker) -> Any:
    if m.depth >= 2:
        return m.value()
    condition = m.like(NdArrayType((), Dtype.bool))
    operands = [m.value() for _ in range(m.number(2))]
    result = m.value().type

    def branch(*inputs: Var) -> Var:
        within = m.inside(*inputs)
        within.steps(m.number(2))
        return within.like(result)

    return ops.cond(condition, branch, branch, *operands)


@rule
def checkpoint(m: Maker) -> Any:
    if m.depth >= 2:
        return m.value()

    def block(*inputs: Var) -> Var:
        within = m.inside(*inputs)
        within.steps(1 + m.number(2))
        return within.value()

    return ops.checkpoint(block, m.value(), m.value())
