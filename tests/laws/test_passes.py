"""Passes preserve the meaning of functions, and reach a fixed point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import ops
from catgrad.functors import Expand, reverse
from catgrad.learn.entries import program
from catgrad.learn.task import TERMS
from catgrad.ops.cast import Cast
from catgrad.ops.shape import Permute
from catgrad.programs.passes import PIPELINE, optimise, transpose
from catgrad.programs.passes.widen_late import MOVES, widen_late
from catgrad.programs.ports import Role
from catgrad.programs.program import evaluate, lower
from catgrad.terms.build import build
from catgrad.terms.structural import Constant, Copy, Discard, Label
from catgrad.testing import draw_arrays
from catgrad.types import Dtype, NdArrayType, widened
from tests.models import TASKS, arguments, mlp
from tests.strategies import float_terms, integer_terms, integers_for

F = NdArrayType((2, 3))
SCALAR = NdArrayType(())


def equal(xs, ys):
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(xs, ys, strict=True))


@pytest.mark.parametrize("each", PIPELINE, ids=lambda p: p.__name__)
@given(term=integer_terms(), seed=st.integers(0, 99))
def test_each_pass_preserves_the_meaning(each, term, seed):
    function = lower(Expand()(reverse(term)))
    arrays = [
        np.random.default_rng(seed).integers(-4, 5, t.shape).astype(np.int32) for t in function.argument_types
    ]
    assert equal(evaluate(each(function), *arrays), evaluate(function, *arrays))


@given(integer_terms(), st.integers(0, 99))
def test_the_pipeline_preserves_the_meaning_and_is_idempotent(term, seed):
    function = lower(term)
    optimised = optimise(function)
    arrays = integers_for(term, seed)
    assert equal(evaluate(optimised, *arrays), evaluate(function, *arrays))
    assert optimise(optimised) is optimised


@given(integer_terms())
def test_no_structural_dead_or_common_code_remains(term):
    optimised = optimise(lower(term))
    assert not any(isinstance(a.op, (Copy, Discard, Label)) for a in optimised.body)
    uses = optimised.uses()
    assert all(any(uses[v] for v in a.outputs) for a in optimised.body)
    assert len({(a.op, a.inputs) for a in optimised.body}) == len(optimised.body)


def ops_after(function, types):
    return [type(a.op).__name__ for a in optimise(lower(build(function, types))).body]


@given(float_terms(), st.integers(0, 99))
def test_the_pipeline_preserves_the_meaning_of_floats(term, seed):
    function = lower(Expand()(reverse(term)))
    arrays = draw_arrays(function.argument_types, (-1.0, 1.0), seed)
    for a, b in zip(evaluate(optimise(function), *arrays), evaluate(function, *arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
        assert a.dtype == b.dtype


@given(st.lists(st.sampled_from(Dtype), min_size=2, max_size=5), st.integers(0, 99))
def test_the_pipeline_preserves_chains_of_casts(dtypes, seed):
    """Bit for bit, with numbers that overflow, underflow, and are not finite."""

    def chain(x):
        for dtype in dtypes[1:]:
            x = ops.cast(x, dtype)
        return x

    function = lower(build(chain, [NdArrayType((40,), dtypes[0])]))
    x = np.random.default_rng(seed).normal(size=40) * 10.0 ** np.arange(-20, 20)
    x[:3] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        x = x.astype(dtypes[0].numpy)
        found, wanted = (evaluate(f, x)[0] for f in (optimise(function), function))
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(widened(found), widened(wanted))


@pytest.mark.parametrize("dtype", [Dtype.bfloat16, Dtype.float16])
def test_numbers_of_16_bits_are_moved_before_they_are_widened(dtype):
    """All but the sum is in 16 bits, of which none is rounded again unless its last axis was another one."""

    def function(x, y):
        x, y = (ops.cast(v, Dtype.float32) for v in (x, y))
        both = ops.concat([ops.transpose(x), ops.pad(y, [(1, 0), (0, 0)])])
        return ops.sum(both, (0,)), ops.cast(both, dtype), ops.cast(ops.transpose(x), dtype)

    before = optimise(lower(build(function, [NdArrayType((2, 3), dtype), NdArrayType((4, 2), dtype)])))
    after = widen_late(before)
    arrays = [a.astype(dtype.numpy) for a in draw_arrays([F, NdArrayType((4, 2))], (-1, 1), 0)]
    assert equal(evaluate(after, *arrays), evaluate(before, *arrays))
    moved = [after.types[v].dtype for a in after.body if isinstance(a.op, MOVES) for v in a.outputs]
    assert {*moved} == {dtype}
    casts = [apply.op for apply in after.body if isinstance(apply.op, Cast)]
    assert [cast.widens for cast in casts].count(False) == 1


@pytest.mark.parametrize(("order", "rounded"), [((1, 0, 2), 0), ((0, 2, 1), 1)])
def test_numbers_whose_rows_stay_rows_are_not_rounded_again(order, rounded):
    """Heads of attention were copied before and after, though products can read them where they are."""

    def function(x):
        moved = ops.permute(ops.cast(x, Dtype.float32), *order)
        return ops.cast(ops.reshape(moved, 6, 4), Dtype.bfloat16)

    before = optimise(lower(build(function, [NdArrayType((2, 3, 4), Dtype.bfloat16)])))
    after = widen_late(before)
    x = np.arange(24).reshape(2, 3, 4).astype(Dtype.bfloat16.numpy)
    assert equal(evaluate(after, x), evaluate(before, x))
    assert sum(isinstance(apply.op, Cast) and not apply.op.widens for apply in after.body) == rounded


@pytest.mark.parametrize("whole", [dtype for dtype in Dtype if dtype.is_integer])
def test_casts_of_integers_by_floating_point_numbers_are_one_cast_if_it_is_the_same(whole):
    limits = whole.limits
    x = np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max], whole.numpy)
    x = np.arange(limits.min, limits.max + 1).astype(whole.numpy) if whole.itemsize == 1 else x
    for between in (dtype for dtype in Dtype if dtype.is_floating):
        for after in Dtype:
            inner, outer = Cast(whole, between), Cast(between, after)
            fused = outer.fuse(inner)
            if fused is not None:
                with np.errstate(over="ignore"):
                    np.testing.assert_array_equal(fused.ref(x), outer.ref(inner.ref(x)))


def test_levels_that_are_cast_back_are_the_levels():
    assert Cast(Dtype.float32, Dtype.int8).fuse(Cast(Dtype.int8, Dtype.float32)) == Cast(
        Dtype.int8, Dtype.int8
    )
    assert Cast(Dtype.float32, Dtype.uint8).fuse(Cast(Dtype.int8, Dtype.float32)) is None
    assert Cast(Dtype.float32, Dtype.int32).fuse(Cast(Dtype.int32, Dtype.float32)) is None
    assert Cast(Dtype.float64, Dtype.int32).fuse(Cast(Dtype.int32, Dtype.float64)) is not None


def test_scaling_does_not_overflow():
    x = np.float32(1e30)
    term = build(lambda x: 1e30 * (1e30 / x), [SCALAR])
    assert evaluate(optimise(lower(term)), x)[0] == evaluate(lower(term), x)[0] == np.float32(1e30)


RULES = {
    "double negation": (lambda x: -(-x), [F], []),
    "double transpose": (lambda x: ops.transpose(ops.transpose(x)), [F], []),
    "times one": (lambda x: x * 1, [F], []),
    "one times": (lambda x: 1 * x, [F], []),
    "plus zero": (lambda x: 0 + x, [F], []),
    "minus zero": (lambda x: x - 0, [F], []),
    "over one": (lambda x: x / 1, [F], []),
    "reshape to the same": (lambda x: ops.reshape(x, 2, 3), [F], []),
    "reshape twice": (lambda x: ops.reshape(ops.reshape(x, 6), 3, 2), [F], ["Reshape"]),
    "plus a negative": (lambda x, y: x + -y, [F, F], ["Subtract"]),
    "minus a negative": (lambda x, y: x - -y, [F, F], ["Add"]),
    "zero minus": (lambda x: 0 - x, [F], ["Negate"]),
    "scaled reciprocal": (lambda x: 2 * (3 / x), [F], ["Constant", "Divide"]),
    "constants": (lambda x: x * (ops.zeros_like(x) + 2), [F], ["Constant", "Multiply"]),
    "transposed operands": (lambda x, y: ops.transpose(x) @ y, [F, F], ["Contract"]),
    "transposed result": (lambda x, y: ops.transpose(ops.transpose(x) @ y), [F, F], ["Contract"]),
    "repeated": (lambda x: ops.exp(x) * ops.exp(x), [F], ["Exp", "Multiply"]),
    "repeated up to order": (lambda x, y: x * y - y * x, [F, F], ["Multiply", "Subtract"]),
    "a cast after one that is exact": (
        lambda x: ops.cast(ops.cast(x, Dtype.float64), Dtype.bfloat16), [F], ["Cast"],
    ),
    "an exact cast and back": (lambda x: ops.cast(ops.cast(x, Dtype.float64), x.dtype), [F], []),
    "a cast that rounds and back": (
        lambda x: ops.cast(ops.cast(x, Dtype.bfloat16), x.dtype), [F], ["Cast", "Cast"],
    ),
    "dead": (lambda x: (ops.exp(x), x)[1], [F], []),
    "a slice of a product": (
        lambda x, y: ops.slice(x @ y, [0, 1], [1, 2]), [F, NdArrayType((3, 4))],
        ["Slice", "Slice", "Contract"],
    ),
    "rows of a product": (
        lambda x, y: ops.slice(x @ y, [1, 0], [1, 4]), [F, NdArrayType((3, 4))], ["Slice", "Contract"],
    ),
    "a slice of a sum": (lambda x: ops.slice(ops.sum(x, 0), [1], [2]), [F], ["Slice", "Sum"]),
    "a slice of a broadcast": (
        lambda x: ops.exp(ops.slice(ops.broadcast(x, (2, 3)), [0, 1], [1, 2])), [SCALAR],
        ["Exp", "Broadcast"],
    ),
    "a slice of a transpose": (
        lambda x, y: ops.slice(ops.transpose(x @ y), [1, 0], [2, 1]), [F, NdArrayType((3, 4))],
        ["Slice", "Slice", "Contract"],
    ),
    "a slice of added axes": (
        lambda x: ops.exp(ops.slice(ops.expand_dims(x, (0, 2)), [0, 0, 0, 1], [1, 2, 1, 2])), [F],
        ["Exp", "Reshape", "Slice"],
    ),
    "a slice of another shape": (
        lambda x: ops.slice(ops.reshape(ops.exp(x), 3, 2), [0, 1], [3, 1]), [F],
        ["Exp", "Reshape", "Slice"],
    ),
    "a slice of a slice": (lambda x: ops.slice(ops.slice(x, [0, 1], [2, 2]), [1, 0], [1, 1]), [F], ["Slice"]),
    "a slice of what is read elsewhere": (
        lambda x: (ops.slice(ops.exp(x), [0, 0], [1, 3]), ops.exp(x)), [F], ["Exp", "Slice"],
    ),
    "late broadcast": (
        lambda x: ops.exp(ops.broadcast(x, (2, 3))) * 2, [SCALAR],
        ["Exp", "Constant", "Multiply", "Broadcast"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_rules(rule):
    function, types, wanted = RULES[rule]
    assert sorted(ops_after(function, types)) == sorted(wanted)
    before = lower(build(function, types))
    arrays = draw_arrays(types, (0.5, 2.0), 0)
    for found, result in zip(evaluate(optimise(before), *arrays), evaluate(before, *arrays), strict=True):
        np.testing.assert_allclose(widened(found), widened(result), rtol=1e-6)


def test_constants_differ_by_sign_of_zero_and_agree_as_nan():
    assert Constant(F, 0.0) != Constant(F, -0.0)
    one, other = Constant(F, float("nan")), Constant(F, float("nan"))
    assert one == other
    assert hash(one) == hash(other)


def test_folding_rounds_as_the_dtype_does():
    big = build(lambda: Constant(SCALAR, 16777216)() + 1, [])
    assert evaluate(optimise(lower(big)))[0] == np.float32(16777216)


@pytest.mark.parametrize("make", TASKS.values(), ids=TASKS)
def test_stored_transposed_matrices_mean_the_same(make):
    task = make()
    before = program(task).map(optimise)
    slots = [slot for role in (Role.PARAMETER, Role.STATE) for slot in before.tables[role]]
    names = {slot.name for slot in slots if slot.type.rank == 2}
    after = transpose.stored(before, names)
    for name in TERMS[1:]:
        function, changed = before[name], after[name]
        given = arguments(task, name, {"batch": 3})
        passed = [turned(port, names, x) for port, x in zip(function.inputs, given, strict=True)]
        results = zip(changed.outputs, evaluate(changed, *passed), evaluate(function, *given), strict=True)
        for port, found, wanted in results:
            np.testing.assert_allclose(turned(port, names, found), wanted, rtol=1e-6, atol=1e-7)


def turned(port, names, array):
    return array.T if port.role.is_table and port.name in names else array


def test_updates_of_stored_matrices_copy_nothing():
    before = program(mlp()).map(optimise)
    names = {slot.name for slot in before.tables[Role.PARAMETER] if slot.type.rank == 2}
    assert names
    assert not any(isinstance(a.op, Permute) for a in transpose.stored(before, names)["step"].body)
