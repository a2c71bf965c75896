"""Regressions: defects that reviews found, each with a minimal program."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from catgrad import CatgradError, Dim, Dtype, NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.errors import DtypeError, OptionError, ShapeError, TermError, TypeMismatch
from catgrad.functors import factor_parameters, reverse
from catgrad.initialisers import Filled, Normal, Uniform
from catgrad.learn.optimisers import Optimiser
from catgrad.programs.passes import optimise
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.op import OPS, Op
from catgrad.terms.structural import Constant
from catgrad.terms.term import Edge, assemble, compose, identity
from catgrad.testing import run_on
from tests.targets import emit

N = Dim("n")
BOOL, F3_BOOL = NdArrayType((2, 3), Dtype.bool), NdArrayType((3,), Dtype.bool)


def F(*shape):
    return NdArrayType(shape)


def on_numpy(term, *arrays):
    return run_on(get_backend("numpy"), term, *arrays)


def test_copies_of_copies_keep_their_shape():
    """The pass that leaves broadcasts to operators, run twice, removed the last full operand."""
    term = build(lambda s, v: ops.sum(ops.broadcast(s, (2, 3)) + ops.broadcast(v, (2, 3))), [F(), F(3)])
    assert on_numpy(term, np.float32(1), np.float32([1, 2, 3])) == [18]


@pytest.mark.parametrize("dtype", [Dtype.float32, Dtype.float64, Dtype.int32])
def test_a_choice_between_constants_keeps_its_dtype(dtype):
    """A condition has the full shape, but does not determine the dtype of literals."""
    x = NdArrayType((3,), dtype)
    term = build(lambda x: ops.select(x > 0, Constant(x.type, 1)(), Constant(x.type, 2)()), [x])
    [result] = on_numpy(term, np.array([1, 0, -1], dtype.numpy))
    assert result.dtype == dtype.numpy
    assert result.tolist() == [1, 2, 2]


@pytest.mark.parametrize("number", [100000, 70000, 2**24, 3.4028235e38, 1e-40, -0.0, 1, 1000])
def test_a_literal_does_not_widen_an_array(number):
    x = np.float32([1, -1])
    [result] = on_numpy(build(lambda x: x * number, [F(2)]), x)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, x * np.float32(number))
    assert np.signbit(result).tolist() == np.signbit(x * np.float32(number)).tolist()


def test_training_stays_in_float32():
    A, B, C = NdArrayType((Dim("batch"),)), F(4), F(3)
    model = layers.linear(A, B, C) >> layers.relu([A + C])
    learner = emit(Task(model, sgd(0.1), lambda y_hat, y: ops.mean(y_hat))).load()().learner()
    learner.step(np.ones((2, 4)), np.ones((2, 3)))
    assert learner.parameters["linear.weight"].dtype == np.float32


def test_a_dead_branch_does_not_poison_the_gradient():
    """The logarithm at 0 has an infinite slope, and a cotangent of 0 if its value is unused."""
    term = build(lambda x: (ops.log(x), x * 2)[1], [F(2)])
    assert evaluate(reverse(term), np.float32([0, 1]), np.float32([1, 1]))[1].tolist() == [2, 2]


@pytest.mark.parametrize(
    "function",
    [
        lambda c, x: ops.select(ops.transpose(ops.transpose(c)), x, -x),
        lambda c, x: ops.select(ops.reshape(ops.reshape(c, 6), 2, 3), x, -x),
        lambda c, x: ops.select(
            ops.broadcast(c, (4, 2, 3)), ops.broadcast(x, (4, 2, 3)), ops.broadcast(-x, (4, 2, 3))
        ),
    ],
)
def test_booleans_pass_data_movement(function):
    term = reverse(build(function, [BOOL, F(2, 3)]))
    c, x = np.ones((2, 3), bool), np.ones((2, 3), np.float32)
    dy = np.ones(term.source.table[-1].shape, np.float32)
    assert np.all(evaluate(term, c, x, dy)[-1] >= 1)


def test_scalars_are_evaluated_in_their_dtype():
    for op in (ops.sigmoid, ops.relu):
        assert evaluate(build(op, [F()]), np.float32(1))[0].dtype == np.float32


def test_the_learner_reads_parameters_by_name():
    A, B = NdArrayType((Dim("batch"),)), F(3)
    learner = emit(Task(layers.linear(A, B, B) >> layers.linear(A, B, B), sgd(0.1), mse)).load()().learner()
    x = np.random.default_rng(0).normal(size=(5, 3))
    before = learner.predict(x)
    learner.parameters = dict(reversed(list(learner.parameters.items())))
    np.testing.assert_array_equal(learner.predict(x), before)
    with pytest.raises(TypeError, match=r"linear_0\.weight must not be deleted"):
        del learner.parameters["linear_0.weight"]


def test_a_model_without_parameters():
    learner = emit(Task(build(lambda x: 2 * x, [F(3)]), sgd(0.1), mse)).load()().learner()
    assert learner.step(np.ones(3), np.ones(3)) == 1
    assert learner.predict([1, 2, 3]).tolist() == [2, 4, 6]


def test_layers_of_one_name_keep_their_parameters_together():
    A, B = F(), F(3)
    fc = layers.linear(A, B, B, name="fc") >> layers.dense(A, B, B, name="fc")
    assert [p.name for p in factor_parameters(fc)[0]] == ["fc_0.weight", "fc_1.weight", "fc_1.bias"]
    clash = layers.dense(A, B, B) >> layers.dense(A, B, B) >> layers.dense(A, B, B, name="dense_0")
    names = [p.name for p in factor_parameters(clash)[0]]
    assert len(set(names)) == 6
    assert "dense_0.weight" in names


def test_a_label_does_not_rename_a_parameter():
    term = build(lambda x: layers.label("w", x * layers.parameter("w", F(3))), [F(3)])
    assert [p.name for p in factor_parameters(term)[0]] == ["w"]


@pytest.mark.parametrize(
    ("parameter", "error", "message"),
    [
        (lambda x: x * layers.parameter("w", F(N)), ShapeError, "the shape of a parameter must be known"),
        (lambda x: ops.select(layers.parameter("w", F3_BOOL), x, x), DtypeError, "w is bool"),
        (lambda x: ops.sum(ops.broadcast(x, (Dim("m"), N)), 0), ShapeError, "'m' is none in"),
    ],
)
def test_models_that_cannot_be_compiled_are_refused(parameter, error, message):
    types = [NdArrayType((3,)) if "bool" in message else F(N)]
    with pytest.raises(error, match=message):
        emit(Task(build(parameter, types), sgd(0.1), mse))


@pytest.mark.parametrize(
    "make", [lambda: Filled(np.nan), lambda: Filled(np.inf), lambda: Uniform(2, 1), lambda: Normal(0, -1)]
)
def test_initialisers_must_be_possible(make):
    with pytest.raises(OptionError, match="an initialiser must have"):
        make()


REFUSED = {
    "bool minus bool": lambda x, c: c - c,
    "minus bool": lambda x, c: -c,
    "an axis beyond the rank": lambda x, c: ops.permute(x, 0, 3),
    "a fractional size": lambda x, c: ops.broadcast(x, (2.0, 2, 3)),
    "a fractional axis": lambda x, c: ops.sum(x, (0.0,)),
    "one axis twice": lambda x, c: ops.sum(x, (0, -2)),
    "a word for an axis": lambda x, c: ops.sum(x, "a"),
    "a number times a matrix": lambda x, c: ops.sum(x) @ x,
    "a number too large": lambda x, c: x + 1e300,
    "a number far too large": lambda x, c: x + 10**400,
    "no number": lambda x, c: Constant(x.type, None)(),
    "numbers for variables": lambda x, c: ops.exp(3.0),
    "nothing built": lambda x, c: 3.0,
    "an unknown dtype": lambda x, c: NdArrayType((2,), "float32"),
    "an unknown initialiser": lambda x, c: layers.parameter("w", x.type, "zeros"),
    "a name that is none": lambda x, c: layers.parameter("", x.type),
    "half an axis": lambda x, c: ops.contract(x, x, 1.5),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_input_raises_typed_errors(case):
    with pytest.raises(CatgradError):
        build(REFUSED[case], [F(2, 3), BOOL])


def test_numpy_scalars_are_numbers():
    for one in (np.float32(1), np.int64(1), np.float64(1)):
        term = build(lambda x, one=one: ops.sum(x + one, np.int64(0)), [F(2, 3)])
        assert evaluate(term, np.zeros((2, 3), np.float32))[0].tolist() == [2, 2, 2]
    assert sgd(np.float32(0.5)) is not None


def test_a_finished_term_takes_no_more_operations():
    kept = []
    build(lambda x: kept.append(x) or x, [F(2)])
    for act in (lambda: ops.exp(kept[0]), lambda: kept[0] + 1):
        with pytest.raises(TermError):
            act()


def test_operations_without_arguments_need_a_term():
    with pytest.raises(TermError, match="nothing is being built"):
        Constant(F(2), 1)()


def test_ill_typed_terms_are_refused():
    wrong = assemble([F(), F(2, 3)], [Edge(ops.exp, (0,), (1,))], [0], [1])
    with pytest.raises(TypeMismatch, match=r"must write wires of types f32\[\], but they are f32\[2,3\]"):
        lower(wrong)
    few = assemble([F(), F()], [Edge(ops.multiply, (0,), (1,))], [0], [1])
    with pytest.raises(TypeMismatch, match="there must be 2 arguments"):
        reverse(few)
    with pytest.raises(TypeError):
        identity(F()) >> 3
    with pytest.raises(CatgradError):
        compose()


@pytest.mark.parametrize(
    "loss", [lambda y_hat, y: 0.0, lambda y_hat, y: None, lambda y_hat: y_hat, lambda y_hat, y: y]
)
def test_a_loss_must_be_a_number_of_the_term(loss):
    with pytest.raises(CatgradError, match="loss"):
        emit(Task(layers.linear(F(2), F(3), F(3)), sgd(0.1), loss))


def test_an_optimiser_must_keep_types():
    def shrink(run, p, dp):
        return (ops.sum(p),)

    with pytest.raises(TypeMismatch, match="the optimiser shrink must return"):
        emit(Task(layers.linear(F(2), F(3), F(3)), Optimiser("shrink", shrink), mse))


@pytest.mark.parametrize("task", [lambda m: Task(3, sgd(0.1), mse), lambda m: Task(m, mse, mse)])
def test_arguments_of_a_task_are_validated(task):
    with pytest.raises(OptionError, match="a task must get"):
        task(layers.linear(F(2), F(3), F(3)))


def test_errors_can_be_pickled():
    with pytest.raises(CatgradError) as caught:
        identity(F()) >> identity(F(2))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (caught.type, str(caught.value))


def test_two_operations_of_one_name_are_refused():
    """Macros are looked up by name: a plug-in's Transpose must not be printed as NumPy's `.T`."""
    get_backend("numpy")
    for name in ("Add", "Transpose"):
        with pytest.raises(OptionError, match="a unique name"):
            type(name, (Op,), {"__module__": "elsewhere", "__qualname__": name, "ref": lambda self, x: x})


def test_an_operation_may_be_declared_again_where_it_was():
    for _ in range(2):

        class Again(Op):
            def ref(self, x):
                return x

    assert OPS.pop("Again") is Again


def test_labels_of_contractions_are_arbitrary():
    from catgrad.ops.contract import Contract

    assert Contract((70, 5), (5, -1), (70, -1)) == Contract((0, 1), (1, 2), (0, 2))


def test_passes_that_undo_each_other_are_reported():
    from dataclasses import replace

    with pytest.raises(CatgradError, match="the passes must reach a fixed point"):
        optimise(lower(identity(F())), [replace])


def test_function_names_must_be_safe():
    with pytest.raises(OptionError):
        lower(identity(F()), "f():\n    import os  #")


def test_python_words_as_dimensions():
    for name in ("lambda", "np", "x", "PARAMETERS", "STATE", "Checked", "print"):
        A = NdArrayType((Dim(name),))
        learner = emit(Task(layers.dense(A, F(3), F(2)), sgd(0.1), mse)).load()().learner()
        assert learner.step(np.ones((4, 3)), np.ones((4, 2))) > 0


def test_emitted_sources_are_released_with_their_module():
    import gc
    import linecache

    program = Program("forgotten", (lower(identity(F()), "f"),))
    get_backend("numpy").emit(program).load()
    gc.collect()
    assert not [name for name in linecache.cache if "forgotten" in name]
