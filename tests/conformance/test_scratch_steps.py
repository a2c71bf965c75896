"""Whole models in Scratch: predictions, and parameters after training, compared in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from catgrad.backends.scratch.machine.projects import validate

from catgrad.programs import ports
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import evaluate
from tests.conformance.scratch_models import MODELS, ODD, OPTIMISERS, examples, mlp
from tests.covering import some
from tests.scratch.machines import on_machines
from tests.scratch.sprites import Sprite
from tests.targets import emit

STEPS, TOLERANCE = 3, 1e-9
TABLES = ("state", "buffers", "parameters")

pytestmark = pytest.mark.filterwarnings("ignore:.*the editor takes about")


def first(model, table):
    """Return the initial values of a table."""
    function = {"parameters": "init"}.get(table, f"init_{table}")
    return getattr(model, function)(0) if hasattr(model, function) else []


def near(found, wanted, name=""):
    wanted = np.asarray(wanted, np.float64).ravel()
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


def assert_trains(task, vm, batch=4, **options):
    """Compare predictions, losses and tables of several steps with the reference; return the sprite."""
    artifact = emit(task, "scratch", batch=batch, predict_batch=batch, vm=vm, **options)
    for kind in ("sprite3", "sb3"):
        validate(artifact.files[f"{task.name}.{kind}"])
    sprite, model, task = Sprite(artifact, vm), artifact.load()(), replace(task, runtime_learning_rate=True)
    slots = {name: artifact.program.tables.get(name, ()) for name in TABLES}
    tables = {name: first(model, name) for name in TABLES}
    for seed in range(STEPS):
        given = examples(task, batch, seed)
        sprite.give("step", *given)
        sprite.call("train step")
        arrays = [array for name in TABLES for array in tables[name]]
        loss, *new = evaluate(task.term("step"), *arrays, *given)
        near(sprite.machine.variable("loss"), loss, "loss")
        for name in TABLES:
            count = len(slots[name])
            tables[name], new = new[:count], new[count:]
    for name in TABLES:
        for (slot, found), wanted in zip(sprite.table(name).items(), tables[name], strict=True):
            near(found, wanted, slot)
    x = given[: len(task.inputs)]
    term, inputs, _ = task.entry(Kind.PREDICT)
    predicted = evaluate(term, *(array for name in ports.tables(inputs) for array in tables[name]), *x)
    sprite.give("predict", *x)
    sprite.call("predict")
    for found, wanted in zip(sprite.outputs(), predicted, strict=True):
        near(found, wanted, "output")
    return sprite


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("name", MODELS)
def test_models(vm, name):
    assert_trains(MODELS[name](), vm)


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("name", ODD)
def test_odd_inputs_outputs_and_parameters(vm, name):
    assert_trains(ODD[name](), vm, 1)
    artifact = emit(ODD[name](), "scratch", ["predict"], vm=vm)
    model, task = artifact.load()(), ODD[name]()
    x, (term, inputs, _) = examples(task, 1, 5)[: len(task.inputs)], task.entry(Kind.PREDICT)
    parameters = model.init(0) if Role.PARAMETER in ports.tables(inputs) else []
    wanted = evaluate(term, *parameters, *x)
    for found, expected in zip(model.predict(*parameters, *x), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
        assert found.dtype == expected.dtype and found.shape == expected.shape


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("name", ["mlp", "cnn", "gru"])
@pytest.mark.parametrize(("batch", "unroll"), [(1, "max"), (3, "compact")])
def test_loops_may_be_unrolled(vm, name, batch, unroll):
    assert_trains(MODELS[name](), vm, batch, unroll=unroll)


QUICK = ("nesterov", "amsgrad", "rmsprop", "nadam", "adafactor", "muon", "clipped", "groups", "one cycle")
"""Optimisers that train in every run of the tests: the others have the operations of these."""


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("name", some(OPTIMISERS, QUICK))
def test_optimisers(vm, name):
    assert_trains(mlp(OPTIMISERS[name]), vm)


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("name", ["mlp", "normalised"])
def test_a_trained_sprite_is_saved_and_reloaded(vm, name):
    """The outputs stay, and training continues from the old weights."""
    sprite = assert_trains(MODELS[name](), vm, 1)
    before = {table: sprite.table(table) for table in TABLES}, sprite.outputs()
    sprite.machine.load(sprite.machine.save())
    sprite.call("predict")
    after = {table: sprite.table(table) for table in TABLES}, sprite.outputs()
    np.testing.assert_equal(after, before)
