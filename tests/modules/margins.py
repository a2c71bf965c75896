"""Losses of labels and numbers: margins, imbalance, overlap, distillation, uncertainty."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import module, real, signs, whole  # noqa: E402
from tests.modules.representations import ROWS, Encoder  # noqa: E402

nn, F = torch.nn, torch.nn.functional


@module("prototypical network", (real(6, 6), ROWS), whole(2, "n"), F.cross_entropy)
class Prototypes(Encoder):
    def forward(self, support, query):
        prototypes = self.net(support).view(2, 3, -1).mean(1)
        return -(torch.cdist(self.net(query), prototypes) ** 2)


@module("ArcFace", (ROWS, whole(3, "n")), whole(3, "n"), F.cross_entropy)
class ArcFace(nn.Module):
    def __init__(self, s=8.0, m=0.3):
        super().__init__()
        self.net, self.weight, self.s = Encoder(), nn.Parameter(torch.FloatTensor(3, 4)), s
        nn.init.xavier_uniform_(self.weight)
        self.cos_m, self.sin_m, self.th, self.mm = (
            math.cos(m),
            math.sin(m),
            math.cos(math.pi - m),
            math.sin(math.pi - m) * m,
        )

    def forward(self, x, label):
        cosine = F.linear(F.normalize(self.net(x)), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - torch.pow(cosine, 2)).clamp(0, 1))
        phi = cosine * self.cos_m - sine * self.sin_m
        phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        one_hot = torch.zeros(cosine.size())
        one_hot.scatter_(1, label.view(-1, 1).long(), 1)
        return ((one_hot * phi) + ((1.0 - one_hot) * cosine)) * self.s


@module("center loss", (ROWS, whole(3, "n")), whole(3, "n"), lambda y, c, t: F.cross_entropy(y, t) + 0.1 * c)
class CenterLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.fc, self.centers = Encoder(), nn.Linear(4, 3), nn.Parameter(torch.randn(3, 4))

    def forward(self, x, labels):
        f = self.net(x)
        d = (
            f.pow(2).sum(1, keepdim=True).expand(x.size(0), 3)
            + self.centers.pow(2).sum(1, keepdim=True).expand(3, x.size(0)).t()
        )
        d = torch.addmm(d, f, self.centers.t(), beta=1, alpha=-2)
        mask = labels.unsqueeze(1).expand(x.size(0), 3).eq(torch.arange(3).expand(x.size(0), 3))
        return self.fc(f), (d * mask.float()).clamp(min=1e-12, max=1e12).sum() / x.size(0)


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=0.25):
        super().__init__()
        self.gamma, self.alpha = gamma, alpha

    def forward(self, logits, target):
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        pt = torch.exp(-ce)
        return ((self.alpha * target + (1 - self.alpha) * (1 - target)) * (1 - pt) ** self.gamma * ce).mean()


@module("focal loss", ROWS, signs("n", 4), FocalLoss())
def focal():
    return Encoder()


def dice(logits, target, smooth=1.0):
    p, t = torch.sigmoid(logits).reshape(logits.shape[0], -1), target.reshape(target.shape[0], -1)
    score = (2.0 * (p * t).sum(1) + smooth) / (p.sum(1) + t.sum(1) + smooth)
    return 1 - score.mean() + F.binary_cross_entropy_with_logits(logits, target)


@module("dice loss", real("n", 1, 6, 6), signs("n", 1, 6, 6), dice)
def segmenter():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.InstanceNorm2d(4), nn.PReLU(), nn.Conv2d(4, 1, 1))


@module("Lovasz hinge", ROWS, signs("n", 4), lambda y, t: lovasz(y.view(-1), t.view(-1)))
def lovasz_segmenter():
    return Encoder()


def lovasz(logits, labels):
    errors, perm = torch.sort(1.0 - logits * (2.0 * labels - 1.0), dim=0, descending=True)
    gt = labels[perm]
    intersection, union = gt.sum() - gt.cumsum(0), gt.sum() + (1 - gt).cumsum(0)
    jaccard = 1.0 - intersection / union
    jaccard = torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]])
    return torch.dot(F.relu(errors), jaccard.detach())


@module(
    "distillation",
    ROWS,
    (real("n", 4), whole(4, "n")),
    lambda s, teacher, t: (
        F.kl_div(F.log_softmax(s / 2, -1), F.softmax(teacher / 2, -1), reduction="batchmean") * 4
        + F.cross_entropy(s, t)
    ),
)
def student():
    return nn.Sequential(nn.Linear(6, 5), nn.Hardswish(), nn.Linear(5, 4))


@module(
    "quantile regression",
    ROWS,
    real("n", 1),
    lambda y, t: torch.max(
        (torch.tensor([0.1, 0.5, 0.9]) - 1) * (t - y), torch.tensor([0.1, 0.5, 0.9]) * (t - y)
    ).mean(),
)
class Quantiles(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 3))

    def forward(self, x):
        first, *rest = self.net(x).split(1, dim=-1)
        return torch.cumsum(torch.cat([first] + [F.softplus(r) for r in rest], -1), -1)


def mdn_loss(pi, mu, sigma, y):
    logp = torch.distributions.Normal(mu, sigma).log_prob(y.expand_as(mu))
    return -torch.logsumexp(torch.log(pi) + logp, dim=1).mean()


@module("mixture density network", ROWS, real("n", 1), mdn_loss)
class MixtureDensity(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.h, self.pi, self.mu, self.sigma = (
            nn.Linear(6, 8),
            nn.Linear(8, k),
            nn.Linear(8, k),
            nn.Linear(8, k),
        )

    def forward(self, x):
        h = torch.tanh(self.h(x))
        return F.softmax(self.pi(h), dim=-1), self.mu(h), torch.exp(self.sigma(h)).clamp(1e-3, 10)


@module(
    "evidential classifier",
    ROWS,
    whole(3, "n"),
    lambda a, t: (
        ((F.one_hot(t, 3) - a / a.sum(1, keepdim=True)) ** 2).sum(1).mean()
        + 0.1 * (torch.lgamma(a.sum(1)) - torch.lgamma(a).sum(1)).mean()
    ),
)
class Evidential(Encoder):
    def __init__(self):
        super().__init__(3)

    def forward(self, x):
        return F.softplus(self.net(x)) + 1


@module(
    "multi-task uncertainty",
    ROWS,
    (real("n", 1), whole(3, "n")),
    lambda r, c, s, y, t: (
        torch.exp(-s[0]) * F.mse_loss(r, y) + torch.exp(-s[1]) * F.cross_entropy(c, t) + s.sum()
    ),
)
class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.heads = nn.Linear(6, 8), nn.ModuleDict({"r": nn.Linear(8, 1), "c": nn.Linear(8, 3)})
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = F.gelu(self.trunk(x))
        return self.heads["r"](h), self.heads["c"](h), self.log_vars.clone()
