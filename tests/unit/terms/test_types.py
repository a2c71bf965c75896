"""Array types, and type rules at symbolic sizes."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.errors import DtypeError, OptionError, ShapeError, ToolError, TypeMismatch
from catgrad.functors import substitute
from catgrad.programs.program import bind_symbols, evaluate, symbol_sources

N = Dim("n")


def test_equal_types_are_interned():
    assert NdArrayType((N, 3)) is NdArrayType((Dim("n"), np.int64(3)))
    assert NdArrayType((3,)) is not NdArrayType((3,), Dtype.float64)
    assert pickle.loads(pickle.dumps(NdArrayType((N, 3)))) is NdArrayType((N, 3))
    assert copy.deepcopy(NdArrayType((2,))) is NdArrayType((2,))


def test_sum_of_types_joins_axes():
    assert NdArrayType((N,)) + NdArrayType((3, 4)) is NdArrayType((N, 3, 4))
    with pytest.raises(DtypeError, match="must have one dtype"):
        NdArrayType((2,)) + NdArrayType((2,), Dtype.int32)


@pytest.mark.parametrize("shape", [(-1,), (2.0,), ("n",), (True,), (None,)])
def test_a_dimension_must_be_a_size(shape):
    with pytest.raises(OptionError, match="integer of at least 0 or a Dim"):
        NdArrayType(shape)


@pytest.mark.parametrize(
    ("function", "types"),
    [
        (lambda x, y: x + y, [(N, 28, 28), (N, 783)]),
        (lambda x, y: x + y, [(2 * N,), (N,)]),
        (lambda x: ops.reshape(x, N, 783), [(N, 28, 28)]),
        (lambda x: ops.reshape(x, N), [(2 * N,)]),
        (lambda x: ops.reshape(x, 3, -1), [(N, 2)]),
        (lambda x, y: x @ y, [(2, 3), (4, 5)]),
        (lambda x, y: x @ y, [(2, N), (2 * N, 5)]),
        (lambda x: ops.broadcast(x, (4, 5)), [(3,)]),
    ],
)
def test_mismatched_shapes_are_refused(function, types):
    with pytest.raises(ShapeError):
        build(function, [NdArrayType(shape) for shape in types])


def test_shapes_that_fit_as_polynomials_are_accepted():
    term = build(lambda x: ops.reshape(x, -1, 28), [NdArrayType((N, 28, 28))])
    assert term.target.table[0] is NdArrayType((28 * N, 28))


@given(st.integers(0, 4), st.integers(1, 4))
def test_inference_commutes_with_substitution(n, t):
    """Substituting sizes into a term equals building the term at those sizes."""

    def function(x, y):
        flat = ops.reshape(ops.transpose(x @ y), -1)
        return ops.mean(ops.broadcast(flat, (2, *flat.shape))), ops.sum(x, 0)

    def types(n, t):
        return [NdArrayType((n, t)), NdArrayType((t, 3))]

    symbolic, numeric = build(function, types(N, Dim("t"))), build(function, types(n, t))
    specialised = substitute(symbolic, {"n": n, "t": t})
    assert list(specialised.target.table) == list(numeric.target.table)
    arrays = [np.ones(type.shape, np.float32) for type in numeric.source.table]
    for a, b, c in zip(*(evaluate(f, *arrays) for f in (symbolic, specialised, numeric)), strict=True):
        assert np.array_equal(a, b, equal_nan=True)
        assert np.array_equal(b, c, equal_nan=True)


def test_mismatched_dtypes_are_refused():
    with pytest.raises(DtypeError, match="operands must have one type"):
        build(lambda x, y: x + y, [NdArrayType((2,)), NdArrayType((2,), Dtype.int32)])
    with pytest.raises(DtypeError, match="must be floating-point"):
        build(ops.exp, [NdArrayType((2,), Dtype.int32)])
    with pytest.raises(DtypeError, match="a number must fit the dtype int32, but it is 0.5"):
        build(lambda x: x * 0.5, [NdArrayType((2,), Dtype.int32)])
    with pytest.raises(DtypeError, match="the condition must be bool"):
        build(lambda x: ops.select(x, x, x), [NdArrayType((2,))])


def test_bfloat16_needs_ml_dtypes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ToolError, match="the package ml_dtypes must be installed"):
        Dtype.numpy.func(Dtype.bfloat16)  # past the cache, which may hold it already


def test_the_number_of_arguments_is_checked():
    with pytest.raises(TypeMismatch, match="Exp: there must be 1 arguments, but there are 2"):
        build(lambda x: ops.exp(x, x), [NdArrayType((2,))])


@pytest.mark.parametrize("axes", [(0, 0), (2,), (-3,)])
def test_axes_are_checked(axes):
    with pytest.raises(OptionError):
        ops.reduce.Sum((2, 3), axes).outputs(NdArrayType((2, 3)))


def test_symbols_are_read_from_shapes():
    types = [NdArrayType((2 * N,)), NdArrayType((N, 3))]
    assert symbol_sources(types) == {"n": (1, 0)}
    assert bind_symbols(types, [(8,), (4, 3)]) == {"n": 4}
    with pytest.raises(ShapeError, match=r"must have the shape of f32\[2\*n\], but it is \[9\]"):
        bind_symbols(types, [(9,), (4, 3)])
    with pytest.raises(ShapeError, match="must be the whole size of some axis"):
        symbol_sources(types[:1])
