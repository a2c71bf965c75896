"""Exported models: ONNX's checker, names, training by any runtime, and the round trip through the import."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.compiler.onnx_backend import KINDS, outcomes
from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, losses, mse, ops, optimisers
from catgrad.errors import DtypeError
from catgrad.frontends.onnx import from_onnx
from catgrad.functors import factor_buffers
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.models import TASKS
from tests.onnx_models import run
from tests.targets import emit

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from catgrad.frontends.onnx import backend as onnx_backend  # noqa: E402  # it needs onnx

F = np.float32
BATCH, X, Y = NdArrayType((Dim("batch"),)), NdArrayType((4,)), NdArrayType((3,))
RNG = np.random.default_rng(0)


def task(optimiser=None):
    model = layers.dense(BATCH, X, Y) >> layers.batch_norm(BATCH + Y) >> layers.dropout(BATCH + Y, 0.2)
    return Task(model, optimiser or optimisers.adam(0.1), mse, "net")


def data(rows=6):
    return RNG.normal(size=(rows, 4)).astype(F), RNG.normal(size=(rows, 3)).astype(F)


@pytest.mark.parametrize("name", TASKS)
def test_all_models_pass_the_checker(name):
    for file, content in emit(TASKS[name](), "onnx").files.items():
        if file.endswith(".onnx"):
            onnx.checker.check_model(onnx.load_from_string(content), full_check=True)


def test_step_is_one_graph_from_tables_to_new_tables():
    step = onnx.load_from_string(emit(task(), "onnx").files["step.onnx"])
    inputs = [each.name for each in step.graph.input]
    assert {"dense.weight", "dense.bias", "x", "y", "step", "seed"} <= set(inputs)
    outputs = [each.name for each in step.graph.output]
    assert outputs[0] == "loss"
    assert {f"new_{name}" for name in inputs} - set(outputs) == {"new_x", "new_y"}
    (x,) = (each for each in step.graph.input if each.name == "x")
    assert x.type.tensor_type.shape.dim[0].dim_param == "batch"


def test_a_runtime_trains_by_the_step_alone():
    """Every new array is the input of its name in the next call."""
    artifact, reference = emit(task(), "onnx"), emit(task(), "numpy").load()().learner(seed=3)
    step = onnx.load_from_string(artifact.files["step.onnx"])
    inputs, outputs = ([each.name for each in side] for side in (step.graph.input, step.graph.output))
    tables = {**reference.parameters, **reference.buffers, **reference.state}
    arrays = {name: np.array(array) for name, array in tables.items()}
    for rows in (6, 2, 6):
        x, y = data(rows)
        arrays |= {"x": x, "y": y}
        results = dict(zip(outputs, run(step, *(arrays[name] for name in inputs)), strict=True))
        arrays |= {name.removeprefix("new_"): array for name, array in results.items()}
        np.testing.assert_allclose(results["loss"], reference.step(x, y), rtol=1e-5)
    for table in (reference.parameters, reference.buffers, reference.state):
        for name, array in table.items():
            np.testing.assert_allclose(arrays[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def test_saved_predictions_have_the_arrays_and_take_inputs_alone(tmp_path):
    learner = emit(task(), "onnx").load()().learner(seed=0)
    x, y = data()
    learner.step(x, y)
    learner.save(tmp_path / "net.onnx")
    saved = onnx.load(tmp_path / "net.onnx")
    assert [each.name for each in saved.graph.input] == ["x"]
    assert {"dense.weight", "dense.bias"} <= {each.name for each in saved.graph.initializer}
    np.testing.assert_allclose(run(saved, x)[0], learner.predict(x), rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 6])
def test_the_round_trip_predicts_the_same(tmp_path, rows):
    learner = emit(task(), "onnx").load()().learner(seed=0)
    x, y = data(rows)
    learner.step(*data())
    learner.save(tmp_path / "net.onnx")
    again = from_onnx(tmp_path / "net.onnx")
    assert str(again.inputs["x"]) == "f32[batch,4]"
    for name in learner.parameters:
        np.testing.assert_array_equal(again.parameters[name], learner.parameters[name])
    other = emit(again.task(optimisers.sgd(0.1), losses.mse), "c").load()().learner(seed=0)
    np.testing.assert_allclose(other.predict(x), learner.predict(x), rtol=1e-5, atol=1e-6)
    assert np.isfinite(other.step(x, y))


@pytest.mark.parametrize("name", TASKS)
def test_whole_steps_can_be_imported(name):
    """A step that was exported is a term again, with the same results."""
    made = TASKS[name]()
    artifact = emit(made, "onnx")
    imported = from_onnx(artifact.files["step.onnx"], trainable=())
    function = artifact.reference["step"]
    sizes = {"batch": 3}
    types = [type.substitute(sizes) for type in function.argument_types]
    arrays = [np.asarray(RNG.uniform(0, 1, type.shape) * 3).astype(type.dtype.numpy) for type in types]
    found = onnx_backend.evaluated(imported, arrays)
    for ours, expected in zip(found, evaluate(function, *arrays), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_stored_arrays_are_initialisers_that_callers_may_replace(tmp_path):
    learner = emit(task(), "onnx").load()().learner(seed=0)
    learner.save(tmp_path / "net.onnx")
    imported = from_onnx(tmp_path / "net.onnx")
    predict = onnx.load_from_string(
        emit(imported.task(optimisers.sgd(0.1), losses.mse), "onnx").files["predict.onnx"]
    )
    weight = next(each for each in predict.graph.initializer if each.name == "dense.weight")
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(weight), learner.parameters["dense.weight"])
    assert "dense.weight" in {each.name for each in predict.graph.input}


def test_loops_without_rows_and_backwards_run():
    def function(x):
        doubled = ops.repeat(lambda c: c + c, 3, x)
        last, rows = ops.scan(lambda c, row: (c + row, c * row), ops.sum(x, 0), x, backwards=True)
        return doubled, last, rows

    for rows in (0, 1, 4):
        x = RNG.normal(size=(rows, 2)).astype(F)
        term = build(function, [NdArrayType((Dim("n"), 2))])
        for ours, expected in zip(run_on(get_backend("onnx"), term, x), evaluate(term, x), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-5)


def test_sums_of_large_integers_are_exact():
    """ONNX Runtime adds them up in floats along some axes."""
    x = np.array([[2**53, 2**62], [1, 2**62]])
    for axes in (0, 1, None):
        term = build(lambda x, axes=axes: ops.sum(x, axes), [NdArrayType((2, 2), Dtype.int64)])
        np.testing.assert_array_equal(run_on(get_backend("onnx"), term, x)[0], x.sum(axes))


def test_products_of_a_transposed_matrix_and_a_vector():
    """ONNX Runtime 1.32 fuses these to a product with wrong elements."""
    x, y = RNG.normal(size=(3, 2)).astype(F), RNG.normal(size=3).astype(F)
    term = build(
        lambda x, y: ops.matmul(ops.transpose(x), ops.reshape(y, 3, 1)),
        [NdArrayType((3, 2)), NdArrayType((3,))],
    )
    np.testing.assert_allclose(run_on(get_backend("onnx"), term, x, y)[0][:, 0], x.T @ y, rtol=1e-6)


def test_negative_indices_are_errors():
    term = build(ops.gather, [NdArrayType((3, 2)), NdArrayType((1,), Dtype.int32)])
    for index in (-1, 3):
        with pytest.raises(IndexError, match="an index must lie in"):
            run_on(get_backend("onnx"), term, np.ones((3, 2), F), np.array([index], np.int32))


def test_16_bits_are_refused():
    half = NdArrayType((2,), Dtype.float16)
    with pytest.raises(DtypeError, match="ONNX Runtime lacks most operators"):
        run_on(get_backend("onnx"), build(lambda x: x + x, [half]), np.ones(2, np.float16))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_models_of_the_backend_suite_survive_the_round_trip(kind, monkeypatch):
    """Each case is imported, exported, run in ONNX Runtime, and compared with the suite."""

    evaluated = onnx_backend.evaluated

    def exported(imported, inputs):
        evaluated(imported, inputs)  # refuses first what the reference does
        slots, term = factor_buffers(imported.model)
        stored = [imported.buffers[slot.name] for slot in slots]
        return run_on(get_backend("onnx"), term, *stored, *inputs)[len(slots) :]

    monkeypatch.setattr(onnx_backend, "evaluated", exported)
    rows = list(outcomes([kind]))
    assert [row for row in rows if row.result == "wrong"] == []
    assert sum(row.result == "passed" for row in rows) > 5
