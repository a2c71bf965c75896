"""Functions to emit, by choice: those that are named are there, and what needs another says which to name."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from catgrad import (
    Dim,
    Functions,
    NdArrayType,
    Task,
    build,
    compile_model,
    emit,
    evaluate,
    fit,
    layers,
    mse,
    ops,
    sgd,
)
from catgrad.errors import NotEmitted, OptionError, TermError, UnknownName, UnsupportedOp
from catgrad.initialisers import Stored
from catgrad.learn.entries import terms_of
from catgrad.learn.layers.parts import parameter
from catgrad.learn.learner import Learner
from catgrad.learn.optimisers import adam
from catgrad.programs.ports import Kind
from catgrad.programs.signatures import SIGNATURES
from catgrad.targets import backends, get_backend
from catgrad.verification import verify
from tests.covering import some
from tests.targets import on

BATCH, X, Y = NdArrayType((Dim("batch"),)), NdArrayType((4,)), NdArrayType((3,))
ALL = sorted(backends())
RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(8, 4)).astype(np.float32), RNG.normal(size=(8, 3)).astype(np.float32)


def task(name="net"):
    """Return a model with a table of each kind."""
    hidden = layers.dense(BATCH, X, X) >> layers.dropout(BATCH + X, 0.5)
    return Task(hidden >> layers.linear(BATCH, X, Y), adam(0.1), mse, name)


def names(artifact):
    """Return the names of the functions, without initial values."""
    return [f.name for f in artifact.program.functions if not f.kind.is_initial]


def backend_of(target):
    """Return a target for batches of 8, which some must know."""
    backend = get_backend(target)
    return backend.configured(batch=8, predict_batch=8) if target == "scratch" else backend


@pytest.mark.parametrize("target", ALL)
def test_predict_and_step_are_emitted_by_default(target):
    backend = backend_of(target)
    own = list(backend.entries(backend.options, task()))
    assert names(emit(task(), backend)) == (["predict", "step"] if Kind.STEP in own else own)


@pytest.mark.parametrize("target", some(ALL, {*ALL} - {"wasm", "webgpu"}))
def test_each_function_is_emitted_alone(target):
    backend = backend_of(target)
    own = [*backend.entries(backend.options, task())]
    for kind in own if target != "torch-module" else ():
        assert names(emit(task(), backend, [kind])) == [kind]
    for name, kind in backend.variants.items():
        artifact = emit(task(), backend, [name])
        assert names(artifact) == [kind]
        assert artifact.program.variants == {name}
        assert ("step_many" in artifact.source) == (name == "step_many")
    assert "step_many" not in emit(task(), backend, own).source


@pytest.mark.covering
@on("c", "numpy", "torch", "javascript", "onnx")
@pytest.mark.parametrize(
    "functions", [["step", "loss"], ["grads", "update"], ["trained", "criterion", "rev_p"]]
)
def test_each_choice_agrees_with_the_reference(target, functions):
    artifact = emit(task(), target, functions)
    verify(artifact).check()
    assert hasattr(artifact.load()(), "learner") == ("step" in functions)


@pytest.mark.parametrize("target", ALL)
def test_stored_values_need_no_predict(target):
    """The README of a program with weights shows how to begin with them."""
    weight = build(lambda x: x @ parameter("weight", X + Y, Stored(np.ones((4, 3), np.float32))), [BATCH + X])
    if target != "torch-module":
        emit(Task(weight, sgd(0.1), mse, "held"), backend_of(target), ["step"])


def test_the_order_in_which_functions_are_named_does_not_matter():
    assert emit(task(), "c", ["step", "predict"]).files == emit(task(), "c").files
    assert emit(task(), "c", "predict").files == emit(task(), "c", ["predict"]).files


@pytest.mark.parametrize("target", ["c", "numpy", "onnx"])
def test_terms_need_those_functions_only_that_are_emitted(target):
    terms = terms_of(task(), [Kind.PREDICT, Kind.STEP])
    assert names(emit(terms, target)) == ["predict", "step"]
    with pytest.raises(TermError, match="net must have the term loss, but it has predict, step"):
        emit(terms, target, ["loss"])


def test_functions_of_several_terms_are_chosen_by_name():
    double, square = (build(f, [X]) for f in (lambda x: x + x, ops.square))
    functions = Functions({"double": double, "square": square}, "pair")
    assert names(emit(functions)) == ["double", "square"]
    assert names(emit(functions, "c", ["square"])) == ["square"]
    with pytest.raises(UnknownName, match="double, square, but it is 'sqare'; did you mean 'square'"):
        emit(functions, "c", ["sqare"])


@pytest.mark.parametrize(
    ("target", "functions", "error", "message"),
    [
        ("c", ["setp"], UnknownName, "for c must be one of predict, .* 'setp'; did you mean 'step'?"),
        ("numpy", ["step_many"], UnknownName, "for numpy must be one of"),
        ("scratch", ["grads"], UnknownName, "for scratch must be one of predict, step, but it is 'grads'"),
        ("torch-module", ["predict"], OptionError, "must have the functions trained, predict, criterion"),
        ("c", [], OptionError, "functions must name one at least"),
    ],
)
def test_names_are_checked(target, functions, error, message):
    with pytest.raises(error, match=message):
        emit(task(), target, functions)


@on("numpy", "torch", "c", "javascript", "onnx")
def test_a_learner_names_the_function_that_it_lacks(target):
    model = emit(task(), target).load()()
    learner = model.learner(0)
    assert isinstance(learner, Learner)
    says = r"must have the function {0} for this, but it has predict, step; .*\('predict', 'step', '{0}'\)"
    for each in (learner, copy.copy(learner)):
        with pytest.raises(NotEmitted, match=says.format("loss")):
            each.loss(*DATA)
        with pytest.raises(NotEmitted, match=says.format("grads")):
            each.grads(*DATA)
    with pytest.raises(NotEmitted, match=says.format("rev")):
        model.rev(*DATA)
    with pytest.raises(AttributeError, match="has no attribute 'forward'"):
        model.forward(*DATA)
    assert not hasattr(model, "loss")


@on("numpy", "c")
def test_fit_says_what_validation_needs_before_it_trains(target):
    learner = emit(task(), target, ["step"]).load()().learner(0)
    before = {name: np.array(x) for name, x in learner.parameters.items()}
    with pytest.raises(NotEmitted, match="'step', 'loss'"):
        fit(learner, DATA, epochs=1, validation=DATA, progress=False)
    with pytest.raises(NotEmitted, match="'step', 'loss'"):
        evaluate(learner, DATA)
    for name, array in before.items():
        np.testing.assert_array_equal(learner.parameters[name], array)
    able = emit(task(), target, ["step", "loss"]).load()().learner(0)
    assert fit(able, DATA, epochs=1, validation=DATA, progress=False).epochs[0].validation["loss"] > 0
    with pytest.raises(NotEmitted, match="predict"):
        evaluate(able, DATA, metric=lambda y_hat, y: 0.0)


def test_an_emitted_module_alone_is_refused_alike():
    module = {}
    exec(emit(task()).source, module)
    with pytest.raises(NotEmitted, match="'predict', 'step', 'loss'"):
        evaluate(module["CompiledModel"]().learner(0), DATA)


@on("scratch")
def test_a_sprite_has_no_loss_whatever_is_named(target):
    learner = emit(Task(layers.linear(BATCH, X, Y), sgd(0.1), mse), backend_of(target)).load()().learner(0)
    with pytest.raises(UnsupportedOp, match="must be evaluated by its predictions"):
        fit(learner, DATA, epochs=1, validation=DATA, progress=False)


@on("c")
def test_variants_say_that_they_were_not_emitted(target):
    learner = emit(task(), target).load()().learner(0)
    with pytest.raises(NotEmitted, match="'step_many'"):
        learner.step_many(*(np.stack([x, x]) for x in DATA))
    with pytest.raises(NotEmitted, match="'predict_prepared'"):
        learner.prepared()


@pytest.mark.parametrize(
    ("target", "options", "needed"),
    [
        ("c", {"mpi": True}, ["grads", "update"]),
        ("cuda", {"nccl": True}, ["grads", "update"]),
        ("jax", {"shard": "tensor", "devices": 2}, ["loss"]),
    ],
)
def test_options_bring_the_functions_that_they_need(target, options, needed):
    assert names(emit(task(), target, **options)) == ["predict", *needed, "step"]


def test_the_class_of_compile_model_keeps_its_functions():
    given = layers.linear(BATCH, X, Y), sgd(0.1), mse
    compiled = compile_model(*given).CompiledModel()
    assert all(hasattr(compiled, name) for name in ("init", "predict", "loss", "rev", "rev_p", "step"))
    assert names(emit(Task(*given), functions=SIGNATURES)) == [*SIGNATURES]
