"""Sprites that train on examples, projects around them, and their learners."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from catgrad.backends.scratch.formats.projects import read_arrays
from catgrad.backends.scratch.machine.projects import Machine, validate

from catgrad import CatgradError, Dim, Dtype, NdArrayType, Task, accuracy, fit, layers, losses, mse, sgd
from catgrad.errors import ArtifactError, DivergenceError, DtypeError, OptionError, ShapeError, UnsupportedOp
from examples.iris import FEATURES, SPECIES, dense, load
from tests.scratch.machines import on_machines, on_scratch
from tests.targets import emit

BATCH = NdArrayType((Dim("batch"),))
X, Y = load()
without_vanilla = functools.partial(on_machines, long=("vanilla",))


def labelled(inputs=4, classes=3):
    """Build a classifier with integer labels."""
    model = layers.dense(
        BATCH, NdArrayType((inputs,)), NdArrayType((classes,)), activation=layers.pointwise(lambda x: x)
    )
    return Task(
        model, sgd(0.3), losses.cross_entropy, "labelled", (NdArrayType((Dim("batch"),), Dtype.int64),)
    )


def regression():
    return Task(layers.linear(BATCH, NdArrayType((4,)), NdArrayType((2,))), sgd(0.1), mse, "regression")


def opened(artifact, vm="vanilla", kind="sb3"):
    machine = Machine(vm)
    machine.load(artifact.files[f"{artifact.program.name}.{kind}"])
    return machine


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("width", [3, 20])
def test_examples_are_rows_drawn_at_random_with_their_labels(vm, width):
    """Draw rows with replacement: 250 draws miss one of seven rows once in 10¹⁶ runs."""
    rows, batch = 7, 250
    x = 100 * np.arange(rows)[:, None] + np.arange(width)
    machine = opened(emit(labelled(width), "scratch", batch=batch, data=(x, np.arange(rows) % 3)), vm)
    machine.call("~draw examples")
    drawn, labels = machine.array("input").reshape(batch, width), machine.array("target")
    numbers = (drawn[:, 0] // 100).astype(int)
    assert (drawn == x[numbers]).all() and (labels == numbers % 3).all() and set(numbers) == set(range(rows))


@on_machines
def test_training_in_the_sprite_equals_steps(vm):
    """A sprite with one example has the same weights as NumPy after training."""
    machine = opened(emit(dense(), "scratch", data=(X[:1], Y[:1])), vm)
    expected = emit(dense(), "numpy").load()().learner(0)
    machine.call("train %s steps", 3)
    steps = [expected.step(X[:1], Y[:1]) for _ in range(3)]
    assert machine.variable("steps") == 3 and machine.variable("loss") == pytest.approx(np.mean(steps), 1e-5)
    for name, array in expected.parameters.items():
        assert machine.array(name) == pytest.approx(array.reshape(-1), rel=1e-5)


def trained(vm, one_hot):
    """Train a project for 20 steps; returns its machine, a learner with its parameters, and the targets."""
    task, y = (dense(), Y) if one_hot else (labelled(), Y.argmax(axis=1))
    artifact = emit(task, "scratch", batch=4, data=(X, y), classes=SPECIES)
    machine = opened(artifact, vm)
    machine.call("train %s steps", 20)
    learner = emit(task, "numpy").load()().learner(0)
    learner.parameters = {s.name: machine.array(s.name).reshape(s.type.shape) for s in _slots(artifact)}
    return machine, learner, y


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("one_hot", [True, False], ids=["one-hot", "numbers"])
def test_accuracy_is_that_of_the_predictions(vm, one_hot):
    machine, learner, y = trained(vm, one_hot)
    machine.call("measure accuracy")
    scores = learner.predict(X)
    assert machine.variable("accuracy") == pytest.approx(100 * accuracy(scores, y), abs=0.06)
    assert machine.variable("guess") == SPECIES[scores[-1].argmax()]


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("one_hot", [True, False], ids=["one-hot", "numbers"])
def test_training_shows_one_example_and_the_guess_for_it(vm, one_hot):
    machine, learner, y = trained(vm, one_hot)
    x, target = machine.array("input"), machine.array("target")
    assert any(np.allclose(x, row) and (target == label).all() for row, label in zip(X, y, strict=True))
    [scores] = learner.predict(x[None])
    assert machine.array("output") == pytest.approx(scores, rel=1e-5)
    assert machine.variable("guess") == SPECIES[scores.argmax()]


def _slots(artifact):
    return artifact.program.tables["parameters"]


@on_machines
def test_an_error_ends_training(vm):
    machine = opened(emit(dense(), "scratch", data=(X, Y)), vm)
    machine.set_variable("learning rate", 0)
    machine.call("train %s steps", 10)
    assert machine.variable("error") == "learning rate must be a number other than 0: set it for example to 5"
    assert machine.variable("steps") == 0


@on_machines
def test_no_steps_change_nothing(vm):
    machine = opened(emit(dense(), "scratch", data=(X, Y)), vm)
    machine.set_variable("loss", 7)
    for count in (0, -1, "", "many"):
        machine.call("train %s steps", count)
    assert machine.variable("loss") == 7 and machine.variable("steps") == 0


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("count", ["", "many", "Infinity", -1, 2.5, math.nan, "0x2"])
def test_fractional_numbers_of_steps_are_reported(vm, count):
    machine = opened(emit(dense(), "scratch", data=(X, Y)), vm)
    machine.call("train %s steps", count)
    shown = "NaN" if count != count else count
    assert machine.variable("error") == f"train must get a whole number of steps from 0 up, but it is {shown}"
    assert machine.variable("steps") == 0


def test_a_divergence_reaches_python():
    learner = emit(dense(), "scratch").load()().learner(0)
    learner.state["learning_rate"], before = 1e308, dict(learner.parameters)
    with pytest.raises(DivergenceError, match="dense.bias must have finite numbers, but"):
        learner.step(X[:1], Y[:1])
    assert all((learner.parameters[name] == array).all() for name, array in before.items())


@without_vanilla
def test_the_lesson(vm):
    artifact = emit(dense(), "scratch", batch=2, data=(X, Y), features=FEATURES, classes=SPECIES)
    validate(artifact.files["dense.sb3"])
    machine = opened(artifact, vm)
    machine.call("measure accuracy")
    machine.green_flag()
    assert machine.variable("error") == "" and machine.variable("steps") % 240 == 0
    assert machine.variable("accuracy") > 90 and machine.variable("loss") < 0.1
    machine.set_list("input", [0, 0])
    machine.broadcast("predict")
    assert machine.variable("error") == "input must have 4 numbers, but it has 2"


@without_vanilla
def test_a_lesson_ends_at_an_error_and_restarts(vm):
    machine = opened(emit(regression(), "scratch", batch=2, data=(X, Y[:, :2])), vm)
    machine.set_variable("learning rate", 1e9)
    machine.green_flag()
    assert machine.variable("error").startswith("the loss must be finite")
    assert 0 < machine.variable("steps") < 240
    machine.set_variable("learning rate", 0.1)
    machine.green_flag()
    assert machine.variable("error") == "" and machine.variable("steps") % 240 == 0


def test_a_sprite_without_examples_has_no_blocks_for_them():
    artifact = emit(dense(), "scratch")
    for word in ("data", "train %s", "steps", "accuracy", "largest"):
        assert word not in artifact.source.replace("train step", "")
    assert "show variable loss" in artifact.text("dense_demo.scratch")
    assert "flag" not in artifact.text("dense_demo.scratch")
    assert not opened(artifact, kind="sprite3").has_list("data input")


def test_without_classes_in_the_targets_there_is_no_accuracy():
    text = emit(regression(), "scratch", data=(X, X[:, :2])).source
    assert "train %s steps" in text and "accuracy" not in text


def test_names_may_have_any_letters():
    names = ('"a"', "b\\c", "d`e\nf", "ü")
    artifact = emit(
        labelled(classes=4), "scratch", data=(X, X[:, 0] > 0), features=names[::-1], classes=names
    )
    validate(artifact.files["labelled.sb3"])
    assert opened(artifact).list("classes") == list(names)


@pytest.mark.parametrize(
    ("options", "kind", "sentence"),
    [
        ({"data": (X,)}, ShapeError, "data must be 2 arrays, one each for input, target"),
        ({"data": (X[:, :3], Y)}, ShapeError, r"data input must have shape \(rows, 4\)"),
        ({"data": (X, Y.argmax(axis=1))}, ShapeError, r"data target must have shape \(rows, 3\)"),
        ({"data": (X[:9], Y)}, ShapeError, "a row for each example, but they have 9 and 150 rows"),
        ({"data": (X[:0], Y[:0])}, ShapeError, "a row for each example, but they have 0 rows"),
        ({"data": (X * np.nan, Y)}, DtypeError, "data input must hold finite numbers"),
        ({"data": (X.astype(str), Y)}, DtypeError, "data input must hold finite numbers"),
        ({"data": (1e300 * np.ones((9, 4)), Y[:9])}, DtypeError, "data input must fit f32"),
        ({"classes": SPECIES[:2]}, OptionError, "classes must name each of the 3 numbers of the output"),
        ({"classes": "setosa"}, OptionError, "classes must be names"),
        ({"features": FEATURES[:2]}, OptionError, "features must name each of the 4 numbers of an input"),
        ({"features": ("", "b", "c", "d")}, OptionError, "features must be names"),
        ({"data": (np.tile(X, (400, 1)), np.tile(Y, (400, 1)))}, ArtifactError, "200,000 items"),
    ],
)
def test_invalid_examples_are_refused(options, kind, sentence):
    with pytest.raises(kind, match=sentence):
        emit(dense(), "scratch", batch=3, **options)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.full(150, 3), "data target must hold numbers of classes from 0 to 2, but they are from 3 to 3"),
        (np.full(150, 0.5), "data target must fit i64"),
    ],
)
def test_labels_are_numbers_of_classes(labels, sentence):
    with pytest.raises(CatgradError, match=sentence):
        emit(labelled(), "scratch", data=(X, labels))


def test_the_pace_follows_the_cost():
    def steps(batch):
        text = emit(dense(), "scratch", batch=batch, data=(X, Y)).source
        return int(text.split("call `train %s steps`(")[1].split(")")[0])

    assert steps(1) > steps(10) > steps(150) >= 1


@on_scratch
def test_a_learner_agrees_with_other_targets(vm):
    learners = [emit(dense(), "scratch", batch=10, vm=vm), emit(dense(), "numpy")]
    here, there = (artifact.load()().learner(3) for artifact in learners)
    here.parameters["dense.bias"] = there.parameters["dense.bias"] = np.ones(3, np.float32)
    for learner in (here, there):
        learner.history = fit(learner, (X, Y), epochs=1, batch_size=10, progress=False)
    assert here.history.losses == pytest.approx(there.history.losses, rel=1e-5)
    assert here.predict(X) == pytest.approx(there.predict(X), rel=1e-5)
    for table in ("parameters", "buffers", "state"):
        for name, array in getattr(there, table).items():
            assert getattr(here, table)[name] == pytest.approx(array, rel=1e-5, abs=1e-6)


def test_learners_are_independent():
    model = emit(dense(), "scratch").load()()
    one, other = model.learner(1), model.learner(1)
    first = dict(other.parameters)
    one.step(X[:1], Y[:1])
    assert all((other.parameters[name] == first[name]).all() for name in first)
    with pytest.raises(ValueError, match=r"dense.bias must have shape \(3,\)"):
        one.parameters = first | {"dense.bias": np.ones(4)}
    with pytest.raises(KeyError, match="a name must be one of dense.weight, dense.bias"):
        one.parameters["weight"] = 1
    with pytest.raises(TypeError, match="must not be deleted"):
        del one.parameters["dense.bias"]
    with pytest.raises(ValueError, match=r"x must have shape \(1, 4\), but it is \(2, 4\)"):
        one.step(X[:2], Y[:2])
    with pytest.raises(UnsupportedOp, match="evaluated by its predictions"):
        fit(one, (X, Y), epochs=1, batch_size=1, validation=(X, Y), progress=False)


@on_machines
def test_weights_trained_in_scratch_are_read_back(vm, tmp_path):
    artifact = emit(dense(), "scratch", data=(X, Y), vm=vm)
    learner = artifact.load()().learner()
    learner.machine.call("train %s steps", 5)
    learner.save(tmp_path / "saved.sb3")
    trained = dict(learner.parameters)
    read = read_arrays(tmp_path / "saved.sb3", _slots(artifact))
    again = artifact.load()().learner(7)
    again.load(tmp_path / "saved.sb3")
    other = emit(dense(), "scratch", weights=read).load()().learner()
    for name, array in trained.items():
        assert (read[name] == array).all()
        assert (again.parameters[name] == array).all() and (other.parameters[name] == array).all()
    assert again.machine.variable("steps") == 5


def test_only_projects_of_the_model_are_loaded(tmp_path):
    learner = emit(dense(), "scratch").load()().learner()
    before = dict(learner.parameters)
    other = tmp_path / "other.sb3"
    other.write_bytes(emit(labelled(7), "scratch").files["labelled.sb3"])
    with pytest.raises(ArtifactError, match="the list dense.weight must have 12 items"):
        learner.load(other)
    with pytest.raises(ArtifactError, match="it is not"):
        learner.load(__file__)
    with pytest.raises(ArtifactError, match="must be writable"):
        learner.save(tmp_path / "none" / "saved.sb3")
    assert all((learner.parameters[name] == before[name]).all() for name in before)


@pytest.mark.parametrize(
    ("example", "least"), [("iris", 0.8), pytest.param("digits", 0.5, marks=pytest.mark.long)]
)
def test_the_examples_train_inside_scratch(example, least, tmp_path, capsys):
    from importlib import import_module

    if example == "digits":
        pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    main, project = import_module(f"examples.{example}").main, tmp_path / "project.sb3"
    main(target="scratch", steps=100, project=project)
    share = float(capsys.readouterr().out.split("accuracy: ")[1].split("%")[0]) / 100
    assert share > least
    validate(project.read_bytes())
