"""Modules whose evaluation is another graph than their training, over the same arrays."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

F, nn = torch.nn.functional, torch.nn


class Average(nn.Module):
    """A weight in training, and in evaluation a buffer; with a rate, its moving average."""

    def __init__(self, rate=0.0):
        super().__init__()
        self.rate, self.w = rate, nn.Parameter(torch.randn(3))
        self.register_buffer("average", torch.randn(3))

    def forward(self, x):
        if self.training and self.rate:
            with torch.no_grad():
                self.average.lerp_(self.w, self.rate)
        return x * (self.w if self.training else self.average)


class Target(nn.Module):
    """A target network of frozen parameters, which follow those of the other in training."""

    def __init__(self):
        super().__init__()
        self.online, self.target = nn.Linear(3, 3), nn.Linear(3, 3).requires_grad_(False)

    def forward(self, x):
        if not self.training:
            return self.target(x)
        with torch.no_grad():
            for mine, theirs in zip(self.target.parameters(), self.online.parameters(), strict=True):
                mine.lerp_(theirs, 0.1)
        return self.online(x)


class ByMode(nn.Module):
    """Two functions of a module with two layers and a batch norm: in training, and in evaluation."""

    def __init__(self, training, evaluation):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(3, 3), nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.w = nn.Parameter(torch.randn(3))
        self.trained, self.evaluated = training, evaluation

    def forward(self, *inputs):
        return (self.trained if self.training else self.evaluated)(self, *inputs)


def untracked():
    """A batch norm that stops to track statistics, and evaluates by those that it has."""
    norm = nn.BatchNorm1d(3)
    norm.running_mean.normal_()
    norm.track_running_stats = False
    return nn.Sequential(nn.Linear(3, 3, bias=False), norm)


def table(function):
    """A constant of more elements than source text holds."""
    return function(torch.arange(1600.0, dtype=torch.float64).reshape(40, 40))


def of_batch(m, x):
    return F.batch_norm(m.a(x), m.norm.running_mean.clone(), m.norm.running_var.clone(), training=True)


def ranks(m, x):
    """Read two weights through whole numbers alone, which have no gradient."""
    return m.a(x) * m.w.sort().indices + m.b.bias.long()


X, Y = (5, 3), (5, 3)
ONE, SQUARES, ITSELF = F.mse_loss, lambda a, b, y: F.mse_loss(a, y) + b.square().mean(), lambda a: a
MODES = {
    "average": (Average, [X, Y], ONE),
    "moving average": (lambda: Average(0.1), [X, Y], ONE),
    "target network": (Target, [X, Y], ONE),
    "operands": (lambda: ByMode(lambda m, x: x - m.w, lambda m, x: m.w - x), [X, Y], ONE),
    "layers": (lambda: ByMode(lambda m, x: m.a(x), lambda m, x: m.b(x)), [X, Y], ONE),
    "a layer more": (lambda: ByMode(lambda m, x: m.a(x), lambda m, x: m.b(m.a(x))), [X, Y], ONE),
    "constants": (lambda: ByMode(lambda m, x: m.a(x) * 2, lambda m, x: m.a(x) * 3), [X, Y], ONE),
    "untracked": (untracked, [X, Y], ONE),
    "statistics of the batch": (lambda: ByMode(of_batch, of_batch), [X, Y], ONE),
    "statistics in evaluation": (lambda: ByMode(lambda m, x: m.a(x), of_batch), [X, Y], ONE),
    "norm in evaluation": (lambda: ByMode(lambda m, x: m.a(x), lambda m, x: m.norm(m.a(x))), [X, Y], ONE),
    "large constants": (
        lambda: ByMode(
            lambda m, x: m.a(x) @ table(torch.sin)[:3, :3] + table(torch.sin).mean(),
            lambda m, x: (m.a(x).repeat(1, 14)[:, :40] @ table(torch.cos))[:, :3] + table(torch.sin)[0, :3],
        ), [X, Y], ONE,
    ),
    "auxiliary head": (lambda: ByMode(lambda m, x: (m.a(x), m.b(x)), lambda m, x: m.a(x)), [X, Y], SQUARES),
    "unread head": (
        lambda: ByMode(lambda m, x: (m.a(x), m.b(x)), lambda m, x: m.a(x)), [X, Y],
        lambda a, b, y: F.mse_loss(a, y),
    ),
    "two results in evaluation": (
        lambda: ByMode(lambda m, x: m.a(x), lambda m, x: (m.a(x), m.b(x).argmax(1))), [X, Y], ONE,
    ),
    "losses": (
        lambda: ByMode(
            lambda m, x, y: {"l2": F.mse_loss(m.norm(m.a(x)), y), "l1": m.b(x).abs().mean()},
            lambda m, x, y: m.norm(m.a(x)),
        ), [X, Y], lambda a, b: a + b,
    ),
    "loss or logits": (
        lambda: ByMode(lambda m, x, y: F.mse_loss(m.a(x), y), lambda m, x, y: m.a(x)), [X, Y], ITSELF,
    ),
    "inputs": (lambda: ByMode(lambda m, x, z: m.a(x), lambda m, x, z: m.b(z)), [X, X, Y], ONE),
    "weights by order": (lambda: ByMode(ranks, lambda m, x: m.a(x)), [X, Y], ONE),
    "detached weight": (lambda: ByMode(lambda m, x: m.a(x) * m.w.detach(), lambda m, x: m.a(x)), [X, Y], ONE),
}  # fmt: skip
"""Constructors, shapes of what a step takes, and losses."""
