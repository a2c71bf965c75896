"""Low-rank adapters: training against PyTorch by hand, what is frozen, and files for llama.cpp."""

from __future__ import annotations

import gguf as package
import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, layers, mse, sgd
from catgrad.errors import OptionError
from catgrad.learn.adapters import adapters_only, save_adapters
from catgrad.learn.optimisers import adam, clipped
from tests.models import mlp
from tests.targets import emit, on

INPUTS, OUTPUTS, RANK, ALPHA = 6, 5, 2, 3.0
A, B, C = (NdArrayType(shape, Dtype.float64) for shape in ((Dim("n"),), (INPUTS,), (OUTPUTS,)))
MODEL = layers.lora(A, B, C, RANK, ALPHA)
X, Y = (np.random.default_rng(k).normal(size=(4, size)) for k, size in enumerate((INPUTS, OUTPUTS)))


@on("numpy", "c")
def test_training_equals_pytorch(target):
    torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
    learner = emit(Task(MODEL, adapters_only(sgd(0.3)), mse), target).load()().learner(1)
    initial = {name: np.array(array) for name, array in learner.parameters.items()}
    w, u, v = (torch.tensor(initial[f"linear.{name}"]) for name in ("weight", "lora_a", "lora_b"))
    trained = [u.requires_grad_(), v.requires_grad_()]
    optimiser, x = torch.optim.SGD(trained, 0.3), torch.tensor(X)
    for _ in range(4):
        loss = torch.nn.functional.mse_loss(x @ w + ALPHA / RANK * (x @ u @ v), torch.tensor(Y))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        np.testing.assert_allclose(learner.step(X, Y), loss.item(), rtol=1e-12)
    for name, theirs in zip(("lora_a", "lora_b"), trained, strict=True):
        np.testing.assert_allclose(learner.parameters[f"linear.{name}"], theirs.detach(), rtol=1e-9)
    np.testing.assert_array_equal(learner.parameters["linear.weight"], initial["linear.weight"])


def test_an_untrained_adapter_changes_nothing():
    learner = emit(Task(MODEL, sgd(0.1), mse)).load()().learner(0)
    np.testing.assert_allclose(learner.predict(X), X @ learner.parameters["linear.weight"], rtol=1e-12)


def test_the_base_weight_has_neither_gradient_nor_state():
    task = Task(MODEL, clipped(adapters_only(adam()), 1.0), mse)
    learner = emit(task).load()().learner(0)
    _, gradients = learner.grads(X, Y)
    assert not np.any(gradients["linear.weight"])
    assert np.any(gradients["linear.lora_b"])
    assert not any("weight" in name for name in learner.state)
    lines = emit(task).source.splitlines()
    assert not [line for line in lines if "d_linear_weight =" in line and "@" in line]


@pytest.mark.parametrize("dtype", [Dtype.float32, Dtype.float64])
def test_files_have_the_keys_and_shapes_of_llama_cpp(tmp_path, dtype):
    types = (NdArrayType(t.shape, dtype) for t in (A, B, C))
    learner = emit(Task(layers.lora(*types, RANK, ALPHA), adapters_only(sgd(0.3)), mse)).load()().learner(0)
    for _ in range(2):
        learner.step(X.astype(dtype.numpy), Y.astype(dtype.numpy))
    path = tmp_path / "adapter.gguf"
    save_adapters(learner, path, ALPHA, "llama", {"linear.weight": "blk.0.attn_q.weight"})
    reader = package.GGUFReader(path)
    known = {key: reader.fields[key].contents() for key in reader.fields}
    assert known["general.architecture"] == "llama"
    assert known["general.type"] == "adapter"
    assert known["adapter.type"] == "lora"
    assert known["adapter.lora.alpha"] == ALPHA
    tensors = {t.name: t for t in reader.tensors}
    down, up = (tensors[f"blk.0.attn_q.weight.lora_{end}"] for end in "ab")
    assert down.shape.tolist() == [INPUTS, RANK]  # ggml's order
    assert up.shape.tolist() == [RANK, OUTPUTS]
    assert {t.tensor_type.name for t in tensors.values()} == {"F32"}
    w = learner.parameters["linear.weight"] + ALPHA / RANK * (up.data @ down.data).T
    np.testing.assert_allclose(learner.predict(X.astype(dtype.numpy)), X @ w, rtol=1e-4, atol=1e-5)


def test_wrong_adapters_are_refused(tmp_path):
    for rank, alpha in ((0, 1.0), (1.5, 1.0), (2, 0.0), (2, "1")):
        with pytest.raises(OptionError):
            layers.lora(A, B, C, rank, alpha)
    with pytest.raises(OptionError, match="must have adapters to be saved, but it has none"):
        save_adapters(emit(mlp()).load()().learner(), tmp_path / "a.gguf", 1.0)
    assert not list(tmp_path.iterdir())
