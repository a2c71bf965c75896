"""Integers of 8 and 16 bits in imported modules: arithmetic wraps as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dtype, compile_module
from catgrad.frontends.torch import from_torch
from catgrad.ops.cast import Cast
from catgrad.programs.program import evaluate

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_inputs import real  # noqa: E402  # it needs PyTorch
from tests.conformance.torch_models import Function  # noqa: E402

DTYPES = [torch.uint8, torch.int8, torch.int16]
OPERATIONS = {
    "sum": lambda x, y: (x + y, x - y, x + 100, 5 - x, torch.add(x, y, alpha=3)),
    "product": lambda x, y: (x * y, x * 7, x**3, -x, x.abs(), x.square()),
    "quotient": lambda x, y: (x / y, x // y, x % y, x / 255, torch.div(x, y, rounding_mode="trunc"), x // 3),
    "comparison": lambda x, y: (x < y, x >= 100, x == y, x.bool(), torch.maximum(x, y), x.clamp(3, 90)),
    "bits": lambda x, y: (x & y, x | 5, x ^ y, ~x, x << 2, x >> 1),
    "reduction": lambda x, y: (
        x.sum(),
        x.amax(1),
        x.argmin(0),
        x.cumsum(1),
        x.prod(0),
        x.sum(0, dtype=x.dtype),
    ),
    "movement": lambda x, y: (x.flip(0), torch.cat([x, y]), x.mT, torch.where(x > y, x, y), x.sort(1)[0]),
    "cast": lambda x, y: (x.float(), x.long(), (3 * x.long()).to(y.dtype), (x.float() / 2).to(x.dtype)),
    "promotion": lambda x, y: (
        x + x.to(torch.int8),
        x * y.to(torch.int16),
        x + 0.5,
        x + y.int(),
        x + y.bool(),
    ),
    "creation": lambda x, y: (
        torch.zeros_like(x),
        torch.full((2,), 3, dtype=x.dtype),
        torch.ones_like(x) + x,
    ),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_agree_with_pytorch(name, dtype):
    limits = torch.iinfo(dtype)
    x = torch.tensor([[limits.min, limits.max, 1], [100, 17, limits.max - 3]]).to(dtype)
    y = torch.tensor([[limits.max, limits.max, 3], [7, 100, limits.min + 1]]).to(dtype)
    function = OPERATIONS[name]
    imported = from_torch(Function(function), x, y)
    arrays = [each.numpy() if each.itemsize == 1 else each.numpy().astype(np.int32) for each in (x, y)]
    for found, wanted in zip(evaluate(imported.model, *arrays), function(x, y), strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-6)


class Pixels(torch.nn.Module):
    """A classifier of grey images, with an embedding of a label."""

    def __init__(self):
        super().__init__()
        self.label, self.out = torch.nn.Embedding(4, 3), torch.nn.Linear(6, 3)
        self.register_buffer("mask", torch.tensor([255, 0, 255, 255, 0, 255], dtype=torch.uint8))

    def forward(self, image, label):
        return self.out((image & self.mask).float() / 255) + self.label(label.long())


class Moved(torch.nn.Module):
    """Scaled images, whose bytes are moved first."""

    def forward(self, x):
        bytes = torch.cat([x.flip(-1), torch.roll(x, 1, 2)], 1)[..., :3].repeat(1, 1, 2, 1).flatten(1)
        return bytes.to(torch.float32) / 255


def test_bytes_stay_bytes_up_to_the_cast():
    """Take and move them in 8 bits, and widen them by the cast alone."""
    x = torch.arange(48, dtype=torch.uint8).reshape(2, 1, 4, 6) * 5
    imported = from_torch(Moved(), x)
    assert str(imported.model.source.table[0]) == "u8[2,1,4,6]"
    casts = [op for op in imported.model.H.x.table if isinstance(op, Cast)]
    assert [(op.before, op.after) for op in casts] == [(Dtype.uint8, Dtype.float32)]
    np.testing.assert_array_equal(evaluate(imported.model, x.numpy())[0], Moved()(x).numpy())


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_images_and_labels_are_taken_as_they_are_stored(target):
    torch.manual_seed(0)
    module = Pixels()
    image = (real(5, 6).abs() * 60).to(torch.uint8)
    label = torch.tensor([0, 3, 2, 1, 1], dtype=torch.int8)
    wanted = module(image, label).detach().numpy()
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    learner = compile_module(module, (image, label), optimiser, torch.nn.MSELoss(), target=target)
    np.testing.assert_allclose(learner.predict(image.numpy(), label.numpy()), wanted, rtol=1e-5, atol=1e-6)
    losses = [learner.step(image.numpy(), label.numpy(), np.zeros((5, 3), np.float32)) for _ in range(3)]
    assert float(losses[2]) < float(losses[0])


def test_compiled_functions_of_short_integers_run_in_pytorch():
    compiled = torch.compile(lambda x: x + x, backend="catgrad")
    assert compiled(torch.tensor([200, 3], dtype=torch.uint8)).tolist() == [144, 6]
    with pytest.warns(match="integers must have 8, 32 or 64 bits, but those of .* have 16"):
        assert compiled(torch.tensor([2**15 - 1, 3], dtype=torch.int16)).tolist() == [-2, 6]
