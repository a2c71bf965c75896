"""Every operation as C: compiled without warnings, run with sanitizers and under ThreadSanitizer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, Term, build, ops
from catgrad.backend import TOLERANCE
from catgrad.functors import reverse
from catgrad.ops.cast import Cast
from catgrad.programs.program import evaluate
from catgrad.terms.term import singleton
from catgrad.terms.var import Var
from catgrad.testing import draw_arrays, operation_cases
from catgrad.types import Array, widened
from tests.conformance import c_calls
from tests.covering import some
from tests.unit.c.build import COMPILERS, NEEDS_C, STRICT, built, run
from tests.unit.c.watched import FLAGS, NEEDS_WATCHER, assert_no_race, compiler

pytestmark = NEEDS_C
I32, I64, U32 = Dtype.int32, Dtype.int64, Dtype.uint32
CHECKS = {"gcc": "address,undefined,float-cast-overflow", "clang": "undefined,float-cast-overflow"}


@dataclass(frozen=True)
class Example:
    """A term, arguments, and the expected results."""

    term: Term
    arrays: Sequence[Array]
    wanted: Sequence[Array]


def operations() -> list[Example]:
    """List every case of every operation in reverse, which has the values too, or of those that have none."""
    examples, cases = [], operation_cases()
    names = {case.name for case in cases}
    for case in (case for case in cases if f"{case}-reverse" not in names):
        arrays = draw_arrays(tuple(case.term.source.table), case.domain)
        examples.append(Example(case.term, arrays, evaluate(case.term, *arrays)))
    return examples


def sums(dtype: Dtype) -> Example:
    """Build sums and products of integers that overflow, along each axis."""

    def function(x: Var) -> tuple[Var, ...]:
        rows = x @ ops.transpose(x)
        return ops.sum(x), ops.sum(x, 0), ops.sum(x, 1), ops.cumsum(x, 1), rows, -x * 3 + x - 7 * x

    x = np.random.default_rng(0).integers(2**30, 2**31, (5, 70)).astype(dtype.numpy)
    x = x << 32 if dtype is I64 else x
    exact = x.astype(object)
    added = [exact.sum(), exact.sum(0), exact.sum(1), exact.cumsum(1)]
    wanted = [*added, exact @ exact.T, -exact * 3 + exact - 7 * exact]
    return Example(build(function, [NdArrayType(x.shape, dtype)]), [x], [wrapped(y, dtype) for y in wanted])


def wrapped(exact: Any, dtype: Dtype) -> Array:
    """Reduce integers modulo 2ⁿ, for a dtype of n bits."""
    bits = 8 * dtype.numpy.itemsize
    unsigned = np.asarray(np.asarray(exact, object) % 2**bits, np.dtype(f"u{dtype.numpy.itemsize}"))
    return unsigned.view(dtype.numpy)


AWKWARD = [
    0.0, -0.0, 0.99, -0.99, 1.5, -2.5, 2147483520.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967040.0,
    4294967296.0, 9.2e18, 9223372036854775808.0, -9223372036854775808.0, -9.3e18, 65504.0, 3e38, -3e38,
    math.inf, -math.inf, math.nan, 2147483647.9, -2147483648.9, 4294967295.9,
]  # fmt: skip


def cast(before: Dtype, after: Dtype) -> Example:
    """Cast: truncate towards zero and saturate; NaN becomes 0, or true."""
    with np.errstate(over="ignore"):
        x = np.array(AWKWARD).astype(before.numpy)
    wanted = [saturated(float(number), after) for number in x]
    return Example(
        singleton(Cast(before, after), NdArrayType(x.shape, before)), [x], [np.array(wanted, after.numpy)]
    )


def saturated(number: float, dtype: Dtype) -> int:
    if dtype is Dtype.bool:
        return number != 0
    limits = np.iinfo(dtype.numpy)
    if not math.isfinite(number):
        return 0 if math.isnan(number) else limits.max if number > 0 else limits.min
    return min(max(int(number), limits.min), limits.max)


SCALAR, ONE, EMPTY, COLUMN = (NdArrayType(shape) for shape in ((), (1,), (0,), (4, 1)))
NO_COLUMNS = NdArrayType((3, 0))


def places_in_a_branch(condition: Var, x: Var) -> Any:
    return ops.cond(ops.sum(condition) > 0, lambda x: ops.argsort(x, 1), lambda x: ops.argsort(-x, 1), x)


def of_an_empty_array(x: Var, y: Var) -> Any:
    return ops.cond(ops.sum(x) > 0, lambda y: ops.tanh(y), lambda y: y * 2, y)


def carried_over_rows(x: Var, rows: Var) -> Any:
    return ops.scan(lambda carry, row: (carry * row, carry + row), x, rows)


def small_axes() -> list[Example]:
    """Build terms on scalars and on axes of size 1 and 0, for which no loops remain."""
    terms = [
        build(places_in_a_branch, [ONE, NdArrayType((3, 1))]),
        build(lambda x: ops.argsort(ops.tanh(ops.sum(x, 0)), 0) * 2, [COLUMN]),
        build(lambda x: ops.sort(ops.tanh(ops.sum(x, 0)), 0)[0] * 2, [COLUMN]),
        build(lambda x: ops.argsort(ops.tanh(x) * 2, 1), [NO_COLUMNS]),
        build(lambda x, y: ops.contract(x, y, 0), [SCALAR, SCALAR]),
        build(of_an_empty_array, [COLUMN, EMPTY]),
        build(carried_over_rows, [EMPTY, NO_COLUMNS]),
        reverse(build(carried_over_rows, [EMPTY, NO_COLUMNS])),
        reverse(build(lambda x: ops.repeat(lambda x: ops.tanh(x) * x, 3, x), [NO_COLUMNS])),
        build(lambda x: ops.any(x, 0), [NdArrayType((3, 2), Dtype.bool)]),
        build(lambda x: ops.log1p(ops.expm1(x)), [NdArrayType((3,), Dtype.float64)]),
    ]
    arrays = [draw_arrays(tuple(term.source.table)) for term in terms]
    return [Example(t, a, evaluate(t, *a)) for t, a in zip(terms, arrays, strict=True)]


FLOATS, WHOLE = [dtype for dtype in Dtype if dtype.is_floating], [I32, I64, U32, Dtype.bool]


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return [
        *operations(),
        *small_axes(),
        *(sums(dtype) for dtype in (I32, I64, U32)),
        *(cast(before, after) for before in FLOATS for after in WHOLE),
    ]


@pytest.fixture(scope="module")
def folder(examples: list[Example], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("operations")
    c_calls.write("operations", [(e.term, e.arrays) for e in examples], path)
    return path


def assert_right(examples: list[Example], folder: Path) -> None:
    """Compare the output of the program with the reference."""
    found = c_calls.results([(e.term, e.arrays) for e in examples], folder)
    for example, results in zip(examples, found, strict=True):
        for result, wanted, type in zip(results, example.wanted, example.term.target.table, strict=True):
            tolerance = TOLERANCE.get(type.dtype.value, 0)
            np.testing.assert_allclose(
                widened(result), widened(wanted), rtol=tolerance, atol=tolerance, err_msg=repr(example.term)
            )


@pytest.mark.parametrize("compiler", some(COMPILERS, ["gcc"]))
def test_no_warning_and_no_undefined_behaviour(examples, folder, compiler):
    """Arrays and workspace have their minimum sizes, and are filled with NaN before the call."""
    if not COMPILERS[compiler]:
        pytest.skip(f"no {compiler} on this machine")
    checks = [f"-fsanitize={CHECKS[compiler]}", "-fno-sanitize-recover=all", "-g"]
    sources = ["main.c", "operations.c", "-o", compiler, "-lm"]
    built(*COMPILERS[compiler], "-std=c11", *STRICT, *checks, *sources, cwd=folder)
    done = run(folder / compiler, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert_right(examples, folder)


@NEEDS_WATCHER
def test_no_data_race(examples, tmp_path, monkeypatch):
    """Distribute every parallel loop over threads, however short."""
    parallelise = import_module("catgrad.loops.passes.schedule.parallelise")
    monkeypatch.setattr(parallelise, "MIN_PARALLEL_WORK", 0)
    c_calls.write("operations", [(e.term, e.arrays) for e in examples], tmp_path)
    sources = ["main.c", "operations.c", "-o", "watched", "-lm"]
    built(compiler(), *FLAGS, "-DGEMM_PARALLEL_FLOPS=0", *sources, cwd=tmp_path)
    assert_no_race(tmp_path / "watched")
    assert_right(examples, tmp_path)
