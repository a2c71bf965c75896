"""Layers with rules of their own: gates, scales, quantisation, routing, noise."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import module, real, uniform, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional


@module("highway network", real("n", 6), whole(3, "n"), nn.MultiMarginLoss(margin=0.5))
class Highway(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.plain, self.gate = (nn.ModuleList([nn.Linear(6, 6) for _ in range(depth)]) for _ in range(2))
        self.out = nn.Linear(6, 3)
        for g in self.gate:
            g.bias.data.fill_(-1)

    def forward(self, x):
        for plain, gate in zip(self.plain, self.gate, strict=False):
            t = torch.sigmoid(gate(x))
            x = t * F.relu(plain(x)) + (1.0 - t) * x
        return self.out(x)


@module("FiLM", (real("n", 4, 5, 5), real("n", 3)), real("n", 4, 5, 5))
class FiLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.film = (
            nn.Conv2d(4, 4, 3, 1, 1),
            nn.BatchNorm2d(4, affine=False),
            nn.Linear(3, 8),
        )

    def forward(self, x, condition):
        gamma, beta = self.film(condition).view(-1, 2, 4, 1, 1).unbind(dim=1)
        return x + F.relu((1 + gamma) * self.bn(self.conv(x)) + beta)


@module("hypernetwork", (real("n", 4), real("n", 3)), real("n", 2))
class HyperNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.hyper = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4 * 2 + 2))

    def forward(self, x, z):
        w, b = self.hyper(z).split([8, 2], dim=-1)
        return torch.baddbmm(b.unsqueeze(1), x.unsqueeze(1), w.view(-1, 4, 2)).squeeze(1)


@module("quantisation-aware layer", real("n", 4), real("n", 3))
class FakeQuantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.randn(3, 4) * 0.5), nn.Parameter(torch.tensor(0.1))

    def forward(self, x):
        scale = self.weight.detach().abs().max() / 7
        w = self.weight / scale
        w = (torch.clamp(torch.round(w), -8, 7) - w).detach() + w
        step = self.scale.abs() + 1e-5
        q = (x / step).clamp(-128, 127)
        q = q + (q.round() - q).detach()
        return F.linear(q * step, w * scale)


@module("fake_quantize of PyTorch", real("n", 4), real("n", 3))
class ObservedLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        w = torch.fake_quantize_per_tensor_affine(self.fc.weight, 0.05, 0, -128, 127)
        return F.linear(torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255), w, self.fc.bias)


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 1)


@module("binarised layer", real("n", 4), real("n", 3))
class Binarised(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.bn = nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.bn(F.linear(x, Sign.apply(self.fc.weight)))


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.alpha, None


@module(
    "domain adversary",
    real("n", 4),
    (whole(2, "n"), whole(2, "n")),
    lambda c, d, t, u: F.cross_entropy(c, t) + F.cross_entropy(d, u),
)
class DomainAdversary(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.classes, self.domains = nn.Linear(4, 6), nn.Linear(6, 2), nn.Linear(6, 2)

    def forward(self, x):
        f = F.relu(self.features(x))
        return self.classes(f), self.domains(Reverse.apply(f, 0.5))


@module("orthogonal recurrence", real("n", 5, 3), real("n", 4))
class OrthogonalRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(3, 4, bias=False)
        self.rec = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4, bias=False))
        self.b = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        h = torch.zeros(x.size(0), 4)
        for k in range(x.size(1)):
            z = self.inp(x[:, k]) + self.rec(h)
            h = torch.sign(z) * torch.relu(z.abs() + self.b)
        return h


@module(
    "stochastic depth with LayerScale",
    real("n", 6),
    real("n", 6),
    F.mse_loss,
    lambda p: torch.optim.AdamW(p, 3e-3, weight_decay=0.05),
)
class StochasticDepth(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.GELU(), nn.Dropout(0.1)) for _ in range(depth)
        )
        self.scales, self.rates = (
            nn.ParameterList(nn.Parameter(torch.full((6,), 0.1)) for _ in range(depth)),
            [0.0, 0.2],
        )

    def forward(self, x):
        for block, scale, rate in zip(self.blocks, self.scales, self.rates, strict=False):
            y = scale * block(x)
            if self.training and rate > 0:
                keep = 1 - rate
                y = y.div(keep) * torch.floor(
                    keep + torch.rand(x.shape[0], 1, dtype=x.dtype, device=x.device)
                )
            x = x + y
        return x


@module(
    "capsules by routing",
    real("n", 4, 3),
    whole(2, "n"),
    lambda v, t: (
        (F.one_hot(t, 2) * F.relu(0.9 - v).pow(2) + 0.5 * (1 - F.one_hot(t, 2)) * F.relu(v - 0.1).pow(2))
        .sum(1)
        .mean()
    ),
)
class Capsules(nn.Module):
    def __init__(self, out=2, d=3):
        super().__init__()
        self.W = nn.Parameter(torch.randn(1, 4, out, d, 3) * 0.3)

    def squash(self, s):
        n2 = (s**2).sum(-1, keepdim=True)
        return n2 / (1 + n2) * s / (torch.sqrt(n2) + 1e-8)

    def forward(self, x):
        u = (self.W @ x[:, :, None, :, None]).squeeze(-1)
        b, fixed = torch.zeros(*u.shape[:3], 1), u.detach()
        for i in range(3):
            c = b.softmax(dim=2)
            v = self.squash((c * (u if i == 2 else fixed)).sum(dim=1))
            if i < 2:
                b = b + (fixed * v.unsqueeze(1)).sum(-1, keepdim=True)
        return v.norm(dim=-1)


@module(
    "Monte Carlo Bayesian layer", real("n", 4), real("n", 2), lambda y, kl, t: F.mse_loss(y, t) + 1e-2 * kl
)
class Bayesian(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu, self.rho = (
            nn.Parameter(torch.empty(2, 4).normal_(0, 0.1)),
            nn.Parameter(torch.empty(2, 4).normal_(-3, 0.1)),
        )

    def forward(self, x):
        sigma = torch.log1p(torch.exp(self.rho))
        weight = self.mu + sigma * torch.randn_like(sigma)
        kl = torch.distributions.kl_divergence(
            torch.distributions.Normal(self.mu, sigma), torch.distributions.Normal(0.0, 1.0)
        )
        return F.linear(x, weight), kl.sum()


@module("conformer block", real("n", 8, 4), real("n", 8, 4))
class ConvolutionModule(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.norm, self.point1, self.depth = (
            nn.LayerNorm(d),
            nn.Conv1d(d, 2 * d, 1),
            nn.Conv1d(d, d, 3, padding=1, groups=d),
        )
        self.bn, self.point2 = nn.BatchNorm1d(d), nn.Conv1d(d, d, 1)

    def forward(self, x):
        y = F.glu(self.point1(self.norm(x).mT), dim=1)
        return x + self.point2(F.silu(self.bn(self.depth(y)))).transpose(-1, -2)


@module("lottery mask", (real("n", 5), uniform(4, 5)), real("n", 4))
class Pruned(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 4)
        nn.utils.prune.l1_unstructured(self.fc, "weight", amount=0.3) if hasattr(nn.utils, "prune") else None

    def forward(self, x, scores):
        mask = (scores > scores.flatten().kthvalue(8).values).to(x.dtype)
        return F.linear(x, self.fc.weight * mask, self.fc.bias)
