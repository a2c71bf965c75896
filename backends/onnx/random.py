"""Random bits by counting: Philox 4×32, in int64."""

from __future__ import annotations

from catgrad.dims import product
from catgrad.ops.random import RandomBits
from catgrad.types import Dtype

from .elementwise import moved
from .graph import Graph, Value
from .rules import emits

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
INCREMENTS = (0x9E3779B9, 0xBB67AE85)
LOW = 2**32 - 1
ROUNDS = 10


def _low(g: Graph, x: str) -> str:
    return g.add("BitwiseAnd", x, g.constant(LOW))


def _high(g: Graph, x: str) -> str:
    return moved(g, x, g.constant(32), Dtype.int64, "RIGHT")


@emits("RandomBits")
def random_bits(g: Graph, op: RandomBits, seed: Value, counter: Value, *rest: Value) -> str:
    """Words of the blocks of a counter under a key. Source: `catgrad.ops.random.philox`"""
    first, stream = op.ends(*rest)
    count = g.size(product(op.shape))
    blocks = g.add("Div", g.add("Add", count, g.constant([6 if first else 3])), g.constant([4]))
    numbers = g.add("Range", g.constant(0), g.add("Squeeze", blocks, g.constant([0])), g.constant(1))
    start, end = g.constant([0]), count
    if first:
        numbers = g.add("Add", numbers, g.add("Div", first, g.constant(4)))
        start = g.add("Reshape", g.add("Mod", first, g.constant(4)), g.constant([1]))
        end = g.add("Add", start, count)
    a, b = _low(g, numbers), g.constant(stream) if op.stream is not None else stream
    c, d, k, m = _low(g, counter), _high(g, counter), _low(g, seed), _high(g, seed)
    for _ in range(ROUNDS):
        x, y = (g.add("Mul", each, g.constant(n)) for each, n in zip((a, c), MULTIPLIERS, strict=True))
        a, b, c, d = _mixed(g, _high(g, y), b, k), _low(g, y), _mixed(g, _high(g, x), d, m), _low(g, x)
        k, m = (
            _low(g, g.add("Add", each, g.constant(n))) for each, n in zip((k, m), INCREMENTS, strict=True)
        )

    words = [g.add("Unsqueeze", g.add("Expand", each, blocks), g.constant([1])) for each in (a, b, c, d)]
    flat = g.add("Reshape", g.add("Concat", *words, axis=1), g.constant([-1]))
    return g.add("Reshape", g.add("Slice", flat, start, end), g.shape(op.shape), allowzero=1)


def _mixed(g: Graph, x: str, y: str, z: str) -> str:
    return g.add("BitwiseXor", g.add("BitwiseXor", x, y), z)
