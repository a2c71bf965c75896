"""Terms form a symmetric monoidal category, and copy and discard are comonoids in it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_hypergraphs import FiniteFunction

from catgrad.errors import OptionError, ShapeError
from catgrad.programs.program import evaluate
from catgrad.terms.components import connected_components
from catgrad.terms.term import compose, copy, discard, identity, permutation, singleton, tensor
from catgrad.testing import isomorphic
from tests.strategies import MATRIX, SQUARE, TYPES, VECTOR, integer_terms, integers_for

objects = st.lists(st.sampled_from(TYPES), max_size=3).map(tuple)


@st.composite
def composable(draw, length: int):
    terms = [draw(integer_terms())]
    for _ in range(length - 1):
        terms.append(draw(integer_terms(sources=list(terms[-1].target.table))))
    return terms


def twist(a, b):
    n, m = len(a), len(b)
    return permutation([*a, *b], [*range(n, n + m), *range(n)])


@given(composable(3))
def test_composition_is_associative(terms):
    f, g, h = terms
    assert isomorphic((f >> g) >> h, f >> (g >> h))


@given(composable(3))
def test_compose_of_many_is_composition_one_by_one(terms):
    f, g, h = terms
    assert isomorphic(compose(f, g, h), f >> g >> h)


@given(integer_terms())
def test_identities_are_units_of_composition(f):
    assert isomorphic(identity(*f.source.table) >> f, f)
    assert isomorphic(f >> identity(*f.target.table), f)


@given(integer_terms(), integer_terms(), integer_terms())
def test_tensor_is_associative_with_unit(f, g, h):
    assert isomorphic((f @ g) @ h, f @ (g @ h))
    assert isomorphic(f @ identity(), f)
    assert isomorphic(tensor(f, g, h), f @ g @ h)


@given(composable(2), composable(2))
def test_interchange(one, other):
    (f, g), (p, q) = one, other
    assert isomorphic((f @ p) >> (g @ q), (f >> g) @ (p >> q))


@given(integer_terms(), integer_terms())
def test_twist_is_natural(f, g):
    a, b, c, d = (tuple(o.table) for o in (f.source, g.source, f.target, g.target))
    assert isomorphic((f @ g) >> twist(c, d), twist(a, b) >> (g @ f))


@given(objects, objects, objects)
def test_twist_is_a_symmetry(a, b, c):
    assert isomorphic(twist(a, b) >> twist(b, a), identity(*a, *b))
    assert isomorphic(twist(a, b + c), (twist(a, b) @ identity(*c)) >> (identity(*b) @ twist(a, c)))


@given(objects)
def test_permutations_compose(a):
    order = list(reversed(range(len(a))))
    there = permutation(a, order)
    assert isomorphic(there >> permutation(tuple(there.target.table), order), identity(*a))


@given(integer_terms(), st.integers(0, 99))
def test_copy_and_discard_are_natural(f, seed):
    """Δ and ! are natural for every total deterministic map: the category is cartesian."""
    x = integers_for(f, seed)
    types = tuple(f.target.table)
    twice = evaluate(f >> copy(*types), *x)
    assert all(np.array_equal(a, b) for a, b in zip(twice, evaluate(f, *x) * 2, strict=True))
    assert evaluate(f >> discard(*types), *x) == []


@given(st.sampled_from(TYPES), st.integers(0, 99))
def test_copy_is_a_comonoid(a, seed):
    x = integers_for(identity(a), seed)
    left = copy(a) >> (copy(a) @ identity(a))
    right = copy(a) >> (identity(a) @ copy(a))
    assert all(np.array_equal(p, q) for p, q in zip(evaluate(left, *x), evaluate(right, *x), strict=True))
    assert np.array_equal(evaluate(copy(a) >> (discard(a) @ identity(a)), *x)[0], x[0])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))), st.integers(10, 15))
def test_components_are_those_of_the_sparse_matrix(pairs, count):
    """The order of components must agree too, because it determines names in emitted programs."""
    left, right = (np.array([pair[k] for pair in pairs], FiniteFunction.Dtype) for k in (0, 1))
    wanted = FiniteFunction(count, left).coequalizer(FiniteFunction(count, right))
    component, number = connected_components(left, right, count)
    assert number == wanted.target
    assert component.dtype == wanted.table.dtype
    np.testing.assert_array_equal(component, wanted.table)


def test_isomorphic_distinguishes_diagrams():
    from catgrad.ops import subtract

    f = singleton(subtract, VECTOR, VECTOR)
    assert not isomorphic(f, permutation([VECTOR, VECTOR], [1, 0]) >> f)
    assert not isomorphic(identity(VECTOR, VECTOR), permutation([VECTOR, VECTOR], [1, 0]))
    assert not isomorphic(identity(VECTOR), identity(MATRIX))


def test_composing_at_different_objects_is_refused():
    with pytest.raises(
        ShapeError, match=r"the target of f must be the source of g, but they are i32\[3\] and i32\[2,3\]"
    ):
        identity(VECTOR) >> identity(MATRIX)
    with pytest.raises(ShapeError):
        identity(SQUARE) >> identity(SQUARE, SQUARE)


def test_a_permutation_must_name_every_wire_once():
    with pytest.raises(OptionError, match="each of 0 … 1 once"):
        permutation([VECTOR, VECTOR], [0, 0])
