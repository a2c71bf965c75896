"""Representations and their losses: contrasts, margins, distillation, imbalance, uncertainty."""

from __future__ import annotations

import copy
import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import mean, module, real, signs, whole  # noqa: E402

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


@module("CLIP loss", (ROWS, real("n", 5)), (), lambda i, t: (F.cross_entropy(i, torch.arange(len(i))) + F.cross_entropy(t, torch.arange(len(t)))) / 2)
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
        return F.relu(1 - torch.sqrt(z.var(dim=0) + 1e-4)).mean() / 2, (cov.pow(2).sum() - cov.diagonal().pow(2).sum()) / z.size(1)

    def forward(self, a, b):
        a, b = self.net(a), self.net(b)
        (sa, ca), (sb, cb) = self.terms(a), self.terms(b)
        return 25 * F.mse_loss(a, b) + 25 * (sa + sb) + ca + cb


@module("SimSiam", (ROWS, ROWS), (), mean)
class SimSiam(Encoder):
    def __init__(self):
        super().__init__()
        self.predictor = nn.Sequential(nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3), nn.ReLU(inplace=True), nn.Linear(3, 4))

    def forward(self, a, b):
        z1, z2 = self.net(a), self.net(b)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        return -(F.cosine_similarity(p1, z2.detach()).mean() + F.cosine_similarity(p2, z1.detach()).mean()) * 0.5


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
        for p, q in zip(self.online.parameters(), self.target.parameters()):
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
        positive, negative = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1), torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([positive, negative], dim=1) / 0.2
        loss = F.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.long))
        if self.training:
            self.queue = torch.cat([k.T, self.queue], dim=1)[:, : self.queue.shape[1]]
        return loss


@module("prototypical network", (real(6, 6), ROWS), whole(2, "n"), F.cross_entropy)
class Prototypes(Encoder):
    def forward(self, support, query):
        prototypes = self.net(support).view(2, 3, -1).mean(1)
        return -torch.cdist(self.net(query), prototypes) ** 2


@module("ArcFace", (ROWS, whole(3, "n")), whole(3, "n"), F.cross_entropy)
class ArcFace(nn.Module):
    def __init__(self, s=8.0, m=0.3):
        super().__init__()
        self.net, self.weight, self.s = Encoder(), nn.Parameter(torch.FloatTensor(3, 4)), s
        nn.init.xavier_uniform_(self.weight)
        self.cos_m, self.sin_m, self.th, self.mm = math.cos(m), math.sin(m), math.cos(math.pi - m), math.sin(math.pi - m) * m

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
        d = f.pow(2).sum(1, keepdim=True).expand(x.size(0), 3) + self.centers.pow(2).sum(1, keepdim=True).expand(3, x.size(0)).t()
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


@module("distillation", ROWS, (real("n", 4), whole(4, "n")), lambda s, teacher, t: F.kl_div(F.log_softmax(s / 2, -1), F.softmax(teacher / 2, -1), reduction="batchmean") * 4 + F.cross_entropy(s, t))
def student():
    return nn.Sequential(nn.Linear(6, 5), nn.Hardswish(), nn.Linear(5, 4))


@module("quantile regression", ROWS, real("n", 1), lambda y, t: torch.max((torch.tensor([0.1, 0.5, 0.9]) - 1) * (t - y), torch.tensor([0.1, 0.5, 0.9]) * (t - y)).mean())
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
        self.h, self.pi, self.mu, self.sigma = nn.Linear(6, 8), nn.Linear(8, k), nn.Linear(8, k), nn.Linear(8, k)

    def forward(self, x):
        h = torch.tanh(self.h(x))
        return F.softmax(self.pi(h), dim=-1), self.mu(h), torch.exp(self.sigma(h)).clamp(1e-3, 10)


@module("evidential classifier", ROWS, whole(3, "n"), lambda a, t: ((F.one_hot(t, 3) - a / a.sum(1, keepdim=True)) ** 2).sum(1).mean() + 0.1 * (torch.lgamma(a.sum(1)) - torch.lgamma(a).sum(1)).mean())
class Evidential(Encoder):
    def __init__(self):
        super().__init__(3)

    def forward(self, x):
        return F.softplus(self.net(x)) + 1


@module("multi-task uncertainty", ROWS, (real("n", 1), whole(3, "n")), lambda r, c, s, y, t: (torch.exp(-s[0]) * F.mse_loss(r, y) + torch.exp(-s[1]) * F.cross_entropy(c, t) + s.sum()))
class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.heads = nn.Linear(6, 8), nn.ModuleDict({"r": nn.Linear(8, 1), "c": nn.Linear(8, 3)})
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = F.gelu(self.trunk(x))
        return self.heads["r"](h), self.heads["c"](h), self.log_vars.clone()
