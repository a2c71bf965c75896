"""The type checker finds what an operation refuses, where it is, and which sizes are valid."""

from __future__ import annotations

import pytest
from hypothesis import given
from typer.testing import CliRunner

from catgrad import Dim, Dtype, NdArrayType, build, layers, ops
from catgrad.cli.terms import app
from catgrad.errors import ShapeError, TermError, TypeMismatch
from catgrad.ops.arithmetic import Add
from catgrad.terms.check import Range, check
from catgrad.terms.draw import dot
from catgrad.terms.structural import Assume, Label
from catgrad.terms.term import Edge, assemble
from tests.models import TASKS
from tests.strategies import float_terms

X, Y, Z = NdArrayType((3,)), NdArrayType((4,)), NdArrayType((3,), Dtype.float64)
N, T = Dim("n"), Dim("t")


@given(float_terms())
def test_inferred_types_are_those_of_the_wires(term):
    assert list(check(term).types) == list(term.H.w.table)


@pytest.mark.parametrize("name", TASKS)
def test_all_terms_of_a_task_are_typed(name):
    for kind in ("predict", "step"):
        assert check(TASKS[name]().term(kind)).ranges == {"batch": Range(0)}


def ill_typed(second=X, result=X):
    """Assemble the sum of two labelled wires, of types that need not agree."""
    labels = [Edge(Label(f"encoder.0.{name}"), (k,), (k + 2,)) for k, name in enumerate(("x", "w"))]
    return assemble([X, second, X, second, result], [*labels, Edge(Add(), (2, 3), (4,))], [0, 1], [4])


def test_an_error_shows_both_types_and_the_layer():
    with pytest.raises(ShapeError, match=r"f32\[3\], f32\[4\], in encoder\.0; "):
        check(ill_typed(second=Y))
    with pytest.raises(TypeMismatch, match=r"must give f32\[3\], but its wires are f64\[3\], in encoder\.0"):
        check(ill_typed(result=Z))
    assert check(ill_typed()).types == (X,) * 5


def test_loops_are_checked_inside():
    def looped(x):
        return ops.scan(lambda h, row: (ops.tanh(h) + row, h), ops.sum(x), x)[0]

    assert check(build(looped, [X])).ranges == {}


def test_an_error_shows_the_lines_of_the_users_code():
    def model(x):
        y = ops.exp(x)
        return y + layers.parameter("w", Y)

    line = model.__code__.co_firstlineno
    with pytest.raises(ShapeError) as caught:
        build(model, [X])
    assert f"line {line + 2} of test_check.py on f32[3] of line {line + 1} of test_check.py" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("sizes", "ranges", "others"),
    [
        (((N, 2),), {"n": Range(2), "t": Range(0)}, 0),
        (((N * 3 - 1, 4),), {"n": Range(2), "t": Range(0)}, 0),
        (((10 - N, 4), (N, 1)), {"n": Range(1, 6), "t": Range(0)}, 0),
        (((10 - N * 4, 0),), {"n": Range(0, 2), "t": Range(0)}, 0),
        (((N * T, 5),), {"n": Range(0), "t": Range(0)}, 1),
        (((N - T, 1),), {"n": Range(0), "t": Range(0)}, 1),
    ],
)
def test_requirements_give_ranges(sizes, ranges, others):
    found = check(build(lambda x: Assume(1, sizes)(x), [NdArrayType((N, T))]))
    assert (found.ranges, len(found.requirements)) == (ranges, others)


def test_an_operation_on_elements_of_an_axis_needs_one():
    assert check(build(lambda x: ops.max(x, 0), [NdArrayType((N,))])).ranges == {"n": Range(1)}


def test_sizes_that_no_value_meets_are_refused():
    with pytest.raises(ShapeError, match="n must have a value"):
        check(build(lambda x: Assume(1, ((N, 5), (3 - N, 0)))(x), [NdArrayType((N,))]))


def test_a_cycle_is_refused():
    with pytest.raises(TermError, match="acyclic"):
        check(assemble([X], [Edge(ops.exp, (0,), (0,))], [], []))


def test_diagrams_show_ranges_and_errors():
    assert "n: 1 or more" in dot(build(lambda x: ops.max(x, 0), [NdArrayType((N,))])).source
    assert "encoder.0" in dot(ill_typed(result=Z)).source


def test_the_command_lists_terms_and_sizes():
    result = CliRunner().invoke(app, ["check", "tests.models:mlp"])
    assert result.exit_code == 0
    assert "batch: 0 or more" in result.stdout
