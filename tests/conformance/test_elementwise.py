"""Booleans, bounds, integer division, array literals and axes of size 1, against PyTorch or NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.errors import DtypeError, OptionError, ShapeError
from catgrad.ops.literal import ArrayLiteral
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.structural import Constant
from catgrad.testing import run_on
from tests.conformance.pytorch import arrays_with_axis, assert_as_torch, awkward, torch
from tests.targets import drawn, need, on_targets, on_targets_with

F64, I32, I64 = Dtype.float64, Dtype.int32, Dtype.int64


@on_targets_with("nan")
@drawn(25, drawn=arrays_with_axis(elements=awkward))
def test_any_and_all_along_an_axis(target, drawn):
    x, axis = drawn
    for ours, theirs in ((ops.any, torch.any), (ops.all, torch.all)):
        assert_as_torch(target, lambda x, f=ours: f(x > 0, axis), lambda x, f=theirs: f(x > 0, axis), x)
        assert_as_torch(target, lambda x, f=ours: f(x != 1), lambda x, f=theirs: f(x != 1), x)


@on_targets_with("nan")
@drawn(25, drawn=arrays_with_axis(elements=awkward))
def test_connectives_and_tests_of_elements(target, drawn):
    x, _ = drawn
    same = lambda x: (x > 0) & ~(x == 1) | (x != x) & (x <= 0)
    assert_as_torch(target, same, same, x)
    assert_as_torch(target, ops.is_nan, torch.isnan, x)
    assert_as_torch(target, ops.is_finite, torch.isfinite, x)


@pytest.mark.covering
@on_targets_with("nan")
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, None), (None, 1), (1.0, 1.0)])
@drawn(25, drawn=arrays_with_axis(elements=awkward))
def test_clamp(target, low, high, drawn):
    """The cotangent passes at a bound, as in PyTorch, and NaN stays NaN."""
    x, _ = drawn
    x = np.where(np.isnan(x), 0.5, x)  # PyTorch gives a NaN the gradient 0
    assert_as_torch(target, lambda x: ops.clamp(x, low, high), lambda x: torch.clamp(x, low, high), x)
    [found] = run_on(
        get_backend(target),
        build(lambda x: ops.clamp(x, low, high), [NdArrayType((1,), F64)]),
        np.array([np.nan]),
    )
    assert np.isnan(found)


CHOICES = {
    "of a number": lambda x, y: ops.select(x > 0.3, 0 * x, y),
    "of a number and what is computed": lambda x, y: ops.select(x > 0.3, 0 * x, 3 * y + 1),
    "of two": lambda x, y: ops.select(x > y, y * y, x + 2),
    "by padding": lambda x, y: ops.pad(x * y, [(1, 1), (1, 1)]),
}


@pytest.mark.covering
@on_targets
@pytest.mark.parametrize("rows", [3, 9])
@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("name", CHOICES)
def test_choices_in_short_rows(target, name, width, rows):
    """Compilers vectorise such rows together, and some miscompile conditional loads."""
    arrays = [np.random.default_rng(k).normal(size=(rows, width)) for k in range(2)]
    term = build(CHOICES[name], [NdArrayType((rows, width), F64)] * 2)
    for a, b in zip(run_on(get_backend(target), term, *arrays), evaluate(term, *arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (np.nan, None), (-np.inf, 1), ()])
def test_invalid_bounds_are_refused(bounds):
    with pytest.raises(OptionError, match="one finite bound, or two with low ≤ high"):
        ops.clamp(None, *bounds)


@on_targets_with("powers")
def test_a_negative_base_of_a_power(target):
    """-2 ** x is -(2 ** x)."""
    for dtype in (Dtype.float32, F64):
        x = np.array([2, 3, 0], dtype.numpy)
        term = build(lambda x: (Constant(x.type, -2.0)() ** x, -(x**2.0)), [NdArrayType((3,), dtype)])
        found = run_on(get_backend(target), term, x)
        assert [a.tolist() for a in found] == [[4, -8, 1], [-4, -9, 0]]


@on_targets
@pytest.mark.parametrize("dtype", [I32, I64])
def test_integer_division_rounds_down_and_survives_0(target, dtype):
    if dtype is I64:
        need(target, "64 bits")
    ends = np.iinfo(dtype.numpy)
    some = [ends.min, ends.max, -7, -1, 0, 1, 2, 7]
    x, y = (a.ravel().astype(dtype.numpy) for a in np.meshgrid(some, some))
    term = build(lambda x, y: [x // y, x % y], [NdArrayType(x.shape, dtype)] * 2)
    with np.errstate(all="ignore"):
        wanted = [x // y, x % y]
    assert not any(w[y == 0].any() for w in wanted)
    for found in (run_on(get_backend(target), term, x, y), evaluate(term, x, y)):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == dtype.numpy


@on_targets
@pytest.mark.parametrize("divisor", [3, -3, 0])
def test_integer_division_by_a_number(target, divisor):
    x = np.array([[-7, 7], [6, -6]], np.int32)
    term = build(lambda x: [x // divisor, x % divisor, 7 // x], [NdArrayType(x.shape, I32)])
    with np.errstate(all="ignore"):
        wanted = [x // np.int32(divisor), x % np.int32(divisor), 7 // x]
    for a, b in zip(run_on(get_backend(target), term, x), wanted, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == np.int32


numbers = {
    Dtype.float32: st.floats(width=32),
    F64: st.floats(),
    Dtype.bool: st.booleans(),
    I32: st.integers(-(2**31), 2**31 - 1),
    I64: st.integers(-(2**63), 2**63 - 1),
}


@on_targets_with("nan", "64 bits")
@drawn(25, data=st.data())
def test_array_literals_round_trip(target, data):
    dtype = data.draw(st.sampled_from(list(numbers)))
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=3)))
    size = int(np.prod(shape))
    elements = data.draw(st.lists(numbers[dtype], min_size=size, max_size=size))
    wanted = np.array(elements, dtype.numpy).reshape(shape)
    [found] = run_on(get_backend(target), build(lambda: ops.array(wanted, dtype), []))
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype
    if dtype.is_floating:
        np.testing.assert_array_equal(
            np.signbit(found) & ~np.isnan(found), np.signbit(wanted) & ~np.isnan(wanted)
        )


def test_invalid_array_literals_are_refused():
    with pytest.raises(OptionError, match="make it a parameter or an input"):
        build(lambda: ops.array(range(1001)), [])
    with pytest.raises(OptionError, match="rows of an array must have one length"):
        build(lambda: ops.array([[1, 2], [3]]), [])
    with pytest.raises(DtypeError, match="must fit the dtype int32"):
        build(lambda: ops.array([1, 2.5], I32), [])
    with pytest.raises(ShapeError, match="as many elements"):
        ArrayLiteral(NdArrayType((3,)), (1, 2))


def test_array_literals_are_printed_row_by_row():
    rows = [[k, k / 2, -k, 1 / 3] for k in range(4)]
    text = emitted(lambda x: x * ops.array(rows), NdArrayType((4, 4)))
    assert (
        """= np.array([
        [0.0, 0.0, 0.0, 0.33333334],
        [1.0, 0.5, -1.0, 0.33333334],
        [2.0, 1.0, -2.0, 0.33333334],
        [3.0, 1.5, -3.0, 0.33333334],
    ], np.float32)  # f32[4,4]"""
        in text
    )
    short = emitted(lambda x: x * ops.array([[1, 2.5]]), NdArrayType((1, 2)))
    assert "np.array([[1.0, 2.5]], np.float32)" in short
    long = emitted(lambda x: x + ops.array(range(100), I64), NdArrayType((100,), I64))
    assert "np.array([\n        0, 1, 2," in long
    assert max(map(len, long.splitlines())) <= 120


def test_array_literals_in_a_loop_are_indented_with_it():
    def turn(c, _):
        return c + ops.array([range(k, k + 9) for k in range(9)]), ()

    text = emitted(lambda x: ops.scan(turn, x, length=3)[0], NdArrayType((9, 9)))
    assert "        array = np.array([\n            [0.0, 1.0," in text
    assert "],\n        ], np.float32)" in text


def emitted(function, *types):
    term = build(function, list(types))
    return get_backend("numpy").emit(Program("case", (lower(term, "f"),))).source


def test_array_literals_are_equal_by_their_digits():
    type = NdArrayType((2,))
    assert ArrayLiteral(type, (0.0, 1)) != ArrayLiteral(type, (-0.0, 1))
    one, other = ArrayLiteral(type, (float("nan"), 1)), ArrayLiteral(type, (-float("nan"), 1))
    assert one == other
    assert hash(one) == hash(other)


AXES = {
    "stack": (lambda x: ops.stack([x, 2 * x], 1), lambda x: torch.stack([x, 2 * x], 1)),
    "stack last": (lambda x: ops.stack([x, x * x], -1), lambda x: torch.stack([x, x * x], -1)),
    "squeeze": (ops.squeeze, torch.squeeze),
    "squeeze one": (lambda x: ops.squeeze(x, -1), lambda x: torch.squeeze(x, -1)),
    "expand_dims": (lambda x: ops.expand_dims(x, 0), lambda x: torch.unsqueeze(x, 0)),
    "expand_dims last": (lambda x: ops.expand_dims(x, -1), lambda x: torch.unsqueeze(x, -1)),
    "reciprocal": (lambda x: ops.reciprocal(x + 5), lambda x: torch.reciprocal(x + 5)),
}


@on_targets
@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("shape", [(2, 1, 3, 1), (0, 1)])
def test_axes_of_size_1(target, name, shape):
    assert_as_torch(target, *AXES[name], np.random.default_rng(0).normal(size=shape))


def test_an_axis_of_another_size_is_not_squeezed():
    with pytest.raises(ShapeError, match="must have size 1"):
        build(lambda x: ops.squeeze(x, 0), [NdArrayType((2, 1))])


def test_operands_must_be_bool_or_whole():
    with pytest.raises(DtypeError, match="must be integers.*to an integer dtype or bool"):
        build(lambda x: x & x, [NdArrayType((2,))])
    with pytest.raises(DtypeError, match=r"must be integers.*floor\(x / y\)"):
        build(lambda x: x // 2, [NdArrayType((2,))])
