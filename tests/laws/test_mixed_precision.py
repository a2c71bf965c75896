"""Mixed precision is a functor that only rounds contractions, and commutes with the reverse derivative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Task, layers, losses, obj, sgd
from catgrad.functors import MixedPrecision, reverse
from catgrad.ops.cast import Cast
from catgrad.programs.program import bind_symbols, evaluate
from catgrad.terms.block import HigherOrder, blocks
from catgrad.terms.build import build
from catgrad.terms.op import OPS
from catgrad.terms.term import Term, edges, identity, singleton
from catgrad.testing import draw_arrays, in_dtype, isomorphic
from catgrad.types import Dtype, NdArrayType, widened
from tests.differential import outcome
from tests.programs import programs
from tests.strategies import float_terms

BF16 = Dtype.bfloat16
CONTRACTIONS = [
    pytest.param(op, types, id=f"{name}-{number}")
    for name, op_class in OPS.items()
    for number, (op, types) in enumerate(op_class.examples())
    if op.contracts
]
mixed = MixedPrecision(BF16)


def applied(term: Term):
    """Yield each operation with the dtypes of its operands and results, those in blocks included."""
    types = term.H.w.table
    for op, sources, targets in edges(term):
        yield op, [types[wire].dtype for wire in sources], [types[wire].dtype for wire in targets]
        for block in blocks(op).values():
            yield from applied(block.term)


def are_same(xs, ys):
    return all(
        x.dtype == y.dtype and np.array_equal(widened(x), widened(y), equal_nan=x.dtype.kind in "fV")
        for x, y in zip(xs, ys, strict=True)
    )


@given(st.data())
def test_mixed_precision_is_a_functor(data):
    f = data.draw(float_terms(size=4))
    g = data.draw(float_terms(size=4, sources=list(f.target.table)))
    assert isomorphic(mixed(f >> g), mixed(f) >> mixed(g))
    assert isomorphic(mixed(f @ g), mixed(f) @ mixed(g))
    assert list(mixed(f).source.table) == list(f.source.table)
    assert list(mixed(f).target.table) == list(f.target.table)


@given(float_terms())
def test_rounding_twice_is_rounding_once_and_other_terms_are_unchanged(f):
    assert isomorphic(mixed(mixed(f)), mixed(f))
    if not any(op.contracts for op in f.H.x.table):
        assert mixed(f) is f


@given(float_terms())
def test_contractions_have_operands_in_bfloat16_and_nothing_else_has(f):
    for op, operands, results in applied(mixed(reverse(f))):
        if op.contracts:
            assert {*operands, *results} == {BF16}
        elif not isinstance(op, Cast):
            assert BF16 not in {*operands, *results}


@settings(max_examples=25)
@given(programs(steps=6), st.integers(0, 99))
def test_mixed_precision_commutes_with_the_reverse_derivative(program, seed):
    """R[F(f)] = F(R[f]) bit for bit, for random programs over all operations, with loops and branches."""
    f, x = program.term, program.inputs
    sizes = bind_symbols(tuple(f.source.table), [array.shape for array in x])
    terms = reverse(mixed(f)), mixed(reverse(f))
    cotangents = draw_arrays([t.substitute(sizes) for t in terms[0].source.table[len(x) :]], seed=seed)
    with np.errstate(all="ignore"):
        one, other = (outcome(lambda term=term: evaluate(term, *x, *cotangents)) for term in terms)
    assert type(one) is type(other)
    assert isinstance(one, Exception) or are_same(one, other)


@pytest.mark.parametrize(("op", "types"), CONTRACTIONS)
def test_a_contraction_is_that_of_rounded_operands(op, types):
    f, arrays = singleton(op, *types), draw_arrays(types)
    [found] = evaluate(mixed(f), *arrays)
    [wanted] = evaluate(singleton(op, *in_dtype(types, BF16)), *(a.astype(BF16.numpy) for a in arrays))
    assert are_same([found], [widened(wanted)])
    is_empty = any(array.size == 0 for array in arrays)
    assert are_same([found], evaluate(f, *arrays)) == is_empty


@pytest.mark.parametrize("dtype", [Dtype.float64, Dtype.float16, Dtype.int32], ids=lambda d: d.name)
def test_contractions_of_other_dtypes_are_unchanged(dtype):
    x = NdArrayType((3, 3), dtype)
    f = build(lambda x, y: x @ y, [x, x])
    assert isomorphic(mixed(f), f)


def test_only_contractions_of_a_task_are_rounded():
    """Parameters, buffers, state, norms, softmax and the loss are float32 in every function."""
    N, T, D, C = (NdArrayType(shape) for shape in [(2,), (5,), (8,), (3,)])
    image = NdArrayType((2, 5, 8))
    model = (
        layers.lstm(N + T, D, D)
        >> layers.transformer_block(N + T, D, 2)
        >> layers.checkpointed(layers.dense(N + T, D, D, layers.gelu) >> layers.softmax(obj(N + T + D)))
        >> layers.conv(image, 4, 3, padding=1)
        >> layers.batch_norm(NdArrayType((2, 4, 8)))
        >> layers.linear(NdArrayType((2, 4)), D, C)
    )
    labels = (NdArrayType((2, 4), Dtype.int64),)
    task = Task(mixed(model), sgd(0.1, momentum=0.9), losses.cross_entropy, "task", labels)
    slots = (*task.parameters, *task.state, *task.buffers)
    assert {slot.type.dtype for slot in slots} == {Dtype.float32, Dtype.int64}
    for name in ("predict", "rev", "step"):
        found = list(applied(task.term(name)))
        rounded = [op for op, operands, results in found if BF16 in {*operands, *results}]
        # Loops of the reverse stack operands of contractions.
        assert all(op.contracts or op.structural or isinstance(op, (Cast, HigherOrder)) for op in rounded)
        assert {"Contract", "Conv", "Attention"} <= {type(op).__name__ for op in rounded}
        assert all({*o, *r} == {BF16} for op, o, r in found if op.contracts)
    assert not any(BF16 in {*o, *r} for _, o, r in applied(task.term("update")))


def test_identities_are_mapped_to_identities():
    f = identity(NdArrayType((2, 3)), NdArrayType((3,)))
    assert isomorphic(mixed(f), f)
