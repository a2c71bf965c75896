"""Special values in Scratch: infinities, integers that wrap, casts that saturate."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.functors import Expand
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.op import OPS
from catgrad.terms.structural import zeros_like
from catgrad.testing import run_on
from tests.scratch.machines import on_machines

F64, I32, I64, U32 = Dtype.float64, Dtype.int32, Dtype.int64, Dtype.uint32
AWKWARD = [0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, np.inf, -np.inf, 1e300, -1e300, 1e-300, -1e-300]


def backend(vm):
    scratch = get_backend("scratch")
    return replace(scratch, options=replace(scratch.options, vm=vm))


def typed(*given):
    return [NdArrayType(array.shape, Dtype[array.dtype.name]) for array in given]


def compiled(vm, term):
    """Return the function of a term in a sprite."""
    scratch = backend(vm)
    function = lower(Expand(scratch.has)(term), "f", doc="The term under test.")
    return scratch.emit(Program("case", (function,))).load()().f


def elementwise(count):
    """List the elementwise operations without attributes of this arity on floats."""
    wanted = (Dtype.float32,) * count
    for op in OPS.values():
        kinds = [tuple(type.dtype for type in types) for each, types in op.examples() if not fields(each)]
        if op.elementwise and not op.structural and wanted in kinds:
            yield op()


@on_machines
@pytest.mark.filterwarnings("ignore:case has .* blocks")  # no person opens a sprite of all operations
@pytest.mark.parametrize("count", [1, 2])
def test_operations_on_special_values(vm, count):
    """Only results that are not NaN are compared: the next block of Scratch reads NaN as 0."""
    given, every = (
        [np.array(x) for x in zip(*product(AWKWARD, repeat=count), strict=True)],
        [*elementwise(count)],
    )
    term = build(lambda *x: [op(*x) for op in every], typed(*given))
    with np.errstate(all="ignore"):
        results = zip(every, run_on(backend(vm), term, *given), evaluate(term, *given), strict=True)
    for op, found, wanted in results:
        numbers = ~np.isnan(wanted.astype(float))
        np.testing.assert_allclose(found[numbers], wanted[numbers], 1e-9, 1e-9, err_msg=str(op))


@on_machines
def test_unselected_infinities_do_not_propagate(vm):
    x = np.array(AWKWARD)

    def choices(x):
        chosen, none = x > 0.7, zeros_like(x)
        padded = ops.slice(ops.pad(x, [(3, 2)]), (1,), (len(AWKWARD) + 3,))
        return ops.select(chosen, x, none), ops.select(chosen, none, x), ops.relu(x) > ops.relu(-x), padded

    term = build(choices, typed(x))
    for found, wanted in zip(run_on(backend(vm), term, x), evaluate(term, x), strict=True):
        np.testing.assert_array_equal(found, wanted)


def polynomials(x, y):
    return [
        x + y, x - y, x * y, -x, x // y, x % y, ops.absolute(x), x * x * x * x * x, ops.sum(x * y, 1),
        ops.cumsum(x, 0), x @ ops.transpose(y), ops.repeat(lambda c: c * c + y, 3, x),
        *(ops.cast(x, dtype) for dtype in (I32, U32, I64)), x & y, x | y, x ^ y, ~x, ops.maximum(x, y),
        x << (y % 35), x >> (y % 35), x << y, x >> y, x**y, ops.max(x, 0), ops.min(x, 1), ops.argmin(x, 1),
        ops.cast(x, I64) & (ops.cast(y, I64) * 1_000_000), ops.cast(x, I64) << 20, ops.cast(y, I64) >> 7,
    ]  # fmt: skip


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("dtype", [I32, U32], ids=str)
def test_integers_of_32_bits_wrap(vm, dtype):
    limits, term = np.iinfo(dtype.numpy), build(polynomials, [NdArrayType((3, 4), dtype)] * 2)
    function = compiled(vm, term)
    ends = st.integers(limits.min, limits.max) | st.sampled_from([limits.min, limits.max, 0, 1])

    @given(arrays(dtype.numpy, (2, 3, 4), elements=ends))
    @settings(max_examples=20)
    def holds(pair):
        with np.errstate(all="ignore"):
            wanted = evaluate(term, *pair)
        for number, (found, expected) in enumerate(zip(function(*pair), wanted, strict=True)):
            np.testing.assert_array_equal(found, expected, err_msg=f"polynomial {number}")

    holds()


@on_machines
@pytest.mark.parametrize("dtype", [I32, I64, U32], ids=str)
def test_casts_to_integers_drop_the_fraction_and_saturate(vm, dtype):
    x = np.array([0.5, -0.5, 2.9, -2.9, np.nan, 2**31, -(2**31) - 0.5, 2**32 - 0.5, 3e9, 2.0**63, *AWKWARD])
    limits = np.iinfo(dtype.numpy)

    def wanted(number):
        if not np.isfinite(number):
            return 0 if np.isnan(number) else limits.max if number > 0 else limits.min
        return min(max(int(number), limits.min), limits.max)

    [found] = run_on(backend(vm), build(lambda x: ops.cast(x, dtype), typed(x)), x)
    assert found.tolist() == list(map(wanted, x))
