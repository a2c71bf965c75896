"""Scratch's passes preserve the meaning of random kernels."""

from __future__ import annotations

import numpy as np
from catgrad.backends.scratch.kernels.cost import of_items
from catgrad.backends.scratch.kernels.inductions import Inductions
from catgrad.backends.scratch.kernels.legalise import legalise
from catgrad.backends.scratch.kernels.schedule import SCHEDULES, Schedule
from catgrad.backends.scratch.kernels.texts import Change, Set
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.functors import Expand
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.index import Index, Quotient, Variable, index, modulo, quotient
from catgrad.loops.ir.nest import Kernel, MatMul, Sort, statements
from catgrad.loops.ir.steps import kernels
from catgrad.loops.passes.schedule.unroll_by_cost import Unrolling
from catgrad.loops.reference import run
from catgrad.programs.program import evaluate
from catgrad.programs.program import lower as straight
from catgrad.targets import get_backend
from catgrad.terms.block import Block
from catgrad.testing import draw_arrays, in_float64
from tests.kernels import SCALARS, prepared
from tests.laws.test_kernel_passes import moved, network
from tests.strategies import float_terms, integer_terms

EXPAND = Expand(get_backend("scratch").has)

costs = st.sampled_from([0, 100, 500, 2_000, 20_000])
schedules = st.sampled_from(list(SCHEDULES.values())) | st.builds(
    Schedule, st.builds(Unrolling, st.just(of_items), *[costs] * 5), costs, costs
)
"""Schedules: those of the option, and others."""


def assert_kept(f, change, seed=0):
    """Check that a pass preserves the kernels of f's reverse in float64, in place or not."""
    f = in_float64(Block(f)).term
    term, values, inputs = moved(f), len(f.target), len(f.source)
    function = prepared(straight(EXPAND(term)))
    arrays = draw_arrays(tuple(term.source.table), (-1.0, 1.0), seed)
    lowered = compile_kernels(function, SCALARS, {values + n: n for n in range(inputs)})
    changed = lowered.map_kernels(lambda kernel: change(kernel, SCALARS))
    parts = [s for kernel in kernels(changed.steps) for s in statements(kernel.body)]
    assert not any(isinstance(s, (MatMul, Sort)) for s in parts)
    for found, reference in zip(run(changed, *arrays), evaluate(straight(term), *arrays), strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-9, atol=1e-9)


@given(float_terms(size=10) | integer_terms(size=8), schedules, st.integers(0, 99))
@settings(max_examples=80)
def test_schedules_preserve_random_terms(term, schedule, seed):
    assert_kept(term, schedule.apply, seed)


@given(st.integers(1, 9), st.integers(1, 4) | st.integers(1, 70), st.integers(1, 12), schedules)
@settings(max_examples=15)
def test_schedules_preserve_networks_of_any_size(rows, inner, columns, schedule):
    """Sums are one expression, strips, or strips that share loads, depending on the size."""
    assert_kept(network(rows, inner, columns), schedule.apply)


@given(st.lists(st.floats(-1e10, 1e10) | st.floats(-4, 4), min_size=3, max_size=3))
def test_legalisation_preserves_error_functions_and_casts(numbers):
    """Casts to integers saturate; casts between floating dtypes do not round."""
    f64 = NdArrayType((3,), Dtype.float64)

    def f(x):
        whole = ops.cast(ops.cast(x, Dtype.int32) % 5, Dtype.float64)
        return ops.erf(x) * whole, ops.cast(ops.cast(x, Dtype.float32), Dtype.float64), ops.mean(x)

    term = build(f, [f64])
    lowered = compile_kernels(prepared(straight(EXPAND(term))), SCALARS)
    legal = lowered.map_kernels(lambda kernel: Kernel(legalise(kernel.body)))
    for found, wanted in zip(run(legal, np.array(numbers)), run(lowered, np.array(numbers)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


# Induction variables


class Texts(dict):
    """Macros that print names of functions of variables; this maps the names to the functions."""

    def macros(self) -> dict:
        return {
            "variable": lambda name: self.text(lambda held: held[name]),
            "running": lambda terms: "+".join(f"{c}{letter}" for letter, c in terms),
            "place": lambda terms, start: self.text(
                lambda held: start + sum(self[text](held) * c for text, c in terms)
            ),
            "quotient": lambda i, n: self.text(lambda held: self[i](held) // n),
            "modulo": lambda i, n: self.text(lambda held: self[i](held) % n),
        }

    def text(self, function) -> str:
        name = f"#{len(self)}"
        self[name] = function
        return name


def value(i: Index, turns) -> int:
    """Evaluate an index, given the numbers of iterations."""
    return i.constant + sum(c * atom_value(atom, turns) for atom, c in i.terms)


def atom_value(atom, turns) -> int:
    if isinstance(atom, Variable):
        return turns[atom]
    inside = value(atom.index, turns)
    return inside // atom.divisor if isinstance(atom, Quotient) else inside % atom.divisor


class Nest:
    """Draw a loop nest with indices, as printed lines and as expected values."""

    def __init__(self, draw, macros) -> None:
        self.draw, self.macros, self.asked = draw, macros, 0

    def block(self, inductions: Inductions, around: tuple[Variable, ...], kernel: bool) -> list:
        """Return lines: of inductions, loops as (variable, backwards, lines), indices as (text, index)."""
        lines = []
        for _ in range(self.draw(st.integers(1, 3))):
            kinds = ["place"] + ["loop"] * (len(around) < 4) + ["kernel"] * (not kernel)
            kind = self.draw(st.sampled_from(kinds))
            if kind == "loop":
                lines += self.loop(inductions, around, kernel)
            elif kind == "kernel":
                lines += self.block(Inductions(self.macros, inductions), around, True)
            elif around:
                lines.append(self.place(inductions, around))
        return lines

    def loop(self, inductions: Inductions, around: tuple[Variable, ...], kernel: bool) -> list:
        variable, backwards = Variable(self.draw(st.integers(2, 4))), not kernel and self.draw(st.booleans())
        inductions.open(variable, backwards)
        inside = self.block(inductions, (*around, variable), kernel)
        before, after = inductions.close()
        return [*before, (variable, backwards, [*inside, *after])]

    def place(self, inductions: Inductions, around: tuple[Variable, ...]):
        self.asked += 1
        coefficients = self.draw(st.lists(st.integers(-3, 20), min_size=len(around), max_size=len(around)))
        asked = sum((index(v) * c for v, c in zip(around, coefficients, strict=True)), Index((), 4))
        divisor = self.draw(st.sampled_from([0, 0, 2, 3]))
        if divisor:
            whole = sum((index(v) * abs(c) for v, c in zip(around, coefficients, strict=True)), Index())
            asked += quotient(whole, divisor) * 5 - modulo(whole, divisor)
        return inductions.at(asked), asked


def follow(texts, lines, held, turns) -> int:
    """Run lines as a virtual machine does; count the indices with the expected value."""
    seen = 0
    for line in lines:
        if isinstance(line, (Set, Change)):
            number = texts[line.value](held) if line.value in texts else int(line.value)
            held[line.name] = number + (held[line.name] if isinstance(line, Change) else 0)
        elif isinstance(line[0], str):
            text, asked = line
            assert texts[text](held) == value(asked, turns) + 1
            seen += 1
        else:
            variable, backwards, inside = line
            order = range(variable.extent)
            for turn in reversed(order) if backwards else order:
                seen += follow(texts, inside, held, {**turns, variable: turn})
    return seen


@given(data=st.data())
@settings(max_examples=100)
def test_induction_variables_equal_their_indices(data):
    texts = Texts()
    nest = Nest(data.draw, texts.macros())
    lines = nest.block(Inductions(nest.macros), (), False)
    assert follow(texts, lines, {}, {}) >= nest.asked
