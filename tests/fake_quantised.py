"""Networks of PyTorch after its quantisation-aware training: observed, with their observers off."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

import torch.ao.quantization as ao  # noqa: E402

nn = torch.nn


class Net(nn.Module):
    """Two convolutions with batch norm, the second on a residual, ReLU without an observer, and a layer."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = ao.QuantStub(), ao.DeQuantStub()
        self.first = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.sum, self.pool = torch.ao.nn.quantized.FloatFunctional(), nn.MaxPool2d(2)
        self.dense, self.out = nn.Linear(128, 16), nn.Linear(16, 10)

    def forward(self, x):
        x = self.first(self.quant(x))
        x = self.pool(self.sum.add(self.second(x), x)).flatten(1)
        return self.dequant(self.out(self.dense(x).relu()))


UNFUSED = ao.QConfig(ao.default_fake_quant, ao.default_per_channel_weight_fake_quant)
"""The layer FakeQuantize, whose switches torch.export cannot trace."""


def trained(engine, x, steps=5):
    """Return the network after so many batches, in evaluation mode; the engine is one of PyTorch, or none."""
    torch.manual_seed(0)
    module = Net().train()
    module.qconfig = ao.get_default_qat_qconfig(engine) if engine else UNFUSED
    names = [["first.0", "first.1", "first.2"], ["second.0", "second.1"]]
    with warnings.catch_warnings(action="ignore"):
        module = ao.prepare_qat(ao.fuse_modules_qat(module, names))
    optimiser = torch.optim.SGD(module.parameters(), 0.05)
    for step in range(steps):
        rows = torch.arange(step * 16, step * 16 + 16) % len(x)
        module(x[rows]).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    return module.apply(ao.disable_observer).eval()
