"""Steps of random programs: each applies an operation to existing values, converted to fit."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from catgrad import ops
from catgrad.errors import CatgradError
from catgrad.ops.control import Variables
from catgrad.terms.block import HigherOrder
from catgrad.terms.op import OPS
from catgrad.terms.var import Var
from catgrad.testing import in_dtype
from catgrad.types import Dtype, NdArrayType
from tests.maker import DTYPES, FLOATING, NUMERIC, SIZES, WHOLE, Maker, fitted, rule

ELEMENTWISE = [c for c in OPS.values() if c.elementwise and not c.__dataclass_fields__]  # type: ignore[attr-defined]
EXAMPLES = [(op, types) for c in OPS.values() for op, types in c.examples()]


@rule
def elementwise(m: Maker) -> Variables:
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
def example(m: Maker) -> Variables:
    op, types = m.one_of(EXAMPLES)
    dtype = m.one_of([d for d in FLOATING if d in m.dtypes] or [Dtype.float32])
    if dtype is not Dtype.float32 and not isinstance(op, HigherOrder):
        op, types = in_dtype(op, dtype), in_dtype(types, dtype)
    operands = [
        m.like(t) if t.dtype in FLOATING or t.dtype is Dtype.bool else m.indices(t.shape, 3) for t in types
    ]
    return op.apply(*(ops.cast(x, t.dtype) for x, t in zip(operands, types, strict=True)))


@rule
def generated(m: Maker) -> Variables:
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
def cast(m: Maker) -> Variables:
    return ops.cast(m.value(), m.one_of(m.dtypes))


@rule
def reshape(m: Maker) -> Variables:
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
def rearrange(m: Maker) -> Variables:
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
def cut(m: Maker) -> Variables:
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
def join(m: Maker) -> Variables:
    x = m.of(least=1)
    if m.flag():
        return ops.stack([x, m.like(x.type)], m.number(x.type.rank))
    axis = m.axis(x)
    other = x.type.with_shape((*x.shape[:axis], m.size(), *x.shape[axis + 1 :]))
    return ops.concat([x, m.like(other), *([x] if m.flag() else [])], axis)


@rule
def reduction(m: Maker) -> Variables:
    x = m.of()
    if x.dtype is Dtype.bool:
        return m.one_of((ops.any, ops.all))(x, m.axes(x))
    if x.dtype in WHOLE or m.flag():
        return ops.sum(x, m.axes(x))
    return ops.mean(x, m.axes(x))


@rule
def along_an_axis(m: Maker) -> Variables:
    if m.flag():
        x = m.of(NUMERIC, least=1)
        return m.one_of((ops.argmax, ops.argmin, ops.max, ops.min, ops.argsort))(x, m.axis(x))
    x = m.of(FLOATING, least=1)
    return m.one_of((ops.softmax, ops.log_softmax, ops.logsumexp))(x, m.axis(x))


@rule
def order(m: Maker) -> Variables:
    x = m.of(NUMERIC, least=1)
    axis = m.axis(x)
    size = x.shape[axis]
    if isinstance(size, int) and m.flag():
        return ops.top_k(x, m.number(size), axis, m.flag())
    return ops.sort(x, axis, m.flag())


@rule
def running(m: Maker) -> Variables:
    x = m.of(NUMERIC, least=1)
    return ops.cumsum(x, m.axis(x), backwards=m.flag())


@rule
def lookup(m: Maker) -> Variables:
    x = m.of(least=1)
    if m.flag():
        return ops.take(x, m.indices(m.shape(2), x.shape[axis := m.axis(x)]), axis)
    axis = m.axis(x)
    shape = (*x.shape[:axis], m.size(), *x.shape[axis + 1 :])
    return ops.take_along_axis(x, m.indices(shape, x.shape[axis]), axis)


@rule
def scatter(m: Maker) -> Variables:
    x = m.of(NUMERIC, least=1)
    size = m.size()
    if m.flag():
        return ops.scatter_add(x, m.indices(x.shape[: 1 + m.number(x.type.rank - 1)], size), size)
    return ops.scatter_add_along_axis(x, m.indices(x.shape, size), size, m.axis(x))


@rule
def contraction(m: Maker) -> Variables:
    x = m.of(NUMERIC, most=3)
    axes = m.number(x.type.rank)
    y = m.like(x.type.with_shape((*x.shape[x.type.rank - axes :], *m.shape(2))))
    return ops.contract(x, y, axes)


@rule
def product(m: Maker) -> Variables:
    x = m.of(NUMERIC, least=2, most=4)
    return ops.matmul(x, m.like(x.type.with_shape((*x.shape[:-2], x.shape[-1], m.size()))))


@rule
def attention(m: Maker) -> Variables:
    q = m.of(FLOATING, least=2)
    *batch, _, d = q.shape
    s, e = m.size(), m.size()
    k, v = (m.like(q.type.with_shape((*batch, s, width))) for width in (d, e))
    causal = m.flag()
    window = 1 + m.number(2) if causal and s == q.shape[-2] else None
    return ops.attention(q, k, v, causal, window)


@rule
def window(m: Maker) -> Variables:
    x = m.of(NUMERIC, least=1, most=2)
    axis = m.axis(x)
    return ops.window(x, (axis,), (1 + m.number(2),), (1 + m.number(1),), (1 + m.number(1),))


@rule
def convolution(m: Maker) -> Variables:
    x = m.of(FLOATING, least=3, most=4)
    places = x.type.rank - 2
    channels = x.shape[1]
    groups = channels if isinstance(channels, int) and channels and m.flag() else 1
    sizes = [1 + m.number(2) for _ in range(places)]
    stride, padding, dilation = ([least + m.number(1) for _ in sizes] for least in (1, 0, 1))
    outputs, inputs = groups * m.one_of(SIZES), 1 if groups > 1 else channels
    w = m.like(x.type.with_shape((outputs, inputs, *sizes)))
    return ops.conv(x, w, stride, padding, dilation, groups)


@rule
def pool(m: Maker) -> Variables:
    x = m.of(FLOATING, least=3, most=4)
    return m.one_of((ops.max_pool, ops.avg_pool))(x, 1 + m.number(2), 1 + m.number(1))


@rule
def norm(m: Maker) -> Variables:
    x = m.of(FLOATING, least=1)
    rank = 1 + m.number(x.type.rank - 1)
    kind = m.number(2)
    if kind == 2:
        w, b = (m.like(x.type.with_shape(x.shape[x.type.rank - rank :])) for _ in range(2))
        return ops.affine_layer_norm(x, w, b)
    return (ops.layer_norm, ops.rms_norm)[kind](x, rank)


@rule
def clamp(m: Maker) -> Variables:
    return ops.clamp(m.of(FLOATING), m.one_of((None, -1.0, 0.5)), m.one_of((1.0, None)))


@rule
def scan(m: Maker) -> Variables:
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
def cond(m: Maker) -> Variables:
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
def checkpoint(m: Maker) -> Variables:
    if m.depth >= 2:
        return m.value()

    def block(*inputs: Var) -> Var:
        within = m.inside(*inputs)
        within.steps(1 + m.number(2))
        return within.value()

    return ops.checkpoint(block, m.value(), m.value())
