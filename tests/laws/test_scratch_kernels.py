"""Scratch's passes preserve the meaning of random kernels."""

from __future__ import annotations

import numpy as np
from catgrad.backends.scratch.kernels.factors import ordered
from catgrad.backends.scratch.kernels.places import Places
from catgrad.backends.scratch.kernels.sorts import without_sorts
from catgrad.backends.scratch.kernels.sums import gathered
from catgrad.backends.scratch.kernels.texts import Change, Set
from catgrad.backends.scratch.kernels.turns import UNROLL, Unrolling
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.backend import get_backend
from catgrad.functors import Expand, reverse
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.index import Index, Quotient, Variable, index, modulo, quotient
from catgrad.loops.ir.nest import MatMul, Sort, statements
from catgrad.loops.ir.steps import kernels
from catgrad.loops.reference import run
from catgrad.programs.program import interpret
from catgrad.programs.program import lower as straight
from catgrad.terms.block import Block
from catgrad.testing import draw_arrays, in_float64
from tests.kernels import SCALARS, prepared
from tests.strategies import float_terms, integer_terms

EXPAND = Expand(get_backend("scratch").has)

prices = st.sampled_from([0, 100, 500, 2_000, 20_000])
unrollings = st.sampled_from(list(UNROLL.values())) | st.builds(
    Unrolling, prices, prices, prices, prices, prices.map(lambda price: max(price, 1)), prices
)
"""Limits of unrolling: those of the option, and others."""

alone = st.sampled_from([["turns"], ["sums"], ["factors"], ["turns", "sums", "factors"]])
"""Each pass by itself, and all as scripts have them."""


def moved(f):
    """Return the results of f, and its arguments after a step of gradient descent."""
    optic, values, inputs = reverse(f), len(f.target), len(f.source)

    def step(*arguments):
        results = optic.apply(*arguments)
        new = [x - 2 * dx for x, dx in zip(arguments[:inputs], results[values:], strict=True)]
        return [*results[:values], *new]

    return build(step, list(optic.source.table))


def assert_kept(f, unrolling, names, seed=0):
    """The kernels of f's reverse in float64 mean the same after these passes, moved in place or not."""
    f = in_float64(Block(f)).term
    term, values, inputs = moved(f), len(f.target), len(f.source)
    function = prepared(straight(EXPAND(term)))
    arrays = draw_arrays(tuple(term.source.table), (-1.0, 1.0), seed)
    passes = {"turns": unrolling.written_out, "sums": gathered, "factors": ordered}
    lowered = compile_kernels(function, SCALARS, {values + n: n for n in range(inputs)})
    lowered = lowered.map_kernels(SCALARS.finish)
    for kernel in kernels(lowered.steps):
        kernel.body = without_sorts(kernel.body)
        for name in names:
            kernel.body = passes[name](kernel.body)
        assert not any(isinstance(s, (MatMul, Sort)) for s in statements(kernel.body))
    for found, reference in zip(run(lowered, *arrays), interpret(straight(term), *arrays), strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-9, atol=1e-9)


@given(
    term=float_terms(size=10) | integer_terms(size=8),
    unrolling=unrollings,
    names=alone,
    seed=st.integers(0, 99),
)
@settings(max_examples=100)
def test_random_terms(term, unrolling, names, seed):
    assert_kept(term, unrolling, names, seed)


@given(
    rows=st.integers(1, 9),
    inner=st.integers(1, 4) | st.integers(1, 70),
    columns=st.integers(1, 12),
    unrolling=unrollings,
    names=alone,
)
@settings(max_examples=20)
def test_networks_of_any_size(rows, inner, columns, unrolling, names):
    """Sums that are one expression, that have parts, and parts that share what they read."""

    def net(x, w, b):
        h = ops.tanh(x @ w + ops.broadcast(b, (rows, columns)))
        return ops.mean(ops.square(ops.softmax(h))), ops.cumsum(ops.max(h, 0)), ops.sort(h, 0)[0]

    types = [NdArrayType(s, Dtype.float64) for s in ((rows, inner), (inner, columns), (columns,))]
    assert_kept(build(net, types), unrolling, names)


# Places


def texts():
    """Macros that make of places functions of the variables there are."""

    def place(terms, constant):
        return lambda held: constant + sum(value(held) * c for value, c in terms)

    return {
        "variable": lambda name: lambda held: held[name],
        "running": lambda terms: "+".join(f"{c}{letter}" for letter, c in terms),
        "place": place,
        "quotient": lambda i, n: lambda held: i(held) // n,
        "modulo": lambda i, n: lambda held: i(held) % n,
    }


def value(i: Index, turns) -> int:
    """An index, by the numbers of turns."""
    return i.constant + sum(c * atom_value(atom, turns) for atom, c in i.terms)


def atom_value(atom, turns) -> int:
    if isinstance(atom, Variable):
        return turns[atom]
    inside = value(atom.index, turns)
    return inside // atom.divisor if isinstance(atom, Quotient) else inside % atom.divisor


class Nest:
    """A random nest of loops, in which places are asked for, as lines and as what they should say."""

    def __init__(self, draw) -> None:
        self.draw, self.asked = draw, 0

    def block(self, places: Places, around: tuple[Variable, ...], kernel: bool) -> list:
        """Lines: those of `Places`, loops as (variable, backwards, lines), and questions as (text, index)."""
        lines = []
        for _ in range(self.draw(st.integers(1, 3))):
            kinds = ["place"] + ["loop"] * (len(around) < 4) + ["kernel"] * (not kernel)
            kind = self.draw(st.sampled_from(kinds))
            if kind == "loop":
                lines += self.loop(places, around, kernel)
            elif kind == "kernel":
                lines += self.block(Places(texts(), places), around, True)
            elif around:
                lines.append(self.place(places, around))
        return lines

    def loop(self, places: Places, around: tuple[Variable, ...], kernel: bool) -> list:
        variable, backwards = Variable(self.draw(st.integers(2, 4))), not kernel and self.draw(st.booleans())
        places.open(variable, backwards)
        inside = self.block(places, (*around, variable), kernel)
        before, after = places.close()
        return [*before, (variable, backwards, [*inside, *after])]

    def place(self, places: Places, around: tuple[Variable, ...]):
        self.asked += 1
        coefficients = self.draw(st.lists(st.integers(-3, 20), min_size=len(around), max_size=len(around)))
        asked = sum((index(v) * c for v, c in zip(around, coefficients, strict=True)), Index((), 4))
        divisor = self.draw(st.sampled_from([0, 0, 2, 3]))
        if divisor:
            whole = sum((index(v) * abs(c) for v, c in zip(around, coefficients, strict=True)), Index())
            asked += quotient(whole, divisor) * 5 - modulo(whole, divisor)
        return places.at(asked), asked


def follow(lines, held, turns) -> int:
    """Run lines as a machine would; how many places were as they should be."""
    seen = 0
    for line in lines:
        if isinstance(line, (Set, Change)):
            number = line.value(held) if callable(line.value) else int(line.value)
            held[line.name] = number + (held[line.name] if isinstance(line, Change) else 0)
        elif callable(line[0]):
            text, asked = line
            assert text(held) == value(asked, turns) + 1
            seen += 1
        else:
            variable, backwards, inside = line
            order = range(variable.extent)
            for turn in reversed(order) if backwards else order:
                seen += follow(inside, held, {**turns, variable: turn})
    return seen


@given(data=st.data())
@settings(max_examples=400)
def test_variables_run_along_with_the_places_they_stand_for(data):
    nest = Nest(data.draw)
    lines = nest.block(Places(texts()), (), False)
    assert follow(lines, {}, {}) >= nest.asked
