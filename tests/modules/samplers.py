"""Models that denoise, oppose or mask: diffusion, adversaries, energies, sparse codes."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import mean, module, real, signs, uniform, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional


@module("DDPM", (real("n", 2, 4, 4), whole(10, "n")), (), mean)
class DDPM(nn.Module):
    def __init__(self, steps=10):
        super().__init__()
        betas = torch.linspace(1e-4, 0.02, steps)
        self.register_buffer("alpha_bar", torch.cumprod(1 - betas, 0))
        self.time = nn.Embedding(steps, 8)
        self.first, self.last = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x, t):
        noise = torch.randn_like(x)
        a = self.alpha_bar[t].view(-1, 1, 1, 1)
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        h = F.silu(self.first(noisy) + self.time(t)[:, :, None, None])
        return F.mse_loss(self.last(h), noise, reduction="none")


@module("score network", (real("n", 3), uniform("n", 1)), (), mean)
class ScoreNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("freq", torch.randn(4) * 2)
        self.net = nn.Sequential(nn.Linear(3 + 8, 16), nn.SiLU(), nn.Linear(16, 3))

    def forward(self, x, t):
        sigma = 0.01 * (10.0 / 0.01) ** t
        angle = t * self.freq[None, :] * 2 * math.pi
        noise = torch.randn_like(x)
        score = self.net(torch.cat([x + sigma * noise, angle.sin(), angle.cos()], -1)) / sigma
        return ((score * sigma + noise) ** 2).sum(-1)


@module("flow matching", (real("n", 3), real("n", 3), uniform("n")), (), mean)
class FlowMatching(nn.Module):
    def __init__(self):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(4, 16), nn.ELU(), nn.Linear(16, 3))

    def forward(self, noise, data, t):
        t = t.unsqueeze(-1)
        xt = torch.lerp(noise, data, t)
        return (self.field(torch.cat((xt, t), -1)) - (data - noise)).square().mean(-1)


def hinge(real_scores, fake_scores):
    return F.relu(1.0 - real_scores).mean() + F.relu(1.0 + fake_scores).mean()


@module("spectral norm critic", (real("n", 3, 8, 8), real("n", 3, 8, 8)), (), hinge)
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        sn = nn.utils.spectral_norm
        self.main = nn.Sequential(
            sn(nn.Conv2d(3, 4, 4, 2, 1)),
            nn.LeakyReLU(0.2, inplace=True),
            sn(nn.Conv2d(4, 8, 4, 2, 1)),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Flatten(),
            sn(nn.Linear(32, 1)),
        )

    def forward(self, x, fake):
        return self.main(x).squeeze(1), self.main(fake.detach()).squeeze(1)


@module("DCGAN generator", real("n", 6, 1, 1), real("n", 3, 8, 8))
class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(True),
            nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )
        self.apply(self.init)

    @staticmethod
    def init(m):
        if m.__class__.__name__.find("Conv") != -1:
            nn.init.normal_(m.weight.data, 0.0, 0.2)

    def forward(self, z):
        return self.main(z)


# The gradient of a bias is 0 up to rounding, of which Adam would make a step of its whole rate.
@module("WGAN-GP critic", (real("n", 4), real("n", 4), uniform("n", 1)), (), mean)
class GradientPenalty(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))

    def forward(self, x, fake, alpha):
        mixed = (alpha * x + (1 - alpha) * fake).requires_grad_(True)
        score = self.critic(mixed)
        grad = torch.autograd.grad(
            score, mixed, torch.ones_like(score), create_graph=True, retain_graph=True
        )[0]
        penalty = ((grad.norm(2, dim=1) - 1) ** 2).mean()
        return self.critic(fake).mean() - self.critic(x).mean() + 10 * penalty


@module("restricted Boltzmann machine", signs("n", 6), (), mean)
class RBM(nn.Module):
    def __init__(self, visible=6, hidden=4):
        super().__init__()
        self.W = nn.Parameter(torch.randn(hidden, visible) * 0.1)
        self.v_bias, self.h_bias = nn.Parameter(torch.zeros(visible)), nn.Parameter(torch.zeros(hidden))

    def free_energy(self, v):
        return -v.mv(self.v_bias) - F.softplus(F.linear(v, self.W, self.h_bias)).sum(1)

    def forward(self, v):
        h = torch.sigmoid(F.linear(v, self.W, self.h_bias))
        reconstructed = torch.sigmoid(F.linear(h, self.W.t(), self.v_bias)).round().detach()
        return self.free_energy(v) - self.free_energy(reconstructed)


@module(
    "sparse autoencoder",
    real("n", 8),
    real("n", 8),
    lambda y, h, x: F.mse_loss(y, x) + 1e-2 * h.abs().sum(-1).mean(),
)
class SparseAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.W_enc, self.b_enc = nn.Parameter(torch.randn(8, 16) * 0.3), nn.Parameter(torch.zeros(16))
        self.W_dec, self.b_dec = nn.Parameter(torch.randn(16, 8) * 0.3), nn.Parameter(torch.zeros(8))

    def forward(self, x, k=4):
        h = F.relu((x - self.b_dec) @ self.W_enc + self.b_enc)
        values, indices = torch.topk(h, k, dim=-1)
        h = torch.zeros_like(h).scatter(-1, indices, values)
        return h @ self.W_dec + self.b_dec, h


@module("masked autoencoder", real("n", 6, 8), real("n", 6, 8), F.mse_loss)
class MaskedAutoencoder(nn.Module):
    def __init__(self, keep=3):
        super().__init__()
        self.embed, self.head, self.keep = nn.Linear(8, 8), nn.Linear(8, 8), keep
        self.mask_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 6, 8) * 0.1)
        self.mixer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x):
        n, length, d = x.shape
        order = torch.rand(n, length).argsort(dim=1)
        restore = order.argsort(dim=1)
        tokens = self.embed(x) + self.positions
        kept = tokens.gather(1, order[:, : self.keep, None].expand(-1, -1, d))
        kept = self.mixer(kept)
        full = torch.cat([kept, self.mask_token.expand(n, length - self.keep, -1)], 1)
        full = full.gather(1, restore.unsqueeze(-1).repeat(1, 1, d))
        return self.head(full + self.positions)
