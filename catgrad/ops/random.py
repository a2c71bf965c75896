"""Counter-based random numbers (Philox): functions of a key and a counter, equal on all targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import pi
from typing import Any
from zlib import crc32

import numpy as np

from catgrad.dims import numbers
from catgrad.errors import DtypeError, OptionError
from catgrad.initialisers import Drawn, Normal, Uniform
from catgrad.ops.arithmetic import floor
from catgrad.ops.cast import cast
from catgrad.ops.compare import select
from catgrad.ops.shape import Shape
from catgrad.ops.transcendental import cos, log1p, sqrt
from catgrad.terms.op import Examples, Op, Saves, Types, floating
from catgrad.terms.structural import Constant, Named, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["random_bits", "random_normal", "random_uniform"]

KEY, STREAM = NdArrayType((), Dtype.int64), NdArrayType((), Dtype.uint32)
LOW, WIDE = np.uint64(0xFFFFFFFF), np.uint64(32)
OPTIONAL = (7, (KEY, KEY, KEY)), (None, (KEY, KEY, STREAM)), (None, (KEY, KEY, KEY, STREAM))
"""Streams with operands, for examples: the index of the first element and the stream are optional."""


class Draw(Op, register=False):
    """(seed: i64[], counter: i64[], first: i64[], stream: u32[]) -> T[shape]. Streams are independent.

    The result is part of an endless sequence, from element `first` on, which is 0 if it is left out.
    The stream is the attribute, or the last operand if that is None.
    """

    shape: Shape
    stream: int | None
    dtype: Dtype = Dtype.uint32
    saves = Saves(inputs=(0, 1, 2, 3))
    result = "noise"
    costly = True

    def __post_init__(self) -> None:
        if self.stream is not None and not 0 <= self.stream < 2**32:
            raise OptionError("the number of a stream must have 32 bits", f"it is {self.stream}", "use crc32")

    def type(self, *keys: NdArrayType) -> Types:
        least = (KEY, KEY) if self.stream is not None else (KEY, KEY, STREAM)
        if keys not in (least, (KEY, *least)):
            raise DtypeError(
                "seed, counter and the index of the first element must be integer scalars, before the stream",
                f"the operands are {', '.join(map(str, keys))}",
                f"give {', '.join(map(str, least))}, or one more {KEY} for the index",
            )
        return NdArrayType(self.shape, self.dtype)

    def ends(self, *rest: Any) -> tuple[Any, Any]:
        """Return the index of the first element, or None, and the stream, given the last operands."""
        *first, stream = rest if self.stream is None else (*rest, self.stream)
        return (first[0] if first else None), stream

    def rev(self, *keys_and_dy: Var) -> tuple[Var, ...]:
        return tuple(map(zeros_like, keys_and_dy[:-1]))


class RandomBits(Draw):
    """32 random bits for each element, by Philox 4×32 in 10 rounds.

    Element 4b + w is word w of the block whose counter is (b, stream, counter mod 2³², ⌊counter / 2³²⌋)
    and whose key is (seed mod 2³², ⌊seed / 2³²⌋). The result begins with element `first`, or 0.

    Type:     (i64[], i64[]) -> u32[shape], or (i64[], i64[], i64[]) -> u32[shape] with `first`; with a last
              operand u32[] if the stream is no attribute
    Domain:   first ≥ 0
    Gradient: 0
    Source:   Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3, section 4.2
    """

    def ref(self, seed: Array, counter: Array, *rest: Array) -> Array:
        shape, (first, stream) = numbers(self.shape), self.ends(*rest)
        start, count = int(first or 0), int(np.prod(shape))
        block = np.arange(start // 4, -(-(start + count) // 4), dtype=np.uint64) & LOW
        step, key = (np.asarray(number).astype(np.uint64) for number in (counter, seed))
        words = philox((block, np.uint64(stream), step & LOW, step >> WIDE), (key & LOW, key >> WIDE))
        return words.reshape(-1)[start % 4 :][:count].reshape(shape).astype(np.uint32)

    @classmethod
    def examples(cls) -> Examples:
        plain = [(cls(shape, stream), (KEY, KEY)) for shape, stream in (((2, 3), 0), ((), 7), ((0,), 1))]
        return [*plain, *((cls((2, 3), stream), keys) for stream, keys in OPTIONAL)]


class RandomUniform(Draw):
    """Uniform random numbers: y = ⌊bits · 2^(p - 32)⌋ / 2^p, with as many digits p as the dtype holds.

    Type:     as RandomBits, for floating T instead of u32; 0 ≤ y < 1
    Gradient: 0
    Source:   RandomBits
    """

    dtype: Dtype = Dtype.float32

    def ref(self, *keys: Array) -> Any:
        bits = RandomBits(self.shape, self.stream).ref(*keys).astype(np.float64)
        digits = self._digits()
        return (np.floor(bits * 2.0 ** (digits - 32)) * 2.0**-digits).astype(self.dtype.numpy)

    def body(self, *keys: Var) -> Var:
        bits = cast(RandomBits(self.shape, self.stream)(*keys), Dtype.float64)
        digits = self._digits()
        return cast(floor(bits * 2.0 ** (digits - 32)) * 2.0**-digits, self.dtype)

    def type(self, *keys: NdArrayType) -> Types:
        return floating(super().type(*keys))  # type: ignore[arg-type]

    def _digits(self) -> int:
        return min(int(self.dtype.limits.nmant) + 1, 32)

    @classmethod
    def examples(cls) -> Examples:
        draws = (cls((2, 3), 5), (KEY, KEY)), (cls((3,), 5, Dtype.float64), (KEY, KEY))
        return [*draws, *((cls((2, 3), stream), keys) for stream, keys in OPTIONAL)]


class RandomNormal(Draw):
    """Normal random numbers: y = √(-2 ln(1 - u)) cos(2π v), for uniform u and v of two streams.

    Type:     as RandomUniform; of mean 0 and variance 1
    Gradient: 0
    Source:   Box and Muller 1958, equation 1
    """

    dtype: Dtype = Dtype.float32

    def ref(self, *keys: Array) -> Any:
        u, v = (source.ref(*given) for source, given in self._sources(keys))
        return np.sqrt(-2 * np.log1p(-u)) * np.cos(self.dtype.wide.numpy.type(2 * pi) * v)

    def body(self, *keys: Var) -> Var:
        u, v = (source(*given) for source, given in self._sources(keys))
        return cast(sqrt(-2 * log1p(-u)) * cos(2 * pi * v), self.dtype)

    def type(self, *keys: NdArrayType) -> Types:
        return floating(super().type(*keys))  # type: ignore[arg-type]

    def _sources(self, keys: Sequence[Any]) -> Iterator[tuple[RandomUniform, Sequence[Any]]]:
        """Yield the draws of u and v with their operands; their streams differ in the last bit."""
        uniform = RandomUniform(self.shape, self.stream, self.dtype.wide)
        yield uniform, keys
        if self.stream is None:
            yield uniform, (*keys[:-1], keys[-1] ^ 1)
        else:
            yield replace(uniform, stream=self.stream ^ 1), keys

    @classmethod
    def examples(cls) -> Examples:
        return [(cls((2, 3), stream), keys) for stream, keys in ((5, (KEY, KEY)), *OPTIONAL)]


class Dropout(Named):
    """Dropout: y = x / (1 - rate) where a uniform random number is at least `rate`, else 0.

    The stream is that of its name, so that layers differ, or the last operand if that is None. The residual
    is the seed and the counter, from which the reverse computes the same mask.

    Type:     (T, i64[], i64[]) -> T for floating T, or with more operands as RandomBits
    Raises:   OptionError unless 0 ≤ rate < 1
    Gradient: dx = dy / (1 - rate) where x was kept, else 0
    Source:   Srivastava et al. 2014, Dropout, section 4
    """

    name: str | None  # type: ignore[assignment]  # None if the stream is an operand
    rate: float = 0.5
    saves = Saves(inputs=(1, 2, 3, 4))

    def __post_init__(self) -> None:
        if self.name is not None:
            super().__post_init__()
        if not 0 <= self.rate < 1:
            raise OptionError("a dropout rate must lie in [0, 1)", f"it is {self.rate}", "try 0.1")

    def type(self, x: NdArrayType, *keys: NdArrayType) -> Types:
        self._noise(x).type(*keys)
        return x

    def ref(self, x: Array, *keys: Array) -> Array:
        noise = self._noise(NdArrayType(x.shape, Dtype[x.dtype.name])).ref(*keys)
        return np.where(noise >= self.rate, x * x.dtype.type(1 / (1 - self.rate)), 0)

    def body(self, x: Var, *keys: Var) -> Var:
        kept = self._noise(x.type)(*keys) >= self.rate
        return select(kept, x * (1 / (1 - self.rate)), zeros_like(x))

    def rev(self, *keys_and_dy: Var) -> tuple[Var, ...]:
        *keys, dy = keys_and_dy
        return self(dy, *keys), *map(zeros_like, keys)

    def evaluated(self, x: Var, *keys: Var) -> Var:
        return x

    def _noise(self, x: NdArrayType) -> RandomUniform:
        return RandomUniform(x.shape, None if self.name is None else stream_of(self.name), x.dtype)

    @classmethod
    def examples(cls) -> Examples:
        x = NdArrayType((4, 5))
        plain = [(cls("dropout", rate), (x, KEY, KEY)) for rate in (0.5, 0.0)]
        return [*plain, *((cls("dropout" if stream else None), (x, *keys)) for stream, keys in OPTIONAL)]


def with_stream(op: Op) -> tuple[Op, int | None]:
    """Return the operation with its stream as the last operand, and that stream, if it is an attribute."""
    if isinstance(op, Draw) and op.stream is not None:
        return replace(op, stream=None), op.stream
    if isinstance(op, Dropout) and op.name is not None:
        return replace(op, name=None), stream_of(op.name)
    return op, None


def philox(counter: tuple[Any, ...], key: tuple[Any, Any]) -> Array:
    """Philox 4×32 in 10 rounds: four words for four words of a counter, under a key of two words.

    Words are uint64 arrays below 2³²; those of the result go along the last axis.
    """
    a, b, c, d = np.broadcast_arrays(*counter)
    k, m = key
    for _ in range(10):
        x, y = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (y >> WIDE) ^ b ^ k, y & LOW, (x >> WIDE) ^ d ^ m, x & LOW
        k, m = (k + np.uint64(0x9E3779B9)) & LOW, (m + np.uint64(0xBB67AE85)) & LOW
    return np.stack([a, b, c, d], axis=-1)


def random_bits(shape: Shape, stream: int, seed: Var, counter: Var) -> Var:
    """32 random bits for each element, as uint32."""
    return RandomBits(shape, stream)(seed, counter)


def random_uniform(shape: Shape, stream: int, seed: Var, counter: Var, dtype: Dtype = Dtype.float32) -> Var:
    """Uniform random numbers in [0, 1)."""
    return RandomUniform(shape, stream, dtype)(seed, counter)


def random_normal(shape: Shape, stream: int, seed: Var, counter: Var, dtype: Dtype = Dtype.float32) -> Var:
    """Normal random numbers of mean 0 and variance 1."""
    return RandomNormal(shape, stream, dtype)(seed, counter)


def stream_of(name: str) -> int:
    """Return the number of the stream that belongs to a dotted name."""
    return crc32(name.encode())


def initial_value(name: str, type: NdArrayType, initial: Drawn, seed: Var) -> Var:
    """Draw the initial value of an array, from the stream of its name at counter 0."""
    if not isinstance(initial, (Uniform, Normal)):
        return Constant(type, initial.value)()
    start, stream = Constant(KEY, 0)(), stream_of(name)
    if isinstance(initial, Uniform):
        width = initial.high - initial.low
        return initial.low + width * RandomUniform(type.shape, stream, type.dtype)(seed, start)
    return initial.mean + initial.deviation * RandomNormal(type.shape, stream, type.dtype)(seed, start)
