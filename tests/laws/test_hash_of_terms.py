"""The hash of a term is a complete invariant: equal for isomorphic terms, and for no others."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, layers, ops
from catgrad.errors import CatgradError, TermError
from catgrad.initialisers import Normal, Stored
from catgrad.terms.canonical import digest
from catgrad.terms.columns import read_columns, write_columns
from catgrad.terms.op import OPS, Op
from catgrad.terms.state import Parameter
from catgrad.terms.structural import Constant, Copy, Discard, Label
from catgrad.terms.term import Edge, assemble, edges, singleton
from catgrad.testing import isomorphic
from tests.strategies import float_terms, integer_terms

X = NdArrayType((3,))
EXAMPLES = [(op, types) for name in sorted(OPS) for op, types in OPS[name].examples()]


def renumbered(term, wires, order):
    """Number the wires and the operations of a term anew."""
    place = dict(enumerate(wires))
    types = [None] * len(wires)
    for wire, type in enumerate(term.H.w.table):
        types[place[wire]] = type
    every = edges(term)
    changed = [
        Edge(
            every[k].op, tuple(place[w] for w in every[k].sources), tuple(place[w] for w in every[k].targets)
        )
        for k in order
    ]
    ends = ([place[w] for w in side.table.tolist()] for side in (term.s, term.t))
    return assemble(types, changed, *ends)


@given(st.one_of(float_terms(), integer_terms()), st.randoms(use_true_random=False))
def test_numbers_of_wires_and_operations_do_not_matter(term, random):
    wires, order = list(range(term.H.W)), list(range(term.H.X))
    random.shuffle(wires)
    random.shuffle(order)
    assert digest(renumbered(term, wires, order)) == digest(term)


@given(integer_terms(size=3), integer_terms(size=3))
def test_the_hash_is_equal_only_for_isomorphic_terms(f, g):
    assert (digest(f) == digest(g)) == isomorphic(f, g)


@given(st.one_of(float_terms(), integer_terms()))
def test_columns_are_those_of_the_term_that_is_read_from_them(term):
    data = json.loads(json.dumps(write_columns(term), allow_nan=False))
    assert write_columns(read_columns(data)) == data
    assert digest(read_columns(data)) == digest(term)


@pytest.mark.parametrize(("op", "types"), EXAMPLES, ids=lambda value: str(value)[:40])
def test_every_operation_is_read_as_it_was_written(op, types):
    term = singleton(op, *types)
    read = read_columns(json.loads(json.dumps(write_columns(term), allow_nan=False)))
    assert edges(read)[0].op == op
    assert digest(read) == digest(term)


def leaves(data, path=()):
    """List the paths of all numbers, texts and truth values in JSON."""
    if isinstance(data, (dict, list)):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from leaves(value, (*path, key))
    elif data is not None:
        yield path


def changed(data, path):
    """Change the value at a path of JSON."""
    if path:
        copied = dict(data) if isinstance(data, dict) else list(data)
        copied[path[0]] = changed(data[path[0]], path[1:])
        return copied
    if isinstance(data, bool):
        return not data
    return data + 1 if isinstance(data, (int, float)) else f"{data}_"


@pytest.mark.parametrize(
    ("op", "types"), [e for e in EXAMPLES if not isinstance(e[0], Label)], ids=lambda value: str(value)[:40]
)
def test_a_change_of_any_attribute_changes_the_hash(op, types):
    data = write_columns(singleton(op, *types))
    before = digest(read_columns(data))
    for path in leaves(data["operations"]):
        other = {**data, "operations": changed(data["operations"], path)}
        try:
            term = read_columns(other)
        except CatgradError:
            continue  # the operation refuses it
        # A float beyond the digits of the dtype is the same number.
        assert digest(term) != before or edges(term)[0].op == op, path


def test_initial_values_are_attributes():
    array = np.arange(3, dtype=np.float32)
    values = [Normal(), Normal(0, 2), Stored(array), Stored(array + 1), Stored(array, Normal())]
    terms = [singleton(Parameter("w", X, value)) for value in values]
    assert len(set(map(digest, terms))) == len(terms)
    assert digest(singleton(Parameter("w", X, Stored(array.copy())))) == digest(terms[2])
    assert digest(singleton(Parameter("v", X, Normal()))) != digest(terms[0])


def test_symbols_and_dtypes_are_attributes():
    types = [X, NdArrayType((Dim("n"),)), NdArrayType((Dim("m"),)), NdArrayType((3,), Dtype.float64)]
    assert len({digest(build(lambda x: ops.exp(x), [type])) for type in types}) == len(types)


def test_the_order_of_ports_matters():
    assert digest(build(lambda x, y: x - y, [X, X])) != digest(build(lambda x, y: y - x, [X, X]))


def test_a_shared_value_is_not_two_equal_ones():
    def shared(x):
        y = ops.exp(x)
        return y, y

    assert digest(build(shared, [X])) != digest(build(lambda x: (ops.exp(x), ops.exp(x)), [X]))


def test_labels_are_for_readers():
    plain = build(lambda x: ops.exp(x), [X])
    labelled = build(lambda x: Label("b")(ops.exp(Label("a.c")(Label("a")(x)))), [X])
    assert digest(labelled) == digest(plain)
    assert digest(build(lambda x: Label("x")(x), [X])) == digest(build(lambda x: x, [X]))


def test_constants_hash_by_their_digits():
    values = [0.0, -0.0, 1.0, float("nan"), float("inf")]
    assert len({digest(singleton(Constant(X, value))) for value in values}) == len(values)
    assert digest(singleton(Constant(X, 1))) == digest(singleton(Constant(X, 1.0)))


def closed(*chains):
    """Assemble components without a boundary: constants, each copied and discarded."""
    types, every = [], []
    for value, labelled in chains:
        wire = len(types)
        types += [X, X, X]
        every.append(Edge(Constant(X, value), (), (wire,)))
        every.append(Edge(Copy(), (wire,), (wire + 1, wire + 2)))
        ends = [wire + 1, wire + 2]
        every += [Edge(Discard(X), (end,), ()) for end in (ends[::-1] if labelled else ends)]
    return assemble(types, every, [], [])


def test_components_without_a_boundary_have_no_order():
    assert digest(closed((1, False), (2, False), (1, True))) == digest(
        closed((2, True), (1, True), (1, False))
    )
    assert digest(closed((1, False), (2, False))) != digest(closed((1, False), (1, False)))
    assert digest(closed((1, False))) != digest(closed((1, False), (1, False)))


def test_the_hash_covers_terms_in_attributes():
    def looped(step):
        return build(lambda x: ops.scan(lambda h, v: (step(h) + v, h), ops.sum(x), x)[0], [X])

    assert digest(looped(ops.exp)) == digest(looped(ops.exp)) != digest(looped(ops.tanh))


def test_a_term_with_a_merged_or_cyclic_wire_has_no_hash():
    merged = assemble([X], [], [0], [0, 0])
    cyclic = assemble([X], [Edge(ops.exp, (0,), (0,))], [], [])
    for term in (merged, cyclic):
        with pytest.raises(TermError):
            digest(term)


def test_attributes_without_a_form_as_json_are_refused():
    class Applied(Op, register=False):
        function: Callable

        def type(self, x):
            return x

        def ref(self, x):
            return self.function(x)

    with pytest.raises(TermError, match="Applied must have types with a form as JSON"):
        digest(singleton(Applied(np.exp), X))


def test_the_hash_is_that_of_version_1():
    """A hash in an old file must still be that of the same term; a change of the form changes the version."""
    B, I, O = NdArrayType((Dim("n"),)), NdArrayType((4,)), NdArrayType((3,))
    model = layers.dense(B, I, O, activation=layers.tanh)
    assert digest(model) == "5e451e6791ddfb5e9cc61bed287148aa1e0857b7597c28e57ec31896105880c8"
