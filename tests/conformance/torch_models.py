"""Small models in idiomatic PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_inputs import positive, real  # noqa: E402  # it needs PyTorch

F, nn = torch.nn.functional, torch.nn


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


class Rounded(torch.autograd.Function):
    """Rounding with the gradient of the identity."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, dy):
        return dy


class Rotary(nn.Module):
    """Attention with rotary positions and a causal mask from a buffer, as in Llama."""

    def __init__(self, width=8, heads=2, longest=16):
        super().__init__()
        self.heads, half = heads, width // heads // 2
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.register_buffer("frequencies", 10000.0 ** -(torch.arange(half) / half), persistent=False)
        self.register_buffer("mask", torch.tril(torch.ones(longest, longest, dtype=torch.bool)))

    def turned(self, x, positions):
        angles = positions[:, None].to(x.dtype) * self.frequencies.to(x.dtype)
        angles = torch.cat([angles, angles], -1)
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        positions = torch.arange(t)
        q, k = self.turned(q, positions), self.turned(k, positions)
        scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        weights = scores.masked_fill(~self.mask[:t, :t], float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, t, d))


class Block(nn.Module):
    """A transformer block: RMS norms, rotary attention, and a gated MLP."""

    def __init__(self, width=8):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width, eps=1e-6)
        self.attention = Rotary(width)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down, self.drop = nn.Linear(2 * width, width), nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def used(norm):
    """Return a normalisation whose running statistics and weights are not the initial ones."""
    for name, tensor in {**dict(norm.named_parameters()), **dict(norm.named_buffers())}.items():
        if tensor.is_floating_point():
            tensor.data.copy_(positive(*tensor.shape) if "var" in name else real(*tensor.shape))
    return norm


def cnn():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        used(nn.BatchNorm2d(4)),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2, groups=2),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 3),
    )


class Experts(nn.Module):
    """A mixture of experts: a gate selects two of four small networks for each row."""

    def __init__(self, width=4, hidden=3, experts=4):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden))
        self.down = nn.Parameter(torch.randn(experts, hidden, width))

    def forward(self, x):
        scores, chosen = self.gate(x).topk(2)
        hidden = nn.functional.silu(x[:, None, None] @ self.up[chosen])
        return (scores.softmax(-1)[..., None] * (hidden @ self.down[chosen])[:, :, 0]).sum(1)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
        nn.Linear(84, 10),
    )  # fmt: skip


class UNet(nn.Module):
    """Convolutions at three sizes of an image; those on the way up also read the image on the way down."""

    def __init__(self, channels=3, width=4, classes=2):
        super().__init__()
        self.down = nn.ModuleList([self.pair(channels, width), self.pair(width, 2 * width)])
        self.bottom = self.pair(2 * width, 4 * width)
        self.enlarge = nn.ModuleList([nn.ConvTranspose2d(2 * n, n, 2, 2) for n in (2 * width, width)])
        self.up = nn.ModuleList([self.pair(2 * n, n) for n in (2 * width, width)])
        self.out = nn.Conv2d(width, classes, 1)

    @staticmethod
    def pair(inputs, outputs):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )

    def forward(self, x):
        passed = []
        for pair in self.down:
            passed.append(pair(x))
            x = F.max_pool2d(passed[-1], 2)
        x = self.bottom(x)
        for enlarge, pair in zip(self.enlarge, self.up, strict=True):
            x = pair(torch.cat([passed.pop(), enlarge(x)], 1))
        return self.out(x)
