"""Random terms for property tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from catgrad import ops
from catgrad.dims import Dim
from catgrad.terms.build import build
from catgrad.terms.structural import Constant
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

I32 = Dtype.int32
VECTOR = NdArrayType((3,), I32)
MATRIX = NdArrayType((2, 3), I32)
SQUARE = NdArrayType((3, 3), I32)
TYPES = [VECTOR, MATRIX, SQUARE]

# Polynomial maps: over the integers modulo 2³² every law about them holds exactly.
STEPS = {
    VECTOR: [
        lambda x, y: ops.add(x, y), lambda x, y: ops.multiply(x, y), lambda x, y: ops.subtract(x, y),
        lambda x, y: ops.negate(x), lambda x, y: ops.square(y), lambda x, y: x * 3 + 1,
        lambda x, y: ops.broadcast(x, (2, 3)), lambda x, y: ops.broadcast(y, (3, 3), (1,)),
        lambda x, y: ops.cumsum(x), lambda x, y: ops.cumsum(y, 0, backwards=True),
    ],
    MATRIX: [
        lambda x, y: ops.add(x, y), lambda x, y: ops.multiply(x, y), lambda x, y: ops.negate(y),
        lambda x, y: ops.sum(x, 0), lambda x, y: ops.contract(ops.transpose(x), y, 1),
        lambda x, y: ops.reshape(ops.transpose(ops.reshape(x, 3, 2)), 2, 3),
    ],
    SQUARE: [
        lambda x, y: x @ y, lambda x, y: ops.transpose(x) - y, lambda x, y: ops.sum(ops.square(x), 1),
        lambda x, y: x * x * y,
    ],
}  # fmt: skip


@st.composite
def random_terms(draw, steps: dict, sources: object, targets: object, size: int) -> Term:
    """Draw a map made of these steps, with copies and discards."""
    types = list(steps)
    sources = draw(st.lists(st.sampled_from(types), min_size=1, max_size=3)) if sources is None else sources
    targets = draw(st.lists(st.sampled_from(types), min_size=0, max_size=2)) if targets is None else targets
    count = draw(st.integers(0, size))
    choices = draw(st.lists(st.tuples(*[st.integers(0, 999)] * 3), min_size=count, max_size=count))
    outputs = draw(st.lists(st.integers(0, 999), min_size=len(targets), max_size=len(targets)))

    def body(*inputs: Var):
        pool = list(inputs)

        def pick(type: NdArrayType, number: int) -> Var:
            same = [v for v in pool if v.type is type]
            if not same:
                pool.append(Constant(type, 2)())
                return pool[-1]
            return same[number % len(same)]

        for kind, first, second in choices:
            x = pool[first % len(pool)] if pool else pick(types[0], first)
            rules = steps[x.type]
            pool.append(rules[kind % len(rules)](x, pick(x.type, second)))
        return [pick(type, number) for type, number in zip(targets, outputs, strict=True)]

    return build(body, list(sources))


def integers_for(term: Term, seed: int) -> list[np.ndarray]:
    """Draw small integer arrays for the inputs of a term."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 5, t.shape).astype(t.dtype.numpy) for t in term.source.table]


SCALAR, ROW, COLUMN, GRID = (NdArrayType(shape) for shape in ((), (3,), (2,), (2, 3)))


def _choose(x: Var, y: Var) -> Var:
    """Draw a selection between constants, copies and arrays, by a copied and reshaped condition."""
    condition = ops.reshape(ops.reshape(x > ops.zeros_like(x), -1), *x.shape)
    return ops.select(condition, y, ops.zeros_like(y) + 0.5)


# Scalars, copies along every axis and truth values: what the passes of targets have to get right.
FLOAT_STEPS = {
    SCALAR: [
        lambda x, y: x + y, lambda x, y: ops.sigmoid(x), lambda x, y: ops.broadcast(x, (3,)),
        lambda x, y: ops.broadcast(y, (2, 3)), lambda x, y: _choose(x, y), lambda x, y: ops.relu(x) * 2,
    ],
    ROW: [
        lambda x, y: x * y, lambda x, y: ops.broadcast(x, (2, 3)), lambda x, y: ops.mean(x),
        lambda x, y: ops.maximum(x, y), lambda x, y: _choose(x, y), lambda x, y: x @ y,
        lambda x, y: 1 - ops.tanh(x),
    ],
    COLUMN: [
        lambda x, y: x - y, lambda x, y: ops.broadcast(x, (2, 3), (1,)), lambda x, y: ops.exp(-ops.square(x)),
        lambda x, y: _choose(x, y),
    ],
    GRID: [
        lambda x, y: ops.slice(ops.concat([x, y]), (1, 0), (2, 3)), lambda x, y: ops.softmax(x),
        lambda x, y: ops.slice(ops.pad(x, [(1, 0), (0, 2)]), (0, 2), (2, 3)), lambda x, y: ops.max(x, 0),
        lambda x, y: ops.concat(list(ops.split(ops.flip(x), (1, 0, 2), 1))[::-1], 1),
        lambda x, y: ops.log_softmax(x, 0) * ops.layer_norm(y),
        lambda x, y: ops.gather(x, ops.argmax(y, 1) * 0 + ops.iota(2)),
        lambda x, y: ops.take_along_axis(x, ops.argsort(y, 0) * 0, 0),
        lambda x, y: ops.sort(x, 1, descending=True)[0], lambda x, y: ops.cumsum(y, 1, backwards=True),
        lambda x, y: ops.min(y, 0) + ops.logsumexp(x, 0), lambda x, y: ops.clamp(x, -0.5, 0.5),
        lambda x, y: ops.select((x > y) & ~(ops.broadcast(ops.any(y > 0, 1), (2, 3), (1,))), x, y),
        lambda x, y: x * ops.array([[1, 2, 3], [4, 5, 6]]), lambda x, y: ops.take(x, ops.iota(3) * 2 % 3, 1),
        lambda x, y: ops.sum(ops.window(x, (1,), (2,), (1,), (1,)) @ ops.slice(ops.sum(y, 0), (1,), (2,)), 1),
        lambda x, y: x + y, lambda x, y: x * y, lambda x, y: ops.sum(x, 0), lambda x, y: ops.mean(x, 1),
        lambda x, y: ops.mean(x), lambda x, y: ops.broadcast(ops.sum(y), (2, 3)),
        lambda x, y: _choose(x, y), lambda x, y: ops.relu(x), lambda x, y: x / (ops.square(y) + 1),
        lambda x, y: ops.contract(x, ops.transpose(y), 1) @ x,
        lambda x, y: ops.transpose(ops.transpose(x) @ ops.contract(x, ops.transpose(y), 1)),
        lambda x, y: ops.select(ops.broadcast(ops.sum(x, 1) > 0, (2, 3), (1,)), x, 2 * y),
    ],
}  # fmt: skip


def float_terms(size: int = 6, sources: Sequence[NdArrayType] | None = None) -> st.SearchStrategy[Term]:
    """Draw a map between floating-point scalars, rows, columns and grids."""
    return random_terms(FLOAT_STEPS, sources, None, size)


def integer_terms(
    sources: Sequence[NdArrayType] | None = None, targets: Sequence[NdArrayType] | None = None, size: int = 6
) -> st.SearchStrategy[Term]:
    """Draw a polynomial map between integer arrays."""
    return random_terms(STEPS, sources, targets, size)


@st.composite
def sizes(draw) -> object:
    """Draw a polynomial in at most three symbols, or an integer."""
    total: object = draw(st.integers(-3, 3))
    for name in draw(st.lists(st.sampled_from("abc"), max_size=3)):
        total = total * Dim(name) + draw(st.integers(-3, 3))
    return total


N, M = Dim("n"), Dim("m")
ROWS, COLUMNS, TABLE, THREE = (NdArrayType(shape) for shape in ((N,), (M,), (N, M), (N, 3)))

# Arrays of symbolic sizes: normalised, multiplied, added up and copied along axes.
SYMBOLIC_STEPS = {
    ROWS: [
        lambda x, y: ops.broadcast(x, (N, M), (1,)), lambda x, y: ops.tanh(x) * y, lambda x, y: ops.cumsum(x),
        lambda x, y: ops.softmax(x, 0), lambda x, y: ops.broadcast(y, (N, 3), (1,)),
    ],
    COLUMNS: [
        lambda x, y: ops.broadcast(x, (N, M)), lambda x, y: ops.flip(x) - y, lambda x, y: ops.sort(x)[0],
        lambda x, y: x * ops.broadcast(ops.max(y, 0), (M,)),
    ],
    TABLE: [
        lambda x, y: ops.softmax(x), lambda x, y: ops.exp(ops.tanh(x)) * y, lambda x, y: ops.sum(x, 0),
        lambda x, y: ops.sum(y, 1), lambda x, y: x @ (ops.transpose(y) @ x), lambda x, y: ops.layer_norm(x),
        lambda x, y: ops.reshape(ops.flip(ops.reshape(ops.transpose(x), N * M)), N, M) + y,
    ],
    THREE: [
        lambda x, y: x @ (ops.transpose(y) @ x), lambda x, y: ops.sum(x * y, 1),
        lambda x, y: ops.softmax(x, 0),
        lambda x, y: ops.concat([ops.slice(x, (0, 1), (N, 2)), ops.slice(y, (0, 0), (N, 1))], 1),
    ],
}  # fmt: skip


def symbolic_terms(size: int = 8) -> st.SearchStrategy[Term]:
    """Draw a map between arrays of symbolic sizes n and m."""
    return random_terms(SYMBOLIC_STEPS, [TABLE, THREE], None, size)
