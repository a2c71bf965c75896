"""Modules with equal arrays, which exporters merge, trained after the import as PyTorch trains the module."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import losses, optimisers
from catgrad.frontends.onnx import from_onnx
from tests.onnx_models import model
from tests.targets import emit

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnx", reason="the package onnx is not installed")

from tests.conformance.test_from_onnx import Attending, exported  # noqa: E402  # it needs PyTorch

nn = torch.nn
F = np.float32


class Twice(nn.Module):
    """Layers that are really one, beside layers that are equal at first."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.same = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.same.weight, self.same.bias = self.one.weight, self.one.bias

    def forward(self, x):
        return self.same(torch.tanh(self.two(torch.tanh(self.one(x)))))


class Scaled(nn.Module):
    """Parameters and a buffer of the same values, without modules of their own."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
        self.v, self.w = nn.Parameter(torch.ones(4, 4)), nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        return torch.tanh(x * self.a @ self.v) @ self.w + self.b


class Tied(nn.Module):
    """A language model's head that is tied to its embedding, and whose transpose exporters store."""

    def __init__(self):
        super().__init__()
        self.tokens, self.norm, self.out = nn.Embedding(7, 4), nn.LayerNorm(4), nn.Linear(4, 7, bias=False)
        self.out.weight = self.tokens.weight

    def forward(self, x):
        return self.out(torch.tanh(self.norm(self.tokens(x))))


class Copied(nn.Module):
    """A layer, and one with its values that trains apart."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.load_state_dict(self.one.state_dict())

    def forward(self, x):
        return self.one(x) * torch.tanh(self.two(x))


def perceptron():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))


def convolutions():
    return nn.Sequential(
        nn.Conv1d(3, 3, 1), nn.PReLU(), nn.Conv1d(3, 3, 1), nn.PReLU(), nn.ConvTranspose1d(3, 3, 1, groups=3)
    )


def norms():
    return nn.Sequential(
        nn.Linear(4, 4),
        nn.LayerNorm(4),
        nn.Tanh(),
        nn.LayerNorm(4),
        nn.Tanh(),
        nn.BatchNorm1d(4),
        nn.Tanh(),
        nn.BatchNorm1d(4),
    )


ROWS, IMAGES, TOKENS = (5, 4), (2, 3, 4), (5, 3)
MODULES = {
    "perceptron": (perceptron, ROWS),
    "sequences": (perceptron, IMAGES),
    "convolutions": (convolutions, IMAGES),
    "norms": (norms, ROWS),
    "twice": (Twice, ROWS),
    "scaled": (Scaled, ROWS),
    "tied": (Tied, TOKENS),
    "copied": (Copied, ROWS),
    "attention": (Attending, TOKENS),
}


def made(name):
    """Return a module whose vectors are fresh, and an input."""
    torch.manual_seed(0)
    build, shape = MODULES[name]
    module = build().eval()
    for each, parameter in module.named_parameters():
        if each.endswith("bias"):
            nn.init.zeros_(parameter)
    return module, torch.randint(0, 7, shape) if shape == TOKENS else torch.randn(shape)


LEGACY, DYNAMO = [(name, False) for name in MODULES], [(name, True) for name in MODULES if name != "copied"]
"""Modules by exporter: of equal layers of one input, the newer one stores one, and nothing of the other."""


@pytest.mark.covering
@pytest.mark.parametrize(("name", "dynamo"), LEGACY + DYNAMO)
def test_equal_arrays_are_trained_apart_and_tied_ones_together(name, dynamo):
    module, x = made(name)
    task = from_onnx(exported(module, x, dynamo)).task(optimisers.sgd(0.3), losses.mse)
    ours = emit(task, "numpy").load()().learner(seed=0)
    y = torch.randn(module(x).shape)
    theirs = torch.optim.SGD(module.parameters(), 0.3)
    for _ in range(4):
        theirs.zero_grad()
        loss = nn.functional.mse_loss(module(x), y)
        loss.backward()
        theirs.step()
        np.testing.assert_allclose(ours.step(x.numpy(), y.numpy()), loss.item(), rtol=1e-5)
    np.testing.assert_allclose(ours.predict(x.numpy()), module(x).detach(), rtol=1e-4, atol=1e-6)


def parameters(nodes, arrays, rows=4):
    imported = from_onnx(model([("x", F, [5, rows])], nodes, [("y", F, 2)], arrays))
    return list(imported.parameters), imported.notes


ONES, ZEROS = np.ones(4, F), np.zeros(4, F)
W = np.arange(16, dtype=F).reshape(4, 4)


def test_one_name_stays_one_parameter():
    nodes = [("Add", "x b", "h"), ("Add", "h b", "y")]
    assert parameters(nodes, {"b": W[0]}) == (["b"], ())
    names, notes = parameters(nodes, {"b": ZEROS})
    assert names == ["b"] and "b is one array for 2 operators" in notes[0]


def test_a_chain_of_names_is_followed_and_noted():
    nodes = [
        ("Identity", "a", "b"),
        ("Identity", "b", "c"),
        ("Mul", "x a", "h"),
        ("Add", "h b", "i"),
        ("Sub", "i c", "y"),
    ]
    names, notes = parameters(nodes, {"a": W[0]})
    assert names == ["a", "b", "c"]
    assert [note.split(" with")[0] for note in notes] == [
        "b is trained apart from a,",
        "c is trained apart from b,",
    ]


@pytest.mark.parametrize("name", ["/Identity_output_0", "onnx::Add_7", "y"])
def test_an_identity_of_the_model_stays_one(name):
    nodes = [("Mul", "x w", "h"), ("Identity", "w", name, {"name": "/Identity"}), ("Add", f"h {name}", "z")]
    nodes = nodes[:2] if name == "y" else [*nodes, ("Neg", "z", "y")]
    assert parameters(nodes, {"w": np.arange(20, dtype=F).reshape(5, 4)})[0] == ["w"]


@pytest.mark.parametrize("merged", [("Identity", "b", "mean"), None], ids=["identity", "no name"])
def test_statistics_are_never_trained_with_a_merged_bias(merged):
    mean = "mean" if merged else "b"
    nodes = [("BatchNormalization", f"x s b {mean} v", "y")]
    names, _ = parameters([merged, *nodes] if merged else nodes, {"s": W[0], "b": ZEROS, "v": ONES})
    assert names == ["s", "b"]


def test_a_transposed_copy_under_a_made_name_is_the_weight():
    nodes = [("MatMul", "x w", "h"), ("MatMul", "h onnx::MatMul_3", "y")]
    names, notes = parameters(nodes, {"w": W, "onnx::MatMul_3": W.T})
    assert names == ["w"] and "onnx::MatMul_3 is w transposed" in notes[0]
    nodes = [("MatMul", "x w", "h"), ("MatMul", "h v", "y")]  # a name that somebody gave
    assert parameters(nodes, {"w": W, "v": W.T})[0] == ["w", "v"]


@pytest.mark.parametrize("call", ["", "%", "args = (%p_w, %p_w, %p_w)", "args = (%p_x)", "args = (" * 999])
@pytest.mark.parametrize("scopes", ["", "[", "[[[1", "{}", "['w', 3, '']", "(" * 999])
def test_strange_metadata_separates_nothing(call, scopes):
    made = model([("x", F, [5, 4])], [("Add", "x w", "h"), ("Add", "h w", "y")], [("y", F, 2)], {"w": W[0]})
    for node in made.graph.node:
        for key, value in (("fx_node", call), ("name_scopes", scopes)):
            node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=value)
    assert from_onnx(made).parameters["w"].tolist() == [0, 1, 2, 3]
