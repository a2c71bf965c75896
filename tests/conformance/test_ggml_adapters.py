"""Training on frozen matrices in f16, q8_0 and q4_0: exact gradients, the documented error, and files."""

from __future__ import annotations

from functools import partial

import gguf as package
import numpy as np
import pytest

from catgrad import Dim, NdArrayType, Task, build, compile_module, layers, mse, ops, sgd
from catgrad.errors import OptionError
from catgrad.formats import gguf, safetensors
from catgrad.initialisers import Filled
from catgrad.learn.adapters import UP, adapters_only, save_adapters
from catgrad.learn.fit import checkpoint
from catgrad.learn.optimiser import frozen, grouped
from catgrad.learn.optimisers import adam
from tests.conformance.test_ggml_weights import SOME, products, sum_of
from tests.covering import some
from tests.ggml import built_by_cmake
from tests.targets import cannot, emit
from tests.unit.c.build import run

pytestmark = pytest.mark.skipif(bool(cannot("ggml")), reason=f"target ggml: {cannot('ggml')}")

N, IN, HIDDEN, OUT = (NdArrayType(shape) for shape in ((Dim("n"),), (64,), (96,), (10,)))
ALPHA, EPOCHS = 8.0, 20
LOSS_ERRORS = {"f16": 5e-5, "q8_0": 1e-3, "q4_0": 1e-3}
"""Errors of losses, relative to those on the same weights in float32, which docs/howto/ggml.md states."""


def adapted(loss, optimiser) -> Task:
    """Build a network of two matrices with adapters, and a bias between."""
    first, second = layers.lora(N, IN, HIDDEN, 4, ALPHA, "a"), layers.lora(N, HIDDEN, OUT, 4, ALPHA, "b")
    model = first >> layers.bias(N, HIDDEN, "shift") >> build(ops.tanh, [N + HIDDEN]) >> second
    return Task(model, optimiser, loss, "adapted")


def pairing(y, z):
    """Compute a loss whose gradient does not depend on y, and so not on how products round."""
    return ops.mean(y * z)


def exact(rng, rows):
    """Draw numbers that q8_0 and f16 store exactly: multiples of 1/64, with 127 of them in each block."""
    x = rng.integers(-127, 128, (rows, 64)).astype(np.float32)
    x[:, ::32] = 127
    return x / 64


def with_equal_weights(ours, theirs):
    """Set weights to what ours stores, and adapters to what is not 0."""
    theirs.parameters = ours.parameters | adapters(ours)
    ours.parameters = theirs.parameters


def adapters(learner):
    """Draw those halves of adapters that are 0 initially."""
    rng = np.random.default_rng(1)
    empty = {name: array for name, array in learner.parameters.items() if name.endswith(UP)}
    return {name: rng.normal(0, 0.1, array.shape).astype(array.dtype) for name, array in empty.items()}


@pytest.mark.covering(0)
@pytest.mark.parametrize("kernels", some([True, False], [True]))
@pytest.mark.parametrize("kind", SOME)
def test_steps_equal_those_of_numpy(kind, kernels, ggml_version):
    optimiser = grouped(lambda p: frozen() if p.name.endswith(".weight") else adam(0.01))
    task, rng = adapted(pairing, optimiser), np.random.default_rng(0)
    ours = emit(task, "ggml", weights=kind, kernels=kernels).load()().learner(1)
    theirs = emit(task).load()().learner(1)
    with_equal_weights(ours, theirs)
    for step in range(6):
        x, y = exact(rng, 7), rng.normal(size=(7, 10)).astype(np.float32)
        for learner in (ours, theirs):
            if step % 2:
                learner.step(x, y)
            else:
                learner.update(learner.grads(x, y)[1])
    for table, arrays in checkpoint.tables(theirs).items():
        for name, array in arrays.items():
            found = checkpoint.tables(ours)[table][name]
            np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-5, err_msg=name)
    assert all(f"{end}.weight" not in name for name in ours.state for end in "ab")


@pytest.mark.covering(0)
@pytest.mark.parametrize("kind", ["q4_0"])
def test_gradients_through_products_of_all_orders(kind, ggml_version):
    """ggml reads the rows of a quantised matrix, and ends the process where its columns are copied."""

    def forward(x):
        return products(x * ops.broadcast(layers.parameter("gain", IN, Filled(1)), x.shape))

    optimiser = grouped(lambda p: sgd(0.1) if p.name == "gain" else frozen())
    task, rng = Task(build(forward, [N + IN]), optimiser, sum_of(pairing), "forms"), np.random.default_rng(0)
    ours = emit(task, "ggml", weights=kind).load()().learner(1)
    theirs = emit(task).load()().learner(1)
    with_equal_weights(ours, theirs)
    x = exact(rng, 7)
    targets = [rng.normal(size=y.shape).astype(np.float32) for y in theirs.predict(x)]
    gain, expected = (learner.grads(x, *targets)[1]["gain"] for learner in (ours, theirs))
    np.testing.assert_allclose(gain, expected, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module", params=SOME)
def trained(request, tmp_path_factory):
    """Run the emitted program on weights of float32, then on its own; returns its files, and learners."""
    folder, task = tmp_path_factory.mktemp(request.param), adapted(mse, adapters_only(sgd(0.5)))
    emit(task, "ggml", weights=request.param).write(folder)
    trainer, rng = built_by_cmake(folder), np.random.default_rng(0)
    before, after = (emit(task).load()().learner(1) for _ in range(2))
    before.parameters |= adapters(before)
    checkpoint.save(before, folder / "first.gguf")
    data = {name: rng.normal(size=(64, size)).astype(np.float32) for name, size in (("x", 64), ("y", 10))}
    safetensors.write(folder / "data.safetensors", data)
    losses = []
    for epochs, first, last in ((EPOCHS, "first.gguf", "trained.gguf"), (1, "trained.gguf", "again.gguf")):
        options = ("--epochs", epochs, "--batch", 64, "--weights", first, "--out", last)
        done = run(trainer, *options, cwd=folder)
        assert (done.returncode, done.stderr) == (0, "")
        losses += [float(line.split()[-1]) for line in done.stdout.splitlines()]
    checkpoint.load(after, folder / "again.gguf")
    before.parameters |= {n: a for n, a in after.parameters.items() if n.endswith(".weight")}
    return request.param, folder, data, losses, before, after


def test_the_program_trains_adapters_with_the_documented_error(trained):
    kind, _, data, losses, before, after = trained
    expected = [before.step(data["x"], data["y"]) for _ in losses]
    error = np.abs(np.array(losses) / expected - 1).max()
    assert LOSS_ERRORS[kind] / 10 < error < LOSS_ERRORS[kind]
    assert losses[-1] < losses[0] * 0.8
    for name, array in before.parameters.items():
        near = np.array_equal if name.endswith(".weight") else partial(np.allclose, rtol=0, atol=4e-3)
        assert near(after.parameters[name], array), name


def test_frozen_matrices_keep_their_type_and_bytes(trained):
    kind, folder, *_ = trained
    first, last = (
        {tensor.name: tensor for tensor in package.GGUFReader(folder / name).tensors}
        for name in ("trained.gguf", "again.gguf")
    )
    for name, tensor in last.items():
        is_frozen = name.endswith(".weight")
        assert tensor.tensor_type.name == (kind.upper() if is_frozen else "F32")
        if is_frozen or name == "shift.bias":
            assert tensor.data.tobytes() == first[name].data.tobytes()


def test_adapters_are_saved_for_llama_cpp(trained):
    _, folder, _, _, _, after = trained
    save_adapters(after, folder / "adapter.gguf", ALPHA)
    stored = gguf.read(folder / "adapter.gguf")
    assert stored.keys() == {f"{layer}.weight.lora_{end}" for layer in "ab" for end in "ab"}
    for name, array in stored.items():
        np.testing.assert_array_equal(array.T, after.parameters[name.replace(".weight", "")])


def test_a_program_must_freeze_a_matrix_to_train():
    """A frozen bias is none: it is no operand of a product."""
    optimiser = grouped(lambda p: frozen() if p.name == "shift.bias" else sgd(0.1))
    with pytest.raises(OptionError, match="must have frozen matrices .* but adapted has none; freeze some"):
        emit(adapted(mse, optimiser), "ggml", weights="q8_0")


@pytest.mark.parametrize("kind", SOME)
def test_the_base_of_an_imported_module_is_quantised(kind):
    torch = pytest.importorskip("torch", reason="PyTorch, from which is imported, is not installed")
    from catgrad.frontends.torch import lora

    torch.manual_seed(0)
    base = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.Tanh(), torch.nn.Linear(96, 10))
    x, y = torch.randn(8, 64), torch.randn(8, 10)
    adapted = lora(base, 4, target="0")
    learner = compile_module(adapted, x, adam(0.01), mse, "ggml", weights=kind)
    weight = learner.buffers["0.weight"]
    losses = [learner.step(x.numpy(), y.numpy()) for _ in range(5)]
    expected = base[0].weight.detach().numpy()
    error = np.abs(weight - expected).max() / np.abs(expected).max()
    assert 0 < error < {"f16": 1e-3, "q8_0": 1e-2, "q4_0": 0.15}[kind]
    np.testing.assert_array_equal(learner.buffers["0.weight"], weight)
    assert losses[-1] < losses[0]
