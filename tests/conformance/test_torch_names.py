"""Names that modules of PyTorch give: kept in tables and files, identifiers in emitted source."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from catgrad import compile_module, mse, sgd
from catgrad.errors import OptionError
from catgrad.formats.safetensors import read
from catgrad.frontends.torch import from_torch
from catgrad.frontends.torch.training.compiled import Compilation
from tests.targets import on

torch = pytest.importorskip("torch", reason="PyTorch, which is imported from, is not installed")

nn = torch.nn

NAMES = ("a-b", "a_b", "é", "3x3/conv", "if", "日本", "1")


class Named(nn.Module):
    """Layers in a dictionary, one after the other."""

    def __init__(self, names=NAMES):
        super().__init__()
        self.parts = nn.ModuleDict({name: nn.Linear(4, 4) for name in names})
        for name in names:
            self.register_buffer(f"{name}-scale", torch.ones(4))

    def forward(self, x):
        for name, layer in self.parts.items():
            x = layer(x) * self.get_buffer(f"{name}-scale")
        return x


@on("numpy", "torch", "jax", "c", "onnx", "javascript", "ggml", long=("jax", "ggml"))
def test_all_targets_train_and_write_arrays_by_the_names_of_the_module(target, tmp_path):
    torch.manual_seed(0)
    module, x = Named(), torch.randn(3, 4)
    learner = compile_module(module, x, sgd(0.1), mse, target)
    assert set(learner.parameters) == {name for name, _ in module.named_parameters()}
    before = module(x).square().mean().item()
    np.testing.assert_allclose(learner.step(x.numpy(), np.zeros((3, 4), np.float32)), before, rtol=1e-5)
    module.load_state_dict(learner.state_dict())
    np.testing.assert_allclose(learner.predict(x.numpy()), module(x).detach(), atol=1e-6)
    learner.artifact.write(tmp_path)
    for file in tmp_path.glob("*.safetensors"):
        assert set(learner.parameters) <= set(read(file))


@pytest.mark.parametrize("target", ["numpy", "torch", "torch-module", "jax"])
def test_emitted_python_has_identifiers(target):
    _, artifact = Compilation(Named(), torch.randn(3, 4), sgd(0.1), mse).emitted(target)
    for name, text in artifact.files.items():
        if name.endswith(".py"):
            used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
            assert all(each.isascii() for each in used)


@pytest.mark.parametrize(
    "name", ['"', "'", "*", "a b", "a\nb", "\\", "{x}", "<b>", "%s", "`", "\u202e", "a//b", "-", "a--b"]
)
def test_names_that_could_end_a_string_or_a_comment_are_refused(name):
    with pytest.raises(OptionError, match="a name must be letters, digits and under"):
        from_torch(Named((name,)), torch.randn(3, 4))
