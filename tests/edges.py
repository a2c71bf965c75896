"""Programs at the edges of what targets compute: numbers that are not finite, empty axes, single numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import inf, nan

import numpy as np

from catgrad import ops
from catgrad.dims import Dim
from catgrad.errors import CatgradError
from catgrad.ops.contract import Contract
from catgrad.ops.control import Variables
from catgrad.terms.build import build
from catgrad.terms.op import OPS
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType
from tests.maker import DTYPES, FLOATING, NUMERIC
from tests.programs import Program

SPECIAL = np.float32([nan, inf, -inf, 0.0, -0.0, 1e30, -1e30, 1.5, -2.5, 88.5, 1e5, 1e-30, 3e38, -3e38, 20])
PAIRS = [a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL)]
TRUTHS = [np.array([False, True, False, True]), np.array([False, False, True, True])]
ORDERS = (ops.greater, ops.less, ops.greater_equal, ops.less_equal, ops.equal, ops.not_equal)
BINARY = (*ORDERS, ops.add, ops.subtract, ops.multiply, ops.divide, ops.maximum, ops.minimum)


def program(function: Callable[..., Variables], *arrays: Array, symbolic: bool = False) -> Program:
    """Build a program for arrays, whose sizes may be symbols of their own."""
    types = [NdArrayType(a.shape, Dtype[a.dtype.name]) for a in map(np.asarray, arrays)]
    if symbolic:
        types = [t.with_shape([Dim(f"{'xy'[k]}{i}") for i in range(t.rank)]) for k, t in enumerate(types)]
    return Program(build(function, types), tuple(map(np.asarray, arrays)))


def elementwise() -> list[Program]:
    """Apply each operation on elements to all special numbers, or pairs of them."""
    made = []
    for name, kind in OPS.items():
        if kind.elementwise and not kind.__dataclass_fields__ and name != "Select":  # type: ignore[attr-defined]
            arrays = [SPECIAL] if kind().arity() == 1 else PAIRS
            try:
                made.append(program(kind(), *arrays))
            except CatgradError:  # it takes no floats
                continue
    return made


def powers() -> list[Program]:
    """Raise numbers, of which 1 has no power but 1, to powers that are not finite too."""
    bases, exponents = ([1, -1, 0, 2, -2, inf, -inf, nan], [0, 1, -1, 2, 3, inf, -inf, nan])
    pairs = [a.ravel() for a in np.meshgrid(bases, exponents)]
    return [program(ops.power, *(a.astype(t) for a in pairs)) for t in (np.float32, np.float64)]


def with_constants() -> list[Program]:
    """Combine special numbers with constants, which compilers see."""

    def combined(number: float) -> Callable[[Var], list[Var]]:
        def function(x: Var) -> list[Var]:
            c = Constant(x.type, number)()
            return [z for op in BINARY for z in (op(x, c), op(c, x))]

        return function

    return [program(combined(number), SPECIAL) for number in (0.0, -0.0, 2.0, -1.0, inf, -inf, nan, 3e38)]


def choices() -> list[Program]:
    """Choose between numbers of each dtype, and what is not finite and 0 or an infinity."""
    finite = np.isfinite(SPECIAL)
    others = [lambda x, n=n: Constant(x.type, n)() for n in (0.0, -inf)]
    made = [
        program(lambda c, x, o=o: [ops.select(c, x, o(x)), ops.select(~c, o(x), x)], finite, SPECIAL)
        for o in others
    ]
    made.append(program(lambda c, x: ops.select(c, x, ops.log(x)), finite, SPECIAL))
    for dtype in DTYPES:
        x, y = (each.astype(dtype.numpy) for each in TRUTHS)
        made += [program(ops.select, TRUTHS[0], x, y), program(ops.select, np.True_, x[1], y[1])]
    return made


def along_axes() -> list[Program]:
    """Reduce, sort and normalise rows and columns of special numbers, some of which have no NaN."""
    rows = np.stack([SPECIAL, np.arange(SPECIAL.size), np.where(np.isnan(SPECIAL), 1, SPECIAL)]).astype(
        np.float32
    )
    functions = (
        ops.max, ops.min, ops.argmax, ops.argmin, ops.argsort, ops.sum, ops.cumsum, ops.softmax,
        ops.logsumexp,
        lambda x, axis: ops.argsort(x, axis, descending=True), lambda x, axis: ops.sort(x, axis),
        lambda x, axis: [*ops.top_k(x, 2, axis), *ops.top_k(x, 2, axis, largest=False)],
    )  # fmt: skip
    made = [program(lambda x, f=f, axis=axis: f(x, axis), rows) for f in functions for axis in (0, 1)]
    image = np.float32([nan, 1, -inf, -inf, inf, 2, -inf, -inf, 0, 3, 5, nan, -1, -2, 4, 4]).reshape(
        1, 1, 4, 4
    )
    pools = (
        lambda x: ops.max_pool(x, 2, 2),
        lambda x: ops.max_pool(x, 3, 1, 1),
        lambda x: ops.avg_pool(x, 2, 2),
    )
    made += [program(pool, image) for pool in pools]
    return [
        *made,
        program(lambda x: ops.max_pool(ops.relu(x), 2, 2), image),
        program(lambda x: x @ ops.transpose(x), rows),
    ]


def orders() -> list[Program]:
    """Compare numbers of each dtype, and truth values."""
    return [
        program(lambda x, y: [op(x, y) for op in ORDERS], *(each.astype(dtype.numpy) for each in TRUTHS))
        for dtype in DTYPES
    ]


def single_indices() -> list[Program]:
    """Gather and scatter by an index that is one number, and by none."""
    made = []
    for dtype, whole in product(DTYPES, (Dtype.int32, Dtype.int64)):
        x = np.arange(4).astype(dtype.numpy)
        index, none = np.asarray(2, whole.numpy), np.zeros(0, whole.numpy)
        made += [program(ops.gather, each, i) for each in (x, x.reshape(4, 1)) for i in (index, none)]
        if dtype.is_numeric:
            rows = lambda x, i: ops.scatter_add(x, i, 3)
            made += [program(rows, x, index), program(rows, x[0], index), program(rows, x[:0], none)]
    return made


LABELS = (
    ((0, 1, 2), (3, 2, 1), (1, 0, 3)),
    ((0, 1), (1, 0), ()),
    ((0, 1, 2), (0, 2, 1), (0,)),
    ((0, 1, 2), (0, 2), (0, 1)),
    ((0, 1, 2), (2, 3), (3, 0, 1)),
    ((0, 1), (2, 3), (0, 2, 1, 3)),
    ((0,), (0,), ()),
    ((), (0,), (0,)),
)
"""Labels of contractions: batches, products of vectors and of several axes."""


def empty_contractions() -> list[Program]:
    """Contract arrays of which each axis in turn is empty, also at run time only."""
    made = []
    for labels, dtype in product(LABELS, (Dtype.float32, Dtype.int32)):
        every = sorted({*labels[0], *labels[1]})
        for empty, symbolic in product((None, *every), (False, True)):
            sizes = {label: 0 if label == empty else label + 2 for label in every}
            arrays = [np.ones([sizes[label] for label in side], dtype.numpy) for side in labels[:2]]
            types = [
                NdArrayType([Dim("abcd"[label]) if symbolic else sizes[label] for label in side], dtype)
                for side in labels[:2]
            ]
            made.append(Program(build(Contract(*labels), types), tuple(arrays)))
    return made


def empty_axes() -> list[Program]:
    """Apply operations to arrays without rows."""
    functions: Sequence[Callable[[Var], Variables]] = (
        lambda x: [ops.sum(x, 0), ops.sum(x, 1), ops.sum(x)],
        lambda x: [ops.cumsum(x, 0), ops.cumsum(x, 1)],
        lambda x: [ops.argsort(x, 0), ops.argsort(x, 1)],
        lambda x: [ops.max(x, 1), ops.argmax(x, 1)],
        lambda x: [ops.concat([x, x], 0), ops.concat([x, x], 1), ops.flip(x), ops.pad(x, [(1, 0), (0, 1)])],
        lambda x: ops.transpose(x) @ x,
        lambda x: x @ ops.transpose(x),
    )
    return [program(f, np.ones((0, 3), dtype.numpy)) for f in functions for dtype in NUMERIC]


def single_numbers() -> list[Program]:
    """Apply operations to arrays without axes."""

    def every(x: Var) -> list[Var]:
        moved = [ops.reshape(x, 1, 1), ops.broadcast(x, (2, 0)), ops.broadcast(x, (2, 3)), ops.stack([x, x])]
        more = [ops.flip(x, ()), ops.permute(x), ops.slice(x, (), ()), ops.squeeze(x), ops.sum(x), x]
        return [*moved, *more, ops.pad(x, []), Contract((), (), ())(x, x)]

    return [program(every, np.asarray(3, dtype.numpy)) for dtype in NUMERIC]


def constants() -> list[Program]:
    """Return constants, literals and counts of each dtype as they are."""
    made = []
    for dtype in NUMERIC:
        numbers = (1.0, 2.5, -0.1, nan, inf, 6e4) if dtype in FLOATING else (0, 1, 3)
        made += [
            program(lambda dtype=dtype, n=n, shape=shape: Constant(NdArrayType(shape, dtype), n)())
            for n, shape in product(numbers, ((), (2,)))
        ]
        made.append(
            program(lambda dtype=dtype: [ops.array([1, 2], dtype), ops.iota(5, dtype), ops.iota(2100, dtype)])
        )
        made.append(
            program(
                lambda x, dtype=dtype: ops.number_of(x.shape[0], dtype), np.ones(3, np.float32), symbolic=True
            )
        )
    for dtype in FLOATING:
        made.append(program(lambda dtype=dtype: ops.array([1.0, 2.5, -0.0, nan, inf], dtype)))
    return [*made, program(lambda: [ops.array([True, False]), Constant(NdArrayType((), Dtype.bool), 1)()])]


EDGES: dict[str, Callable[[], list[Program]]] = {
    each.__name__: each
    for each in (
        elementwise, powers, with_constants, choices, along_axes, orders, single_indices, empty_contractions,
        empty_axes, single_numbers, constants,
    )
}  # fmt: skip
