"""The axioms of reverse derivative categories, exactly, over the integers modulo 2³².

Source: Cockett, Cruttwell, Gallagher, Lemay, MacAdam, Plotkin, Pronk 2019, Reverse derivative
categories (arXiv:1910.07065), definition 13; RD.6 and RD.7 through the induced forward derivative.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import ops
from catgrad.functors import Expand, Reverse, reverse, reverse_derivative
from catgrad.programs.program import evaluate
from catgrad.terms.build import build
from catgrad.terms.op import OPS, Op
from catgrad.terms.structural import Constant, Copy, is_differentiable
from catgrad.terms.term import edges, identity, singleton
from catgrad.testing import check_derivative, draw_arrays, in_float64, isomorphic
from catgrad.types import Dtype, NdArrayType
from tests.strategies import MATRIX, VECTOR, integer_terms, integers_for

seeds = st.integers(0, 10**6)
to_vector = integer_terms(sources=[VECTOR, VECTOR], targets=[VECTOR])


def R(f, x, dy):
    return evaluate(reverse_derivative(f), *x, *dy)


def equal(xs, ys):
    return all(np.array_equal(x, y) for x, y in zip(xs, ys, strict=True))


def plus(xs, ys):
    return [x + y for x, y in zip(xs, ys, strict=True)]


def cotangents(f, seed):
    return integers_for(identity(*f.target.table), seed)


@given(to_vector, to_vector, seeds)
def test_rd1_additivity(f, g, seed):
    x, dy = integers_for(f, seed), cotangents(f, seed + 1)
    total = build(lambda a, b: f(a, b) + g(a, b), [VECTOR, VECTOR])
    zero = build(lambda a, b: Constant(VECTOR, 0)(), [VECTOR, VECTOR])
    assert equal(R(total, x, dy), plus(R(f, x, dy), R(g, x, dy)))
    assert not any(np.any(d) for d in R(zero, x, dy))


@given(integer_terms(), seeds)
def test_rd2_linearity_in_the_cotangent(f, seed):
    x, b, c = integers_for(f, seed), cotangents(f, seed + 1), cotangents(f, seed + 2)
    assert equal(R(f, x, plus(b, c)), plus(R(f, x, b), R(f, x, c)))
    assert not any(np.any(d) for d in R(f, x, [np.zeros_like(d) for d in b]))


@given(seeds)
def test_rd3_identities_and_projections(seed):
    x = integers_for(identity(VECTOR, MATRIX), seed)
    dy = integers_for(identity(VECTOR, MATRIX), seed + 1)
    assert equal(R(identity(VECTOR, MATRIX), x, dy), dy)
    first = build(lambda a, b: a, [VECTOR, MATRIX])
    assert equal(R(first, x, dy[:1]), [dy[0], np.zeros_like(dy[1])])


@given(to_vector, to_vector, seeds)
def test_rd4_pairing(f, g, seed):
    x, b, c = integers_for(f, seed), cotangents(f, seed + 1), cotangents(g, seed + 2)
    pair = build(lambda *a: [f(*a), g(*a)], [VECTOR, VECTOR])
    assert equal(R(pair, x, b + c), plus(R(f, x, b), R(g, x, c)))


@given(st.data(), seeds)
def test_rd5_chain_rule(data, seed):
    f = data.draw(integer_terms())
    g = data.draw(integer_terms(sources=list(f.target.table)))
    x, dz = integers_for(f, seed), cotangents(g, seed + 1)
    assert equal(R(f >> g, x, dz), R(f, x, R(g, evaluate(f, *x), dz)))


def D(f):
    """The forward derivative A ⊗ A → B that R induces: R[R[f]] at cotangent 0."""
    second = reverse_derivative(reverse_derivative(f))
    outputs, n = tuple(f.target.table), len(f.source)

    def forward(*arguments):
        zeros = [Constant(t, 0)() for t in outputs]
        results = second(*arguments[:n], *zeros, *arguments[n:])
        return results[n:]

    return build(forward, [*f.source.table, *f.source.table])


smooth = integer_terms(sources=[VECTOR], targets=[VECTOR], size=2)


@settings(max_examples=15)
@given(smooth, seeds)
def test_rd6_the_derivative_is_linear_in_its_vector(f, seed):
    a, d = integers_for(f, seed) + integers_for(f, seed + 1)
    zero = np.zeros_like(a)
    assert equal(evaluate(D(D(f)), a, zero, zero, d), evaluate(D(f), a, d))


@settings(max_examples=15)
@given(smooth, seeds)
def test_rd7_mixed_partials_are_symmetric(f, seed):
    a, b, c, d = (integers_for(f, seed + k)[0] for k in range(4))
    second = D(D(f))
    assert equal(evaluate(second, a, b, c, d), evaluate(second, a, c, b, d))


@pytest.mark.parametrize(("functor", "size"), [(Reverse(), 3), (Expand(), 4)], ids=["reverse", "expand"])
@given(data=st.data())
def test_functors(functor, size, data):
    """F(f ; g) = F(f) ; F(g) and F(f ⊗ g) = F(f) ⊗ F(g), as diagrams."""
    f = data.draw(integer_terms(size=size))
    g = data.draw(integer_terms(sources=list(f.target.table), size=size))
    assert isomorphic(functor(f >> g), functor(f) >> functor(g))
    assert isomorphic(functor(f @ g), functor(f) @ functor(g))


def examples(differentiable=False):
    return [
        pytest.param(example, types, id=f"{name}-{number}")
        for name, op in OPS.items()
        for number, (example, types) in enumerate(op.examples())
        if not differentiable or types
    ]


@pytest.mark.parametrize(("op", "types"), examples(differentiable=True))
def test_rev_agrees_with_central_differences(op, types):
    check_derivative(singleton(in_float64(op), *in_float64(types)), op.domain)


@pytest.mark.parametrize(("op", "types"), examples())
def test_rev_is_made_of_registered_operations(op, types):
    assert {type(edge.op) for edge in edges(reverse(singleton(op, *types)))} <= set(OPS.values())


def assert_close(op, found, wanted, tolerance):
    """Compare with the tolerance of sums, which may cancel; that of scalar maps is smaller."""
    scale = 0 if op.elementwise else np.max(np.abs(wanted), initial=0, where=np.isfinite(wanted))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale)


DEFINITIONS = [param for param in examples() if param.values[0].body is not None]


@pytest.mark.parametrize(("op", "types"), DEFINITIONS)
@pytest.mark.parametrize("extreme", [False, True], ids=["ordinary", "extreme"])
def test_the_body_of_a_definition_is_its_ref(op, types, extreme):
    op, types = in_float64(op), in_float64(types)
    arrays = draw_arrays(types, (-80.0, 80.0) if extreme else op.domain)
    term = singleton(op, *types)
    for a, b in zip(evaluate(Expand()(term), *arrays), evaluate(term, *arrays), strict=True):
        assert_close(op, a, b, 1e-13)


@pytest.mark.parametrize(("op", "types"), DEFINITIONS)
def test_the_rev_of_a_definition_is_the_reverse_of_its_body(op, types):
    op, types = in_float64(op), in_float64(types)
    term = singleton(op, *types)
    differentiable = [type for type in op.outputs(*types) if is_differentiable(type)]
    arrays = draw_arrays(types, op.domain) + draw_arrays(differentiable, seed=1)
    by_body = evaluate(reverse(Expand()(term)), *arrays)
    for a, b in zip(by_body, evaluate(reverse(term), *arrays), strict=True):
        assert_close(op, a, b, 1e-12)


@pytest.mark.parametrize(("op", "types"), examples())
def test_declared_facts_hold(op, types):
    """Check units, commutativity and involution, which the simplifier uses, against `ref`."""
    x = draw_arrays(types, op.domain)
    if op.left_unit is not None:
        assert np.array_equal(op.ref(np.full_like(x[1], op.left_unit), x[1]), x[1])
    if op.right_unit is not None:
        assert np.array_equal(op.ref(x[0], np.full_like(x[0], op.right_unit)), x[0])
    if op.commutative:
        assert np.array_equal(op.ref(*x), op.ref(*x[::-1]))
    if op.involution:
        assert np.array_equal(op.ref(op.ref(x[0])), x[0])
    if op.is_identity(*types):
        assert np.array_equal(op.ref(*x), x[0])
    if op.multilinear:
        for k in range(len(x)):
            twice = op.ref(*x[:k], 2 * x[k], *x[k + 1 :])
            np.testing.assert_allclose(twice, 2 * op.ref(*x), rtol=1e-6)


def test_an_operation_without_rev_gets_the_reverse_of_its_body():
    class Cube(Op, register=False):
        def type(self, x):
            return x

        def ref(self, x):
            return x**3

        def body(self, x):
            return x * x * x

    check_derivative(singleton(Cube(), NdArrayType((4,), Dtype.float64)))


def test_a_boolean_wire_has_no_cotangent():
    f = build(lambda x, y: ops.select(x > y, x, y), [NdArrayType((3,))] * 2)
    condition = NdArrayType((3,), Dtype.bool)
    assert len(reverse(singleton(Copy(), condition)).source) == 1
    x, y = np.float32([1, 2, 3]), np.float32([3, 2, 1])
    assert equal(R(f, [x, y], [np.float32([1, 1, 1])]), [[0, 0, 1], [1, 1, 0]])
