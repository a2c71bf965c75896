"""Random programs over all operations, and inputs of every kind.

A program is drawn step by step: each applies an operation to existing values, which casts, reshapes and
copies convert. Every registered operation occurs by its examples, elementwise ones also on any shape;
operations with attributes have a rule in `steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import tests.steps  # noqa: F401  # declares the rules
from catgrad.dims import Dim
from catgrad.functors import reverse
from catgrad.programs.program import Function, lower, straighten
from catgrad.terms.block import blocks
from catgrad.terms.build import build
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType, symbols
from tests.maker import DTYPES, Maker

SYMBOLS = (Dim("n"), Dim("m"))


@dataclass(frozen=True)
class Program:
    """A term, and arrays for its inputs."""

    term: Term
    inputs: tuple[Array, ...]

    def __repr__(self) -> str:
        given = "\n".join(f"  x{k} = {array!r}" for k, array in enumerate(self.inputs))
        return f"\n{listing(lower(self.term))}\n{given}"


def listing(function: Function, indent: str = "  ") -> str:
    """List a function as text, one operation a line, with the blocks of loops and branches below."""

    def text(values: Sequence[int]) -> str:
        return ", ".join(f"v{value}: {function.types[value]}" for value in values) or "()"

    lines = [f"{indent}{text(function.arguments)} -> {text(function.results)}"]
    for op, inputs, outputs in function.body:
        lines.append(f"{indent}{text(outputs)} = {op!r}({', '.join(f'v{v}' for v in inputs)})")
        lines += [listing(straighten(block.term), f"{indent}    ") for block in blocks(op).values()]
    return "\n".join(lines)


@st.composite
def programs(
    draw: DrawFn, steps: int = 8, symbolic: bool = True, dtypes: Sequence[Dtype] = DTYPES
) -> Program:
    """Draw a program, or the reverse derivative of one, with its inputs."""
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


def _array(draw: DrawFn, type: NdArrayType) -> Array:
    """Draw an array of small numbers, with a few extreme ones."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if type.dtype is Dtype.bool:
        return rng.integers(0, 2, type.shape).astype(bool)
    if not type.dtype.is_floating:
        limits = np.iinfo(type.dtype.numpy)
        low = max(limits.min, -4)
        array = np.asarray(rng.integers(low, 5, type.shape)).astype(type.dtype.numpy)
        return _planted(draw, rng, array, (limits.max, limits.min, limits.max - 1))
    kind = draw(st.sampled_from(("whole", "real")))
    drawn = rng.integers(-3, 4, type.shape) if kind == "whole" else rng.normal(size=type.shape)
    array = np.asarray(drawn).astype(type.dtype.numpy)
    with np.errstate(all="ignore"):
        return _planted(draw, rng, array, (np.nan, np.inf, -np.inf, 1e30, -1e30, -0.0, 88.0, 1e-30))


def _planted(draw: DrawFn, rng: np.random.Generator, array: Array, extremes: Sequence[float]) -> Array:
    for extreme in draw(st.lists(st.sampled_from(extremes), max_size=2)):
        if array.size:
            array.reshape(-1)[rng.integers(array.size)] = np.asarray(extreme).astype(array.dtype)
    return array
