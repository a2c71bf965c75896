"""Symbolic dimensions are exact polynomials."""

from __future__ import annotations

import contextlib
import operator
import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import NdArrayType
from catgrad.dims import Dim, exact_quotient
from catgrad.errors import OptionError, ShapeError
from tests.strategies import sizes

N, T = Dim("n"), Dim("t")
values = st.fixed_dictionaries({name: st.integers(0, 5) for name in "abc"})


def at(size, numbers):
    return size.substitute(numbers) if isinstance(size, Dim) else size


@given(sizes(), sizes(), values)
def test_arithmetic_is_that_of_the_values(p, q, numbers):
    assert at(p + q, numbers) == at(p, numbers) + at(q, numbers)
    assert at(p * q, numbers) == at(p, numbers) * at(q, numbers)
    assert at(p - q, numbers) == at(p, numbers) - at(q, numbers)


@given(sizes(), sizes(), sizes())
def test_polynomials_form_a_commutative_ring(p, q, r):
    assert p + q == q + p
    assert p * q == q * p
    assert (p + q) * r == p * r + q * r
    assert p - p == 0
    assert hash(p * q) == hash(q * p)


@given(sizes(), sizes().filter(lambda q: q != 0))
def test_division_undoes_multiplication(p, q):
    assert exact_quotient(p * q, q) == p


@pytest.mark.parametrize(("p", "q"), [(N, 2), (N * 3 + 1, 3), (N, T), (N * N + 1, N + 1), (7, N), (5, 2)])
def test_inexact_division_is_refused(p, q):
    with pytest.raises(ShapeError, match="is not a multiple of"):
        exact_quotient(p, q)


def test_division_by_zero_is_refused():
    for dividend in (N, 5, 0):
        with pytest.raises(ShapeError, match="must not be divided by 0"):
            exact_quotient(dividend, 0)


def test_only_integers_are_sizes():
    for half in (lambda: N * 0.5, lambda: N + 0.5, lambda: 0.5 - N):
        with pytest.raises(TypeError):
            half()


@given(sizes(), sizes(), values)
def test_comparisons_hold_for_all_values_or_are_refused(p, q, numbers):
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        with contextlib.suppress(ShapeError):
            assert compare(p, q) == compare(at(p, numbers), at(q, numbers))


def test_comparisons_that_no_value_changes():
    assert N >= 0 and N + 1 > 0 and 2 * N >= N and not N < 0


DEPENDENT = [
    lambda: N > 0, lambda: max(N, 2), lambda: N < T, lambda: N < 0.5, lambda: N / 2, lambda: 2 / N,
    lambda: N % 2, lambda: N**2, lambda: float(N), lambda: range(N), lambda: [0] * N,
]  # fmt: skip


@pytest.mark.parametrize("function", DEPENDENT)
def test_numbers_that_depend_on_symbols_are_refused(function):
    with pytest.raises(ShapeError, match="a size must be known"):
        function()


def test_pickles_of_another_process_are_equal():
    """The hash of a string differs between processes, so it must not be pickled."""
    program = "import pickle, sys; from catgrad import Dim, NdArrayType; "
    program += "sys.stdout.buffer.write(pickle.dumps(NdArrayType((Dim('n') * 2, 3))))"
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        out = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, check=True
        )
        assert pickle.loads(out.stdout) is NdArrayType((2 * N, 3))


def test_different_sizes_are_unequal():
    assert N * 28 * 28 != N * 783
    assert N * 2 != N
    assert N + N == 2 * N
    assert N != T


def test_polynomials_without_symbols_are_integers():
    assert type(N - N + 3) is int
    assert (2 - N).substitute({"n": 2}) == 0


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (2 * N * N * T - N + 3, "2*n^2*t - n + 3"),
        (-N, "-n"),
        (N - 1, "n - 1"),
        (N * T, "n*t"),
        (1 - N * N, "-n^2 + 1"),
    ],
)
def test_text(size, text):
    assert str(size) == text


@pytest.mark.parametrize("name", ["", "2n", "a b", "n-1", "x;y", "größe"])
def test_a_symbol_must_be_an_identifier(name):
    with pytest.raises(OptionError, match="must be an identifier"):
        Dim(name)


def test_a_symbolic_size_does_not_convert_to_int():
    assert int(N + 3 - N) == 3
    with pytest.raises(ShapeError, match=r"2\*n is symbolic"):
        int(2 * N)
