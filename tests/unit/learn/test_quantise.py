"""Post-training quantisation: accuracy beside float32, layers that are kept and train, and refusals."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

import numpy as np
import pytest
from catgrad.examples import digits

from catgrad import (
    Dim,
    Dtype,
    NdArrayType,
    Task,
    accuracy,
    build,
    emit,
    fit,
    layers,
    load,
    mse,
    ops,
    save,
    sgd,
)
from catgrad.errors import OptionError
from catgrad.frontends.torch import from_torch
from catgrad.initialisers import Normal, Stored
from catgrad.quantisation import Extrema, quantise
from tests.covering import some

FLAT = NdArrayType((Dim("batch"), 64))


@pytest.fixture(scope="module")
def trained():
    """Return the convolutional network of digits, trained for some epochs in C, with the data."""
    x, y = digits.load()
    task = digits.cnn()
    learner = emit(task, "c").load()().learner(0)
    fit(learner, (x[: digits.TRAINING], y[: digits.TRAINING]), steps=300, batch_size=64, seed=0)
    return task, learner, x, y


def predicted(task, x, target="c"):
    compiled = emit(task, target, functions=("predict",)).load()()
    [y] = compiled.predict(*compiled.init_buffers(), x)
    return y


@pytest.mark.parametrize(
    "observer", some([Extrema(), Extrema(99.9), Extrema(momentum=0.1)], [Extrema(99.9)]), ids=str
)
def test_accuracy_on_digits_is_that_of_floats(trained, observer):
    task, learner, x, y = trained
    held_out, labels = x[digits.TRAINING :], y[digits.TRAINING :]
    quantised = quantise(task, learner, [x[:100], x[100:300]], observer=observer)
    before = accuracy(np.asarray(learner.predict(held_out)), labels)
    assert accuracy(predicted(quantised, held_out), labels) >= before - 0.01
    kinds = {slot.name.rpartition(".")[2]: str(slot.type.dtype) for slot in quantised.buffers}
    assert kinds == {"weight": "Dtype.int8", "multiplier": "Dtype.int32", "bias": "Dtype.int64"}


def test_a_kept_layer_trains_and_integers_stay(trained):
    task, learner, x, y = trained
    quantised = quantise(task, learner, [x[:200]], keep=["7.dense"])
    assert [p.name for p in quantised.parameters] == ["7.dense.weight", "7.dense.bias"]
    tuned = emit(quantised, "c", functions=("step",)).load()().learner(0)
    np.testing.assert_array_equal(tuned.parameters["7.dense.bias"], learner.parameters["7.dense.bias"])
    before = {name: array.copy() for name, array in tuned.buffers.items()}
    flipped = x[:64, :, ::-1].copy()
    losses = [float(tuned.step(flipped, y[:64])) for _ in range(60)]
    assert losses[-1] < losses[0] / 2
    assert all(np.array_equal(array, before[name]) for name, array in tuned.buffers.items())


def test_a_kept_layer_has_the_gradient_of_its_floats(trained):
    """Compute what a layer on the levels of the others gives."""
    task, learner, x, y = trained
    quantised = quantise(task, learner, [x[:200]], keep=["7.dense"])
    found = emit(quantised, "numpy", functions=("predict", "grads", "step")).load()().learner(0)
    scores = np.asarray(found.predict(x[:8]), np.float64)
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares = shares / shares.sum(1, keepdims=True) - np.eye(10)[y[:8]]
    _, gradients = found.grads(x[:8], y[:8])
    np.testing.assert_allclose(gradients["7.dense.bias"], shares.mean(0), atol=1e-6)


def test_a_quantised_task_is_saved_and_loaded(trained, tmp_path):
    task, learner, x, _ = trained
    quantised = quantise(task, learner, [x[:200]])
    save(quantised, tmp_path / "digits.term")
    np.testing.assert_array_equal(
        predicted(load(tmp_path / "digits.term"), x[:5]), predicted(quantised, x[:5])
    )


def test_integers_alone_do_not_train(trained):
    task, learner, x, _ = trained
    whole = quantise(task, learner, [x[:200]])
    with pytest.raises(OptionError, match="must train, and so have parameters, but digits has none; emit"):
        emit(whole, "c", functions=("step",))
    with pytest.raises(OptionError, match="a task that has loss must train"):
        whole.entry("loss")
    assert {row.name for row in whole.summary().layers} >= {"0.conv", "3.conv", "7.dense"}
    assert list(whole.cost(batch=1).functions) == ["predict"]
    assert "int digits_step(" not in emit(whole, "c").source


def test_scales_are_told_to_readers(trained):
    task, learner, x, _ = trained
    whole = quantise(task, learner, [x[:200]], inputs=Dtype.int8, outputs=Dtype.int8)
    [scale] = whole.input_scales
    assert scale.zero == -128 and scale.scale == np.float32(1 / 255)
    assert f"x is int8: q stands for {scale.scale!r} · (q - -128)." in emit(whole, "c").text("README.md")


REFUSED = {
    "what is kept must be a parameter": {"keep": ["scores"]},
    "inputs, outputs and parameters must be": {"inputs": Dtype.int32},
    "there must be batches": {"data": []},
    "there must be an array for each": {"arrays": {}},
    "outputs that train must be float32": {"keep": ["dense"], "outputs": Dtype.int8},
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_options_are_refused(message):
    batch, features = NdArrayType(FLAT.shape[:1]), NdArrayType((64,))
    task = Task(layers.dense(batch, features, NdArrayType((3,))), sgd(0.1), mse)
    learner, data = emit(task, "numpy").load()().learner(0), [np.zeros((2, 64), np.float32)]
    options = {"arrays": learner, "data": data} | REFUSED[message]
    with pytest.raises(OptionError, match=message):
        quantise(task, **options)


NUMBERS = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
MISFITS = {
    "the array dense.weight must be f32[64,3], but it is float32 of shape (3, 64)": NUMBERS.T,
    "dense.weight must be f32[64,3], but it is float32 of shape (192,)": NUMBERS.ravel(),
    "dense.weight must be f32[64,3], but it is int8": np.ones((64, 3), np.int8),
    "dense.weight must be f32[64,3], but it is complex64": NUMBERS * 1j,
    "finite numbers, but dense.weight has others": np.where(NUMBERS > 1, np.nan, NUMBERS),
    "must have finite numbers": np.where(NUMBERS > 1, np.inf, NUMBERS),
    "finite numbers": NUMBERS.astype(np.float64) * 1e300,
}


@pytest.mark.parametrize("message", MISFITS)
def test_arrays_that_do_not_fit_are_refused(message):
    batch, features = NdArrayType(FLAT.shape[:1]), NdArrayType((64,))
    task = Task(layers.dense(batch, features, NdArrayType((3,))), sgd(0.1), mse)
    arrays = {"dense.weight": MISFITS[message], "dense.bias": np.zeros(3, np.float32)}
    with pytest.raises(OptionError, match=re.escape(message)):
        quantise(task, arrays, [np.ones((2, 64), np.float32)])


@pytest.mark.parametrize("options", [{}, {"train": ["dense"]}])
def test_data_with_nan_are_refused(options):
    task = Task(layers.dense(NdArrayType((2,)), NdArrayType((64,)), NdArrayType((3,))), sgd(0.1), mse)
    learner = emit(task, "numpy").load()().learner(0)
    x, y = np.ones((2, 64), np.float32), np.ones((2, 3), np.float32)
    wrong = [[x * np.nan, y], [x, y * np.nan], [x, y * np.inf]] if options else [[x * np.nan]]
    for batch in wrong:
        with pytest.raises(OptionError, match="must have numbers, but a batch has"):
            quantise(task, learner, [batch], **options)


@pytest.mark.parametrize("number", [-np.inf, np.finfo(np.float32).min, -1e9, -1e4])
@pytest.mark.parametrize("options", [{}, {"outputs": Dtype.int8}, {"train": ["w"]}], ids=str)
def test_a_mask_that_is_added_hides_nothing_else(number, options):
    """One scale for hidden and other numbers would leave these no levels."""
    mask = np.where(np.eye(4, dtype=bool)[:1], number, 0).astype(np.float32)

    def model(x):
        w = layers.parameter("w", NdArrayType((6, 4)), Normal(0, 0.5))
        hidden = layers.buffer("mask", NdArrayType((1, 4)), Stored(mask))
        return ops.softmax(x @ w + ops.broadcast_to(hidden, (64, 4)))

    task, rng = Task(build(model, [NdArrayType((64, 6))]), sgd(0.1), mse), np.random.default_rng(0)
    learner, x = emit(task, "numpy").load()().learner(0), rng.normal(size=(64, 6)).astype(np.float32)
    wanted = np.asarray(learner.predict(x))
    small = quantise(task, learner, [(x, np.zeros_like(wanted)) if "train" in options else x], **options)
    found = np.asarray(predicted(small, x, "numpy") if "train" not in options else trained_by(small, x))
    if options.get("outputs"):
        found = small.output_scales[0].dequantise(found)
    np.testing.assert_allclose(found, wanted, atol=0.03)


def trained_by(task, x):
    return emit(task, "numpy").load()().learner(0).predict(x)


def test_the_object_of_integers_has_no_instruction_on_floats(trained, tmp_path):
    """Compile without the registers of floats, which a compiler refuses where a function needs one."""
    task, learner, x, _ = trained
    whole = quantise(task, learner, [x[:200]], inputs=Dtype.int8, outputs=Dtype.int8)
    artifact = emit(whole, "c")
    artifact.write(tmp_path)
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", artifact.source, flags=re.DOTALL)
    assert not re.findall(r"\b(?:float|double)\b", code)
    subprocess.run(
        ["cc", "-std=c11", "-O2", "-mgeneral-regs-only", "-c", "digits.c"], cwd=tmp_path, check=True
    )


def test_a_network_of_pytorch_is_integers_through():
    """Fold batch norm, bound sums by ReLU6, read Hardswish from a table, and add residuals."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    block = nn.Sequential(
        nn.Conv2d(8, 16, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU6(),
        nn.Conv2d(16, 16, 3, padding=1, groups=16),
        nn.BatchNorm2d(16),
        nn.Hardswish(),
        nn.Conv2d(16, 8, 1),
    )

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = block

        def forward(self, x):
            return x + self.body(x)

    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, 5)
    module = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), Residual(), *head)
    x = torch.randn(32, 3, 12, 12)
    module.train()(x)
    imported = from_torch(module.eval(), x)
    arrays = {**imported.parameters, **imported.buffers}
    whole = quantise(imported.task(sgd(0.1), mse), arrays, [x.numpy()], inputs=Dtype.int8, outputs=Dtype.int8)
    counts = Counter(type(op).__name__ for op in whole.model.H.x.table)
    assert counts["Gather"] == 1 and counts["Contract"] == 5
    assert {t.dtype for t in whole.predict_term.H.w.table} == {Dtype.int8, Dtype.int32, Dtype.int64}
    [inputs], [outputs] = whole.input_scales, whole.output_scales
    found = outputs.dequantise(predicted(whole, inputs.quantise(x.numpy())))
    wanted = module(x).detach().numpy()
    assert np.abs(found - wanted).max() < 0.05 * np.ptp(wanted)
