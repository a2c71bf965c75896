"""Arrays share memory only if their lifetimes do not overlap, and only equal kernels are shared."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from catgrad.backends.c.machine import MACHINE, companion
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.functors import Expand, reverse
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.hashing import Signature
from catgrad.loops.ir.index import Index
from catgrad.loops.ir.nest import Kernel, MatMul, Replaced, rewritten, statements
from catgrad.loops.ir.scalar import Space
from catgrad.loops.ir.steps import kernels
from catgrad.loops.memory_plan import byte_size, planned
from catgrad.loops.printing.interface import Interface
from catgrad.loops.printing.kernels import KernelPrinter
from catgrad.loops.reference import Interpreter, run
from catgrad.ops.contract import Contract
from catgrad.programs.program import evaluate
from catgrad.programs.program import lower as straight
from catgrad.targets import get_backend
from catgrad.terms.term import singleton
from catgrad.testing import draw_arrays
from tests.kernels import VECTORS, has, prepared
from tests.strategies import MATRIX, SQUARE, VECTOR, integer_terms, integers_for, symbolic_terms

EXPAND = Expand(has)


def function_of(term):
    return prepared(straight(EXPAND(term)))


def arrays_of(function, sizes, seed):
    types = [type.substitute(sizes) for type in function.argument_types]
    return draw_arrays(types, (-1.0, 1.0), seed)


SIZES = st.fixed_dictionaries({"n": st.integers(1, 5), "m": st.integers(1, 5)})


@given(symbolic_terms(), SIZES, st.integers(0, 99))
def test_symbolic_sizes_and_a_workspace_keep_the_meaning(term, sizes, seed):
    term = reverse(term)
    lowered = compile_kernels(function_of(term), VECTORS)
    arrays = arrays_of(lowered.function, sizes, seed)
    wanted = evaluate(straight(term), *arrays)
    for found, reference in zip(run(lowered, *arrays, plan=planned(lowered)), wanted, strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-3, atol=1e-4)


@given(symbolic_terms(), st.integers(0, 100), st.integers(0, 100))
def test_arrays_with_overlapping_lifetimes_have_disjoint_memory(term, n, m):
    lowered = compile_kernels(function_of(reverse(term)), VECTORS)
    plan, size = planned(lowered), Interpreter({"n": n, "m": m}).size
    alive = {}
    for number, step in enumerate(lowered.steps):
        for array, _ in (*step.reads, *step.writes):
            if array.space is Space.WORKSPACE:
                alive.setdefault(array, []).append(number)
    assert alive.keys() == plan.offsets.keys()
    ends = {array: size(offset) + size(byte_size(array)) for array, offset in plan.offsets.items()}
    for array, offset in plan.offsets.items():
        assert size(offset) % 8 == 0
        assert ends[array] <= size(plan.size)
    for a, b in combinations(alive, 2):
        if min(alive[a]) <= max(alive[b]) and min(alive[b]) <= max(alive[a]):
            assert ends[a] <= size(plan.offsets[b]) or ends[b] <= size(plan.offsets[a])
    assert size(plan.size) >= size(plan.least)


@st.composite
def updates(draw):
    """Draw a map of arrays, and the arguments that some of its results overwrite."""
    types = st.lists(st.sampled_from([VECTOR, MATRIX, SQUARE]), min_size=1, max_size=4)
    term = draw(integer_terms(draw(types), draw(types), 10))
    taken = {}
    for number, type in enumerate(term.target.table):
        left = [a for a, t in enumerate(term.source.table) if t is type and a not in taken.values()]
        if left and draw(st.booleans()):
            taken[number] = draw(st.sampled_from(left))
    return term, taken


def check_in_place(term, taken, arrays):
    lowered = compile_kernels(function_of(term), VECTORS, taken)
    assert [r.alias for r in lowered.results] == [
        lowered.arguments[taken[n]] if n in taken else None for n in range(len(lowered.results))
    ]
    wanted = evaluate(straight(term), *arrays)
    for shuffled in (False, True):
        found = run(lowered, *arrays, plan=planned(lowered), shuffled=shuffled)
        assert all(np.array_equal(x, y) for x, y in zip(found, wanted, strict=True))


@given(updates(), st.integers(0, 99))
def test_new_values_are_computed_in_place(update, seed):
    term, taken = update
    check_in_place(term, taken, integers_for(term, seed))


def exchanged_turn_by_turn(p, q, r):
    """Carries read each other, in a loop over the rows of r."""
    (p, q), rows = ops.scan(
        lambda c, row: ((c[1] + ops.broadcast(row, (3, 3)), c[0] - c[1]), ops.sum(c[0], 0)), (p, q), r
    )
    return p, q, rows


@pytest.mark.parametrize(
    "update",
    [
        exchanged_turn_by_turn,
        lambda p, q, r: (q, p, r),
        lambda p, q, r: (q, r, p),
        lambda p, q, r: (p + q, p * 2, r),
        lambda p, q, r: (p - q, q - r, r - p),
        lambda p, q, r: (p, q + p, p),
        lambda p, q, r: (ops.transpose(p), ops.flip(p), q),
        lambda p, q, r: (p @ q, q @ p, p),
        lambda p, q, r: (p - ops.broadcast(ops.sum(p), (3, 3)), p + ops.broadcast(ops.sum(q, 0), (3, 3)), q),
        lambda p, q, r: (p + ops.transpose(p), p, p * q),
        lambda p, q, r: (ops.pad(ops.slice(p, [1, 0], [2, 3]) * 2, [(1, 0), (0, 0)]), q, r),
        lambda p, q, r: (ops.concat([ops.slice(p, [1, 0], [2, 3]), ops.slice(p, [0, 0], [1, 3])]), q, r),
        lambda p, q, r: (ops.cumsum(p, 0), ops.cumsum(q, 0, backwards=True) + p, ops.cumsum(p, 1)),
    ],
)
def test_results_computed_in_place_that_read_each_other(update):
    term = build(update, [SQUARE] * 3)
    arrays = integers_for(term, 0)
    check_in_place(term, {0: 0, 1: 1, 2: 2}, arrays)
    check_in_place(term, {0: 1, 1: 2, 2: 0}, arrays)
    check_in_place(term, {0: 2, 2: 1}, arrays)


def test_rows_in_lanes_read_what_others_overwrite_before():
    def update(a, b, x, z):
        new = b * ops.sum(x, 1)
        columns = [ops.transpose(ops.broadcast(each, (5, 32))) for each in (a, b)]
        return new, ops.sum(z * columns[0] + columns[1], 1)

    row = NdArrayType((32,), Dtype.int32)
    term = build(update, [row, row, NdArrayType((32, 8), Dtype.int32), NdArrayType((32, 5), Dtype.int32)])
    check_in_place(term, {0: 0}, integers_for(term, 0))


@pytest.mark.parametrize("axis", [0, 1])
def test_elements_that_stay_are_not_stored(axis):
    """Neither those of an array that stays, nor those around a slice that changes."""

    def update(p, q):
        before, part, after = ops.split(p, [1, 1, 1], axis)
        return ops.concat([before, part * 2, after], axis), q

    term = build(update, [SQUARE] * 2)
    arrays = integers_for(term, 0)
    check_in_place(term, {0: 0, 1: 1}, arrays)
    lowered = compile_kernels(function_of(term), VECTORS, {0: 0, 1: 1})
    [[store]] = [[*statements(kernel.body)] for kernel in lowered.steps]
    assert store.indices[axis] == Index((), 1)


@pytest.mark.parametrize("holds", [True, False])
def test_a_condition_that_replaces_an_old_value_decides_by_the_new_one(holds):
    """The new value has memory of its own, as the old value is read later: the branch must read the new."""

    def update(held, x):
        new = ops.logical_not(held)
        y = ops.cond(new, lambda x: x * 2, lambda x: x + 1, x)
        return new, y + ops.broadcast(ops.cast(held, Dtype.float32), (3,))

    term = build(update, [NdArrayType((), Dtype.bool), NdArrayType((3,))])
    check_in_place(term, {0: 0}, [np.array(holds), np.full(3, 5, np.float32)])


LABELS = st.permutations(range(7))


@given(LABELS, LABELS, LABELS, st.permutations([1, 2, 2, 4, 4, 8, 16]), st.integers(0, 99))
@settings(max_examples=8)
def test_products_of_any_arrangement(left, right, out, sizes, seed):
    """Label 0 is a batch axis, 1 and 2 are rows, 3 and 4 columns, 5 and 6 are summed."""
    x, y = [v for v in left if v not in (3, 4)], [v for v in right if v not in (1, 2)]
    z = [v for v in out if v not in (5, 6)]
    op = Contract(tuple(x), tuple(y), tuple(z))
    types = [NdArrayType(tuple(sizes[v] for v in labels)) for labels in (x, y)]
    arrays = draw_arrays(types, (-1.0, 1.0), seed)
    [found] = run(compile_kernels(function_of(singleton(op, *types)), VECTORS), *arrays)
    np.testing.assert_allclose(found, op.ref(*arrays), rtol=1e-3, atol=1e-4)


def padded_sums(images):
    """Sum each window of 2 × 2 elements of images within margins of zeros."""
    padded = ops.pad(ops.exp(images), [(0, 0), (1, 1), (1, 1)])
    batch, height, width = images.shape
    size = batch, height + 1, width + 1
    corners = [ops.slice(padded, (0, i, j), size) for i in (0, 1) for j in (0, 1)]
    return sum(corners[1:], corners[0])


def test_a_padded_array_that_one_nest_reads_is_of_one_iteration():
    images = NdArrayType((5, 6, 7), Dtype.float64)
    lowered = compile_kernels(function_of(build(padded_sums, [images])), MACHINE)
    [kernel] = kernels(lowered.steps)
    assert {buffer.size for buffer, _ in kernel.writes if buffer.space is Space.LOCAL} == {8 * 9}
    assert planned(lowered).offsets == {}
    [x] = arrays_of(lowered.function, {}, 0)
    padded = np.pad(np.exp(x), [(0, 0), (1, 1), (1, 1)])
    wanted = padded[:, :-1, :-1] + padded[:, :-1, 1:] + padded[:, 1:, :-1] + padded[:, 1:, 1:]
    np.testing.assert_allclose(run(lowered, x)[0], wanted)


def multiplications(function):
    return sum(
        isinstance(s, MatMul)
        for k in kernels(compile_kernels(function, VECTORS).steps)
        for s in statements(k.body)
    )


def test_contractions_that_become_matrix_products():
    x, w, images, filters = (NdArrayType(s) for s in ((Dim("n"), 32), (32, 16), (4, 3, 12, 12), (8, 3, 3, 3)))
    dense = build(lambda x, w: x @ w, [x, w])
    assert multiplications(function_of(dense)) == 1
    assert multiplications(function_of(reverse(dense))) == 3  # the product, and one for each operand
    assert multiplications(function_of(build(lambda x, w: ops.conv(x, w), [images, filters]))) == 1
    small = build(lambda x, w: x @ w, [NdArrayType((4, 4))] * 2)
    assert multiplications(function_of(small)) == 0


def texts(function):
    """Print the kernels of a function as C without the names of arrays, with their keys."""
    lowered = compile_kernels(function, VECTORS)
    touched = {buffer for step in lowered.steps for buffer, _ in (*step.reads, *step.writes)}
    change = Replaced({buffer: replace(buffer, name="array") for buffer in touched})
    lowered = lowered.map_kernels(lambda kernel: Kernel(rewritten(kernel.body, change)))
    plan, dialect = planned(lowered), get_backend("c").dialect
    found = []
    for kernel in kernels(lowered.steps):
        interface = Interface(kernel, plan)
        text = KernelPrinter(interface, MACHINE, dialect, {}, companion, {}).print("kernel")
        found.append(
            (Signature(kernel, plan).kernel_key, (text.sizes, text.parameters, text.lines, text.scratch))
        )
    return found


@given(symbolic_terms())
def test_kernels_are_shared_only_if_their_texts_are_equal(term):
    function = function_of(reverse(term))
    known = {}
    for key, text in (*texts(function), *texts(function_of(reverse(term)))):
        assert known.setdefault(key, text) == text


@given(symbolic_terms())
def test_equal_kernels_are_shared_whatever_the_names_of_their_arrays(term):
    term = reverse(term)
    names = [[f"{name}{k}" for k in range(len(term.source))] for name in ("x", "weights.")]
    first, second = (texts(prepared(straight(EXPAND(term), "f", each))) for each in names)
    assert [key for key, _ in first] == [key for key, _ in second]
