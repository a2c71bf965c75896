"""Generative models: autoencoders, flows, energies, diffusion, adversaries, codebooks."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import adam, module, real, signs, uniform, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional


def elbo(reconstruction, mu, logvar, x):
    bce = F.binary_cross_entropy(reconstruction, x, reduction="sum")
    return (bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())) / x.size(0)


@module("VAE", uniform("n", 12), uniform("n", 12), elbo, adam)
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(12, 10), nn.Linear(10, 3), nn.Linear(10, 3)
        self.fc3, self.fc4 = nn.Linear(3, 10), nn.Linear(10, 12)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def forward(self, x):
        h = F.relu(self.fc1(x.view(-1, 12)))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


@module("conditional VAE", (uniform("n", 8), whole(4, "n")), uniform("n", 8), elbo)
class ConditionalVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 2 * 3))
        self.decoder = nn.Sequential(nn.Linear(3 + 4, 16), nn.ReLU(), nn.Linear(16, 8), nn.Sigmoid())

    def forward(self, x, label):
        y = F.one_hot(label, num_classes=4).to(x.dtype)
        mu, logvar = self.encoder(torch.cat([x, y], dim=-1)).chunk(2, dim=-1)
        z = torch.distributions.Normal(mu, (0.5 * logvar).exp()).rsample()
        return self.decoder(torch.cat([z, y], dim=-1)), mu, logvar


@module("VQ-VAE", real("n", 8), real("n", 8), lambda y, commitment, x: F.mse_loss(y, x) + commitment)
class VQVAE(nn.Module):
    def __init__(self, beta=0.25):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(4, 8)
        self.codebook = nn.Embedding(5, 4)
        self.beta = beta

    def forward(self, x):
        z = self.encoder(x)
        distances = z.pow(2).sum(1, keepdim=True) + self.codebook.weight.pow(2).sum(1)
        distances = distances - 2 * z @ self.codebook.weight.t()
        quantized = self.codebook(distances.argmin(dim=1))
        loss = F.mse_loss(quantized, z.detach()) + self.beta * F.mse_loss(quantized.detach(), z)
        quantized = z + (quantized - z).detach()
        return self.decoder(quantized), loss


@module("VQ-VAE with EMA codebook", real("n", 4), (), lambda q, loss: loss + q.mean())
class EMACodebook(nn.Module):
    def __init__(self, k=5, d=4, decay=0.9):
        super().__init__()
        self.decay, self.proj = decay, nn.Linear(d, d)
        self.register_buffer("embed", torch.randn(k, d))
        self.register_buffer("cluster_size", torch.zeros(k))
        self.register_buffer("embed_avg", self.embed.clone())

    def forward(self, x):
        z = self.proj(x)
        onehot = F.one_hot(torch.cdist(z.detach(), self.embed).argmin(-1), self.embed.size(0)).type(z.dtype)
        quantized = onehot @ self.embed
        if self.training:
            with torch.no_grad():
                self.cluster_size.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
                self.embed_avg.mul_(self.decay).add_(onehot.t() @ z, alpha=1 - self.decay)
                total = self.cluster_size.sum()
                smoothed = (self.cluster_size + 1e-5) / (total + 5 * 1e-5) * total
                self.embed.copy_(self.embed_avg / smoothed.unsqueeze(1))
        loss = F.mse_loss(z, quantized.detach())
        return z + (quantized - z).detach(), loss


@module("lookup-free quantizer", real("n", 6), real("n", 6))
class LookupFree(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(6, 4), nn.Linear(4, 6)

    def forward(self, x):
        z = self.down(x)
        q = torch.where(z > 0, torch.ones_like(z), -torch.ones_like(z))
        return self.up(z + (q - z).detach())


@module("Gumbel softmax autoencoder", uniform("n", 9), uniform("n", 9))
class Categorical(nn.Module):
    def __init__(self, tau=1.0):
        super().__init__()
        self.enc, self.dec, self.tau = nn.Linear(9, 3 * 4), nn.Linear(12, 9), tau

    def forward(self, x):
        logits = self.enc(x).view(x.size(0), 3, 4)
        u = torch.rand_like(logits)
        gumbel = -torch.log(-torch.log(u + 1e-10) + 1e-10)
        soft = F.softmax((logits + gumbel) / self.tau, dim=-1)
        hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
        code = hard - soft.detach() + soft
        return torch.sigmoid(self.dec(code.flatten(1)))


def likelihood(z, logdet):
    return -(torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1) + logdet).mean()


@module("RealNVP", real("n", 4), (), likelihood)
class RealNVP(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.register_buffer(
            "masks", torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]] * 2, dtype=torch.float32)[:layers]
        )
        self.s = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 4), nn.Tanh()) for _ in range(layers)
        )
        self.t = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 4)) for _ in range(layers)
        )

    def forward(self, x):
        log_det = x.new_zeros(x.shape[0])
        for i in reversed(range(len(self.t))):
            kept = self.masks[i] * x
            s, t = self.s[i](kept) * (1 - self.masks[i]), self.t[i](kept) * (1 - self.masks[i])
            x = (1 - self.masks[i]) * (x - t) * torch.exp(-s) + kept
            log_det -= s.sum(dim=1)
        return x, log_det


@module(
    "Glow step",
    real("n", 4, 3, 3),
    (),
    lambda z, logdet: 0.5 * z.square().sum((1, 2, 3)).mean() - logdet.mean(),
)
class GlowStep(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        self.log_scale, self.shift = (
            nn.Parameter(torch.zeros(1, c, 1, 1)),
            nn.Parameter(torch.zeros(1, c, 1, 1)),
        )
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(c, c))[0])
        self.net = nn.Sequential(nn.Conv2d(c // 2, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, c, 1))

    def forward(self, x):
        _n, c, h, w = x.shape
        x = (x + self.shift) * self.log_scale.exp()
        logdet = h * w * (self.log_scale.sum() + torch.slogdet(self.weight)[1])
        x = F.conv2d(x, self.weight.view(c, c, 1, 1))
        a, b = x.chunk(2, 1)
        s, t = self.net(a).chunk(2, 1)
        s = torch.sigmoid(s + 2.0)
        return torch.cat([a, (b + t) * s], 1), logdet + s.log().sum((1, 2, 3))


@module("planar flow", real("n", 2), (), likelihood)
class PlanarFlow(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.w, self.u = nn.Parameter(torch.randn(depth, 2) * 0.3), nn.Parameter(torch.randn(depth, 2) * 0.3)
        self.b = nn.Parameter(torch.zeros(depth))

    def forward(self, z):
        total = 0.0
        for w, u, b in zip(self.w, self.u, self.b, strict=False):
            wu = torch.dot(w, u)
            u_hat = u + (F.softplus(wu) - 1 - wu) * w / w.pow(2).sum()
            h = torch.tanh(F.linear(z, w[None], b[None]))
            total = total + torch.log(torch.abs(1 + (1 - h**2) @ w[None] @ u_hat) + 1e-8)
            z = z + u_hat * h
        return z, total


class MaskedLinear(nn.Linear):
    def __init__(self, inputs, outputs, mask):
        super().__init__(inputs, outputs)
        self.register_buffer("mask", mask)

    def forward(self, x):
        return F.linear(x, self.mask * self.weight, self.bias)


@module("MADE", signs("n", 5), signs("n", 5), F.binary_cross_entropy_with_logits)
class MADE(nn.Module):
    def __init__(self, d=5, h=12):
        super().__init__()
        degrees, hidden = torch.arange(1, d + 1), torch.arange(h) % (d - 1) + 1
        self.net = nn.Sequential(
            MaskedLinear(d, h, (hidden[:, None] >= degrees[None]).float()),
            nn.ReLU(),
            MaskedLinear(h, d, (degrees[:, None] > hidden[None]).float()),
        )

    def forward(self, x):
        return self.net(x)
