"""Tracing of functions on variables to terms, and common mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from open_hypergraphs import FiniteFunction, OpenHypergraph

from catgrad import NdArrayType, build, layers, ops
from catgrad.dims import Dim
from catgrad.errors import OptionError, ShapeError, TermError, TypeMismatch
from catgrad.functors import factor_parameters, reverse, reverse_derivative
from catgrad.programs.program import evaluate, lower
from catgrad.terms.op import scope
from catgrad.terms.state import Parameter
from catgrad.terms.structural import Copy, Discard, Label
from catgrad.terms.term import NO_OPS, Edge, Term, assemble, edges, identity, obj, singleton

S = NdArrayType(())
V = NdArrayType((3,))


def counts(term):
    names = [type(edge.op).__name__ for edge in edges(term)]
    return {name: names.count(name) for name in sorted(set(names))}


def test_copies_and_discards_become_explicit():
    term = build(lambda x, y: x * x * x, [V, V])
    assert counts(term) == {"Copy": 2, "Discard": 1, "Multiply": 2}


def test_operators_apply_operations():
    term = build(lambda x, y: (-(x + y) * 2 - 1 / y, x > y, x == 0), [V, V])
    x, y = np.float32([1, 2, 0]), np.float32([2, 1, 4])
    a, b, c = evaluate(term, x, y)
    np.testing.assert_array_equal(a, -(x + y) * 2 - 1 / y)
    assert b.tolist() == [False, True, False]
    assert c.tolist() == [False, False, True]


def test_a_term_is_a_function_on_variables():
    square = build(lambda x: x * x, [V])
    term = build(lambda x: square(square(x)), [V])
    assert evaluate(term, np.float32([1, 2, 3]))[0].tolist() == [1, 16, 81]
    with pytest.raises(TypeMismatch, match="must get arguments of these types"):
        build(square, [S])


def test_building_is_linear_in_the_number_of_operations():
    """Operations are counted, not time: one edge for each, plus one copy for each further use."""

    def chain(x):
        for _ in range(1000):
            x = x + x
        return x

    assert counts(build(chain, [V])) == {"Add": 1000, "Copy": 1000}


@pytest.mark.parametrize(
    "function",
    [lambda x: x if x > 0 else -x, lambda x: x and x, lambda x: 3.0, lambda x: "x", lambda x: [x, None]],
)
def test_bodies_that_are_no_functions_on_variables_are_refused(function):
    with pytest.raises((TermError, TypeError)):
        build(function, [V])


def test_variables_of_another_term_are_refused():
    kept = []
    build(lambda x: kept.append(x) or x, [V])
    with pytest.raises(TermError, match="variables of the function being built"):
        build(lambda x: x + kept[0], [V])


def test_numpy_arrays_as_operands_are_refused():
    for function in (lambda x: x + np.ones(3), lambda x: np.ones(3) + x):
        with pytest.raises(TermError, match=r"an array float64\[3\]; write ops.array"):
            build(function, [V])


def test_errors_name_the_layer():
    def model(x):
        with scope("encoder"), scope("0"):
            return x @ layers.parameter("weight", NdArrayType((4, 5)))

    with pytest.raises(ShapeError, match=r"^Contract: axes .* in encoder\.0, line \d+ .*; transpose"):
        build(model, [NdArrayType((2, 3))])


def spider_square() -> Term:
    """Build x² with a Frobenius spider for the copy: both operands on one wire."""
    edge = Edge(ops.multiply, (0, 0), (1,))
    return assemble([S, S], [edge], [0], [1])


def test_a_spider_is_refused_in_favour_of_copy():
    """The derivative R[x²](3) would be 3 with a spider; with Copy it is 6."""
    with pytest.raises(
        TermError, match=r"wire 0 of type f32\[\] is produced by input 0 and consumed by argument 0"
    ):
        reverse(spider_square())
    with pytest.raises(TermError):
        lower(spider_square())
    square = build(lambda x: x * x, [S])
    assert evaluate(reverse_derivative(square), np.float32(3), np.float32(1)) == [6]


def test_library_spiders_are_refused():
    both = FiniteFunction(1, np.array([0, 0], dtype=FiniteFunction.Dtype))
    one = FiniteFunction(1, np.array([0], dtype=FiniteFunction.Dtype))
    copy_spider = Term.spider(one, both, obj(S), NO_OPS)
    assert isinstance(copy_spider, OpenHypergraph)
    with pytest.raises(TermError, match="consumed by argument 0 of Multiply.* and argument 1"):
        reverse(copy_spider >> singleton(ops.multiply, S, S))


def test_a_dangling_wire_is_refused():
    dangling = assemble([S, S], [Edge(ops.exp, (0,), (1,))], [0], [])
    with pytest.raises(TermError, match="wire 1 .* is produced by result 0 of Exp.* and consumed by nothing"):
        lower(dangling)
    unwritten = assemble([S, S], [Edge(ops.exp, (0,), (1,))], [], [1])
    with pytest.raises(TermError, match="wire 0 .* is produced by nothing"):
        reverse(unwritten)


def test_a_merge_of_two_producers_is_refused():
    merged = assemble([S, S, S], [Edge(ops.exp, (0,), (2,)), Edge(ops.log, (1,), (2,))], [0, 1], [2])
    with pytest.raises(TermError, match="is produced by result 0 of Exp.* and result 0 of Log"):
        lower(merged)


def test_a_cycle_is_refused():
    cycle = assemble([S, S], [Edge(ops.exp, (0,), (1,)), Edge(ops.log, (1,), (0,))], [], [])
    with pytest.raises(TermError, match="must be acyclic"):
        lower(cycle)


def test_parameters_are_factored_in_order_with_distinct_names():
    V5 = NdArrayType((5,))
    model = layers.dense(S, V, V5) >> layers.dense(S, V5, V, name="out") >> layers.dense(S, V, V)
    slots, factored = factor_parameters(model)
    assert [slot.name for slot in slots] == [
        "dense_0.weight",
        "dense_0.bias",
        "out.weight",
        "out.bias",
        "dense_1.weight",
        "dense_1.bias",
    ]
    assert not any(isinstance(edge.op, Parameter) for edge in edges(factored))
    assert list(factored.source.table) == [slot.type for slot in slots] + [V]


def test_names_follow_scopes_and_sequence():
    model = layers.named("encoder", layers.sequential(layers.linear(S, V, V), layers.dense(S, V, V)))
    assert [slot.name for slot in factor_parameters(model)[0]] == [
        "encoder.0.linear.weight",
        "encoder.1.dense.weight",
        "encoder.1.dense.bias",
    ]


@pytest.mark.parametrize("name", ["", "a b", 'x"; import os', "a\nb", "weight.", ".weight", "ß√"])
def test_names_that_could_inject_source_are_refused(name):
    with pytest.raises(OptionError, match="letters, digits and underscores"):
        Parameter(name, V)
    if name != ".weight":  # a label may be a part of a layer that is not known yet
        with pytest.raises(OptionError):
            Label(name)


def test_a_parameter_must_be_factored_out_before_use():
    model = layers.linear(S, V, V)
    with pytest.raises(TermError, match="apply factor_parameters and"):
        reverse(model)
    with pytest.raises(TermError, match=r"'linear\.weight' is still inside"):
        evaluate(model, np.ones(3, np.float32))


def test_structural_types():
    assert Copy().outputs(V) == (V, V)
    assert Discard(V).outputs(V) == ()
    with pytest.raises(ShapeError):
        Discard(V).outputs(S)
    assert identity(V).H.X == 0


def test_a_term_runs_on_arrays():
    term = build(lambda x, y: (x + y, x * y), [NdArrayType((Dim("n"),))] * 2)
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    assert [z.tolist() for z in term(x, y)] == [[5, 7, 9], [4, 10, 18]]
    with pytest.raises(ShapeError, match="there must be 2 arrays"):
        term(x)
