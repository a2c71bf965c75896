"""Representations and their losses: contrasts, margins, distillation, imbalance, uncertainty."""

from __future__ import annotations

import copy
import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import mean, module, real, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional
ROWS = real("n", 6)


class Encoder(nn.Module):
    def __init__(self, out=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, out))

    def forward(self, x):
        return self.net(x)


@module("SimCLR", (ROWS, ROWS), (), mean)
class SimCLR(Encoder):
    def forward(self, a, b):
        n = a.shape[0]
        z = F.normalize(torch.cat([self.net(a), self.net(b)]), dim=1)
        similarity = z @ z.T / 0.5
        similarity = similarity.masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
        labels = torch.cat([torch.arange(n) + n, torch.arange(n)])
        return F.cross_entropy(similarity, labels)


@module(
    "CLIP loss",
    (ROWS, real("n", 5)),
    (),
    lambda i, t: (F.cross_entropy(i, torch.arange(len(i))) + F.cross_entropy(t, torch.arange(len(t)))) / 2,
)
class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Linear(6, 4), nn.Linear(5, 4)
        self.logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))

    def forward(self, image, text):
        i, t = self.image(image), self.text(text)
        i, t = i / i.norm(dim=1, keepdim=True), t / t.norm(dim=1, keepdim=True)
        logits = self.logit_scale.exp() * i @ t.t()
        return logits, logits.t()


@module("supervised contrast", (ROWS, whole(3, "n")), (), mean)
class SupervisedContrast(Encoder):
    def forward(self, x, labels):
        z = F.normalize(self.net(x), dim=-1)
        logits = z @ z.T / 0.1
        logits = logits - logits.max(dim=1, keepdim=True).values.detach()
        own = torch.scatter(torch.ones_like(logits), 1, torch.arange(x.shape[0]).view(-1, 1), 0)
        positives = torch.eq(labels.view(-1, 1), labels.view(1, -1)).float() * own
        logp = logits - torch.log((torch.exp(logits) * own).sum(1, keepdim=True))
        return -(positives * logp).sum(1) / positives.sum(1).clamp(min=1.0)


@module("triplet network", (ROWS, ROWS, ROWS), (), nn.TripletMarginLoss(margin=1.0))
class Triplet(Encoder):
    def forward(self, anchor, positive, negative):
        return tuple(self.net(x) for x in (anchor, positive, negative))


def barlow(z1, z2):
    z1, z2 = ((z - z.mean(0)) / z.std(0) for z in (z1, z2))
    c = z1.T @ z2 / z1.shape[0]
    off = c.flatten()[:-1].view(c.shape[0] - 1, c.shape[0] + 1)[:, 1:].flatten()
    return torch.diagonal(c).add(-1).pow(2).sum() + 0.005 * off.pow(2).sum()


@module("Barlow twins", (ROWS, ROWS), (), barlow)
class Barlow(Encoder):
    def forward(self, a, b):
        return self.net(a), self.net(b)


@module("VICReg", (ROWS, ROWS), (), mean)
class VICReg(Encoder):
    def terms(self, z):
        z = z - z.mean(dim=0)
        cov = (z.T @ z) / (z.size(0) - 1)
        return F.relu(1 - torch.sqrt(z.var(dim=0) + 1e-4)).mean() / 2, (
            cov.pow(2).sum() - cov.diagonal().pow(2).sum()
        ) / z.size(1)

    def forward(self, a, b):
        a, b = self.net(a), self.net(b)
        (sa, ca), (sb, cb) = self.terms(a), self.terms(b)
        return 25 * F.mse_loss(a, b) + 25 * (sa + sb) + ca + cb


@module("SimSiam", (ROWS, ROWS), (), mean)
class SimSiam(Encoder):
    def __init__(self):
        super().__init__()
        self.predictor = nn.Sequential(
            nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3), nn.ReLU(inplace=True), nn.Linear(3, 4)
        )

    def forward(self, a, b):
        z1, z2 = self.net(a), self.net(b)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        return (
            -(F.cosine_similarity(p1, z2.detach()).mean() + F.cosine_similarity(p2, z1.detach()).mean()) * 0.5
        )


@module("BYOL", (ROWS, ROWS), (), mean)
class BYOL(nn.Module):
    def __init__(self, tau=0.9):
        super().__init__()
        self.online, self.predictor, self.tau = Encoder(), nn.Linear(4, 4), tau
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad = False

    @torch.no_grad()
    def update(self):
        for p, q in zip(self.online.parameters(), self.target.parameters(), strict=False):
            q.data.mul_(self.tau).add_(p.data, alpha=1 - self.tau)

    def forward(self, a, b):
        if self.training:
            self.update()
        p = F.normalize(self.predictor(self.online(a)), dim=-1)
        with torch.no_grad():
            z = F.normalize(self.target(b), dim=-1)
        return 2 - 2 * (p * z.detach()).sum(dim=-1)


@module("MoCo queue", (ROWS, ROWS), (), mean)
class MoCo(nn.Module):
    def __init__(self, k=12):
        super().__init__()
        self.encoder = Encoder()
        self.register_buffer("queue", F.normalize(torch.randn(4, k), dim=0))
        self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))

    def forward(self, q, k):
        q = F.normalize(self.encoder(q), dim=1)
        with torch.no_grad():
            k = F.normalize(self.encoder(k), dim=1)
        positive, negative = (
            torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1),
            torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()]),
        )
        logits = torch.cat([positive, negative], dim=1) / 0.2
        loss = F.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.long))
        if self.training:
            self.queue = torch.cat([k.T, self.queue], dim=1)[:, : self.queue.shape[1]]
        return loss
