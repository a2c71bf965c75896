"""Lowering to kernels, and every pass over kernels, preserve the meaning of functions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from catgrad.backends.c.machine import MACHINE
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.backend import TOLERANCE
from catgrad.errors import ShapeError
from catgrad.functors import Expand, reverse
from catgrad.loops.compile import canonical, compile_kernels
from catgrad.loops.ir.nest import Accumulate, Loop, MatMul, Store, loops, statements
from catgrad.loops.ir.scalar import Load
from catgrad.loops.ir.steps import For, conditions, every_step, kernels
from catgrad.loops.passes.simplify.contract_arrays import contract_arrays
from catgrad.loops.passes.vectors.vectorise_rows import vectorise_rows
from catgrad.loops.reference import run
from catgrad.ops.batch_norm import moments
from catgrad.programs.program import evaluate
from catgrad.programs.program import lower as straight
from catgrad.testing import Case, draw_arrays, operation_cases
from catgrad.types import widened
from tests.differential import outcome, pruned
from tests.kernels import SCALARS, VECTORS, has, prepared
from tests.programs import programs
from tests.strategies import float_terms, integer_terms, integers_for

EXPAND = Expand(has)


def function_of(term):
    return prepared(straight(EXPAND(term)))


def close(found, wanted, tolerance=1e-5):
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(widened(x), widened(y), rtol=tolerance, atol=tolerance)


def equal(found, wanted):
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(found, wanted, strict=True))


REVERSED = {case.name.removesuffix("-reverse") for case in operation_cases() if case.reversed}
CASES = [
    pytest.param(case, marks=pytest.mark.long if case.name in REVERSED else ()) for case in operation_cases()
]
"""Cases of operations, of which those in reverse have the kernels of the others too."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_of_operations_agree_with_the_reference(case: Case):
    arrays = draw_arrays(tuple(case.term.source.table), case.domain)
    wanted = evaluate(straight(case.term), *arrays)
    for machine in (VECTORS, SCALARS):
        lowered = compile_kernels(function_of(case.term), machine).map_kernels(machine.finish)
        for result, reference, type in zip(
            run(lowered, *arrays), wanted, case.term.target.table, strict=True
        ):
            assert result.shape == reference.shape
            close([result], [reference], TOLERANCE.get(type.dtype.value, 0))
        assert_no_dead_stores(lowered)


def assert_no_dead_stores(lowered):
    parts = [s for kernel in kernels(lowered.steps) for s in statements(kernel.body)]
    read = {array for step in every_step(lowered.steps) for array, _ in step.reads}
    loops = (step for step in every_step(lowered.steps) if isinstance(step, For))
    around = {array for step in lowered.steps for array, _ in step.reads}.union(lowered.results)
    read |= {row for loop in loops for row, arrays in loop.rows.items() if around.issuperset(arrays)}
    written = {array for s in parts for array, _ in s.writes}
    assert written <= {*read, *lowered.results, *conditions(lowered.steps)}


@given(integer_terms(size=10), st.integers(0, 99))
def test_kernels_of_integers_agree_with_the_reference(term, seed):
    arrays = integers_for(term, seed)
    assert equal(run(compile_kernels(function_of(term), VECTORS), *arrays), evaluate(straight(term), *arrays))


@given(float_terms(size=10), st.integers(0, 99))
def test_kernels_of_reverses_agree_with_the_reference(term, seed):
    term = reverse(term)
    arrays = draw_arrays(tuple(term.source.table), (-1.0, 1.0), seed)
    close(run(compile_kernels(function_of(term), VECTORS), *arrays), evaluate(straight(term), *arrays), 1e-4)


def each_pass(function, machine):
    """Yield the kernels of a function in canonical form, and after each pass of a machine."""
    lowered = canonical(function, machine)
    yield "canonical form", lowered
    for each in machine.passes:
        lowered = each(lowered, machine)
        yield each.__name__, lowered
    for each in machine.kernel_passes:
        lowered = lowered.map_kernels(lambda kernel, each=each: each(kernel, machine))
        yield each.__name__, lowered


def after_each_pass(function, machine):
    """Yield the kernels in canonical form, and after each pass that changes them: equal ones run alike."""
    before = None
    for name, lowered in each_pass(function, machine):
        if lowered != before:
            yield name, lowered
        before = lowered


MACHINES = st.sampled_from([VECTORS, SCALARS])


@given(integer_terms(size=10), MACHINES, st.integers(0, 99))
def test_every_pass_preserves_the_meaning(term, machine, seed):
    arrays = integers_for(term, seed)
    wanted = evaluate(straight(term), *arrays)
    for name, lowered in after_each_pass(function_of(term), machine):
        assert equal(run(lowered, *arrays, shuffled=True), wanted), name


@given(float_terms(size=10), MACHINES, st.integers(0, 99))
def test_every_pass_preserves_the_meaning_of_reverses(term, machine, seed):
    term = reverse(term)
    arrays = draw_arrays(tuple(term.source.table), (-1.0, 1.0), seed)
    wanted = evaluate(straight(term), *arrays)
    for _, lowered in after_each_pass(function_of(term), machine):
        close(run(lowered, *arrays, shuffled=True), wanted, 1e-4)


@settings(suppress_health_check=list(HealthCheck), max_examples=20)
@given(programs(), MACHINES)
def test_every_pass_preserves_the_meaning_of_random_programs(program, machine):
    """An index out of range is an error after every pass; numbers that overflow are compared elsewhere."""
    function = function_of(pruned(program.term))
    wanted = outcome(lambda: run(canonical(function, machine), *program.inputs))
    for name, lowered in after_each_pass(function, machine):
        found = outcome(lambda lowered=lowered: run(lowered, *program.inputs, shuffled=True))
        assert type(found) is type(wanted), name


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 15, 16, 35, 48])
def test_vectorised_rows_preserve_the_meaning(rows, symbolic):
    def net(x, w, v):
        h = ops.tanh(x @ w)
        return ops.mean(ops.square(ops.softmax(h @ v)))

    types, count = [NdArrayType((4, 5)), NdArrayType((5, 3))], Dim("rows") if symbolic else rows
    arrays = draw_arrays((NdArrayType((rows, 4)), *types, NdArrayType(())), (-1.0, 1.0))
    function = function_of(reverse(build(net, [NdArrayType((count, 4)), *types])))
    at = VECTORS.passes.index(vectorise_rows)
    before = compile_kernels(function, replace(VECTORS, passes=VECTORS.passes[:at]))
    wanted = run(before, *arrays)
    after = vectorise_rows(before, VECTORS)
    assert (kernels(before.steps) != kernels(after.steps)) == (symbolic or rows >= 16)
    close(run(after, *arrays), wanted)
    close(run(contract_arrays(after, VECTORS), *arrays), wanted)


@pytest.mark.parametrize("dtype", [Dtype.float32, Dtype.int32])
@pytest.mark.parametrize("rows", [0, 1, 15, 16, 20, 33])
def test_passes_preserve_sums_over_a_symbolic_number_of_rows(rows, dtype):
    term = build(lambda x: ops.sum(x), [NdArrayType((Dim("rows"), 4), dtype)])
    array = np.arange(rows * 4).reshape(rows, 4).astype(dtype.numpy)
    for name, lowered in after_each_pass(function_of(term), VECTORS):
        assert equal(run(lowered, array, shuffled=True), [array.sum(dtype=dtype.numpy)]), name


@given(float_terms(size=10), st.integers(0, 99))
def test_iterations_of_parallel_loops_may_run_in_any_order(term, seed):
    function = function_of(reverse(term))
    arrays = draw_arrays(function.argument_types, (-1.0, 1.0), seed)
    lowered = compile_kernels(function, VECTORS)
    assert_same(run(lowered, *arrays, shuffled=True), run(lowered, *arrays))


@pytest.mark.parametrize(
    "moved",
    [
        lambda x: ops.flip(ops.reshape(ops.transpose(x), 6)),
        lambda x: ops.window(ops.reshape(ops.transpose(x), 6), (0,), (1,), (5,), (1,)),
        lambda x: ops.slice(ops.flip(ops.reshape(ops.transpose(x), 3, 2), (0,)), (1, 0), (2, 2)),
    ],
)
def test_dividends_of_indices_are_not_negative(moved):
    term = build(moved, [NdArrayType((2, 3))])
    arrays = draw_arrays(tuple(term.source.table))
    assert equal(run(compile_kernels(function_of(term), VECTORS), *arrays), evaluate(straight(term), *arrays))


@pytest.mark.parametrize(
    "read",
    [
        lambda y: ops.flip(y, (0,)),
        lambda y: ops.slice(ops.concat([y, y], 0), (2, 0), (5, 5)),
        lambda y: ops.transpose(y),
        lambda y: ops.reshape(ops.slice(ops.reshape(y, 25), (3,), (20,)), 4, 5),
        lambda y: y - ops.broadcast(ops.max(y, 0), (5, 5)),
    ],
)
def test_nests_with_a_dependence_between_iterations_are_not_fused(read):
    def both(x):
        y = ops.exp(ops.tanh(x))
        return y, read(y) * 2

    term = build(both, [NdArrayType((5, 5))])
    arrays = draw_arrays(tuple(term.source.table))
    for shuffled in (False, True):
        close(
            run(compile_kernels(function_of(term), VECTORS), *arrays, shuffled=shuffled),
            evaluate(straight(term), *arrays),
        )


def test_reversed_rows_of_a_symbolic_size():
    n = Dim("n")

    def turned(x, y):
        rows = ops.flip(ops.reshape(ops.permute(x, 1, 0), 4, n), (0,))
        return ops.slice(rows, (0, 0), (3, n)) + ops.broadcast(y, (3, n))

    term = build(turned, [NdArrayType((2 * n, 2)), NdArrayType((n,))])
    arrays = [np.arange(12, dtype=np.float32).reshape(6, 2), np.zeros(3, np.float32)]
    assert equal(run(compile_kernels(function_of(term), VECTORS), *arrays), evaluate(straight(term), *arrays))


def assert_same(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


@settings(suppress_health_check=list(HealthCheck))
@given(programs())
def test_kernels_of_random_programs_stay_within_bounds(program):
    """The interpreter asserts bounds; kernels check an index before they use it."""
    term = pruned(program.term)
    wanted = outcome(lambda: evaluate(straight(term), *program.inputs))
    assume(not isinstance(wanted, ShapeError))  # a size that entry points refuse before kernels run
    found = outcome(lambda: run(compile_kernels(function_of(term), VECTORS), *program.inputs, shuffled=True))
    assert isinstance(found, list) or (isinstance(found, IndexError) and isinstance(wanted, IndexError))


@pytest.mark.parametrize("number", [0.1, 4e6])
def test_indices_are_checked_before_use(number):
    """A scatter was fused into the loop of a maximum, before the check of its indices."""

    def both(x, number):
        sums = ops.broadcast(ops.sum(ops.broadcast(number, (3, 4)), 0), (5, 4), [0])
        return ops.argmax(x, 1), ops.scatter_add_along_axis(x, ops.cast(sums, Dtype.int64), 2, 1)

    term = build(both, [NdArrayType((5, 4)), NdArrayType(())])
    arrays = np.ones((5, 4), np.float32), np.float32(number)
    found, wanted = (
        outcome(lambda: run(compile_kernels(function_of(term), VECTORS), *arrays)),
        outcome(lambda: evaluate(term, *arrays)),
    )
    assert type(found) is type(wanted)
    assert isinstance(found, IndexError) or equal(found, wanted)


def test_loads_are_not_hoisted_out_of_loops_without_iterations():
    """An invariant load was hoisted out of a loop without iterations."""
    n = Dim("n")
    term = build(
        lambda x, k: ops.gather(x, ops.broadcast(k, (n,))) * 2,
        [NdArrayType((n,)), NdArrayType((), Dtype.int64)],
    )
    lowered = compile_kernels(function_of(term), VECTORS).map_kernels(VECTORS.finish)
    [found] = run(lowered, np.zeros(0, np.float32), np.int64(3))
    assert found.shape == (0,)


def test_lanes_do_not_gather_from_long_rows():
    """Channels of 8 × 8 elements are as long as vectors: lanes along them are contiguous."""
    images = NdArrayType((16, 256, 8, 8))
    lowered = compile_kernels(function_of(build(lambda x: moments(x)[1], [images])), MACHINE)
    innermost = [
        loop
        for kernel in kernels(lowered.steps)
        for loop in loops(kernel.body)
        if not any(isinstance(item, Loop) for item in loop.body)
    ]
    strides = {buffer.stride(at, loop.variable) for loop in innermost for buffer, at in loop.reads}
    assert strides <= {0, 1}


def compiled(function, *types):
    """List the statements of the kernels of a function."""
    lowered = compile_kernels(function_of(build(function, types)), VECTORS)
    return [s for kernel in kernels(lowered.steps) for s in statements(kernel.body)]


@pytest.mark.parametrize(("shape", "axis", "is_copied"), [((5, 64), 0, False), ((64, 5), 1, True)])
def test_rows_are_copied_side_by_side_if_they_are_not(shape, axis, is_copied):
    parts = compiled(lambda x: ops.cumsum(x, axis), NdArrayType(shape))
    stores = [s for s in parts if isinstance(s, Store) and isinstance(s.scalar, Load)]
    assert any(s.scalar.buffer.name == s.buffer.name for s in stores) == is_copied


def test_each_lane_has_the_sum_of_one_element_at_a_time():
    types = NdArrayType((32, 4)), NdArrayType((4, 20)), NdArrayType((20, 3))
    parts = compiled(lambda x, w, v: ops.tanh(x @ w) @ v, *types)
    assert {s.buffer.size for s in parts if isinstance(s, Accumulate)} == {VECTORS.vectors.lanes}


@pytest.mark.parametrize("is_read", [False, True])
def test_products_that_a_loop_adds_to_a_sum_are_added_where_it_lies(is_read):
    """But one that is read by others too is stored."""
    types = [NdArrayType((96, 64)), NdArrayType((3, 32, 96)), NdArrayType((3, 32, 64))]

    def summed(total, x, y):
        def body(total, rows):
            product = ops.permute(rows[0], 1, 0) @ rows[1]
            return total + product, ops.exp(product if is_read else rows[0])

        return ops.scan(body, total, (x, y))

    term = build(summed, types)
    lowered = compile_kernels(function_of(term), MACHINE)
    adds = [s.add for k in kernels(lowered.steps) for s in statements(k.body) if isinstance(s, MatMul)]
    assert adds == [not is_read]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=t.shape).astype(np.float32) / 8 for t in types]
    close(run(lowered, *arrays), evaluate(straight(term), *arrays))
