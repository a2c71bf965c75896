"""Decisions: values and policies, recommendation, tables, memories, and layers with rules of their own."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import mean, module, real, signs, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional


@module("DQN", (real("n", 4), whole(2, "n"), real("n"), real("n", 4), signs("n")), (), mean)
class DQN(nn.Module):
    def __init__(self, gamma=0.99):
        super().__init__()
        self.q, self.gamma = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), gamma
        self.target = copy.deepcopy(self.q).requires_grad_(False)

    def forward(self, s, a, r, s2, done):
        value = self.q(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.q(s2).argmax(1, keepdim=True)
            goal = r + self.gamma * self.target(s2).gather(1, best).squeeze(1) * (1 - done)
        return F.smooth_l1_loss(value, goal, reduction="none")


@module("duelling network", real("n", 4), real("n", 3), nn.HuberLoss())
class Duelling(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.value, self.advantage = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, s):
        h = F.relu(self.trunk(s))
        a = self.advantage(h)
        return self.value(h) + a - a.mean(dim=-1, keepdim=True)


def ppo(logits, values, actions, old, advantages, returns):
    dist = torch.distributions.Categorical(logits=logits)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratio = torch.exp(dist.log_prob(actions) - old)
    surrogate = torch.min(ratio * advantages, torch.clamp(ratio, 0.8, 1.2) * advantages)
    return -surrogate.mean() + 0.5 * F.mse_loss(values, returns) - 0.01 * dist.entropy().mean()


@module("PPO", real("n", 4), (whole(3, "n"), real("n"), real("n"), real("n")), ppo)
class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.actor, self.critic = nn.Linear(8, 3), nn.Linear(8, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, 2**0.5)
                nn.init.constant_(layer.bias, 0.0)

    def forward(self, s):
        h = self.body(s)
        return self.actor(h), self.critic(h).flatten()


@module("SAC policy", real("n", 4), (), lambda a, logp: (0.2 * logp + a.square().sum(-1)).mean())
class Squashed(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, s):
        mu, log_std = self.net(s).chunk(2, dim=-1)
        std = torch.clamp(log_std, -20, 2).exp()
        u = mu + std * torch.randn_like(mu)
        a = torch.tanh(u)
        logp = torch.distributions.Normal(mu, std).log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)
        return a, logp.sum(-1)


@module("C51", (real("n", 4), whole(2, "n"), real("n")), (), mean)
class C51(nn.Module):
    def __init__(self, atoms=5):
        super().__init__()
        self.net, self.atoms = nn.Linear(4, 2 * atoms), atoms
        self.register_buffer("support", torch.linspace(-2.0, 2.0, atoms))

    def forward(self, s, a, r):
        logp = F.log_softmax(self.net(s).view(-1, 2, self.atoms), -1)[torch.arange(s.size(0)), a]
        tz = (r.unsqueeze(1) + 0.9 * self.support).clamp(-2.0, 2.0)
        b = (tz + 2.0) / 1.0
        low, up = b.floor().long(), b.ceil().long()
        m = torch.zeros(s.size(0), self.atoms)
        m.scatter_add_(1, low, (up.float() - b + (low == up).float()) / self.atoms)
        m.scatter_add_(1, up, (b - low.float()) / self.atoms)
        return -(m.detach() * logp).sum(1)


@module("DLRM", (real("n", 4), whole(5, "n", 3)), signs("n", 1), F.binary_cross_entropy)
class DLRM(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(5, d, mode="sum") for _ in range(3)])
        self.bottom, self.top = (
            nn.Linear(4, d),
            nn.Sequential(nn.Linear(d + 6, 8), nn.ReLU(), nn.Linear(8, 1)),
        )

    def forward(self, dense, sparse):
        x = F.relu(self.bottom(dense))
        rows = torch.stack([x] + [table(sparse[:, i : i + 1]) for i, table in enumerate(self.tables)], 1)
        Z = torch.bmm(rows, rows.transpose(1, 2))
        i, j = torch.tril_indices(4, 4, offset=-1)
        return torch.sigmoid(self.top(torch.cat([x, Z[:, i, j]], dim=1)))


@module("DeepFM", whole(6, "n", 3), signs("n"), nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0)))
class DeepFM(nn.Module):
    def __init__(self, k=4):
        super().__init__()
        self.linear, self.embed = nn.Embedding(18, 1), nn.Embedding(18, k)
        self.register_buffer("offsets", torch.arange(3) * 6)
        self.mlp = nn.Sequential(
            nn.Linear(3 * k, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(p=0.2), nn.Linear(8, 1)
        )

    def forward(self, x):
        x = x + self.offsets
        e = self.embed(x)
        fm = 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(1, keepdim=True)
        return (self.linear(x).sum(1) + fm + self.mlp(e.flatten(1))).squeeze(1)


@module(
    "matrix factorisation with BPR",
    (whole(5, "n"), whole(7, "n"), whole(7, "n")),
    (),
    lambda p, q: -F.logsigmoid(p - q).mean(),
)
class Factorisation(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items, self.bias = nn.Embedding(5, 3), nn.Embedding(7, 3), nn.Embedding(7, 1)

    def score(self, u, i):
        return (self.users(u) * self.items(i)).sum(-1) + self.bias(i).squeeze()

    def forward(self, u, i, j):
        return self.score(u, i), self.score(u, j)


@module("deep and cross", real("n", 5), signs("n", 1), F.binary_cross_entropy_with_logits)
class DeepCross(nn.Module):
    def __init__(self):
        super().__init__()
        self.cross, self.head = nn.ModuleList(nn.Linear(5, 5) for _ in range(2)), nn.Linear(5, 1)

    def forward(self, x0):
        x = x0
        for layer in self.cross:
            x = torch.addcmul(x, x0, layer(x))
        return self.head(x)


@module("soft decision tree", real("n", 4), whole(3, "n"), F.nll_loss)
class SoftTree(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.depth, self.gates, self.leaves = (
            depth,
            nn.Linear(4, 2**depth - 1),
            nn.Parameter(torch.randn(2**depth, 3)),
        )

    def forward(self, x):
        p = torch.sigmoid(self.gates(x))
        path = x.new_ones(x.size(0), 1)
        for level in range(self.depth):
            first = 2**level - 1
            g = p[:, first : first + 2**level]
            path = torch.stack([path * g, path * (1 - g)], dim=2).reshape(x.size(0), -1)
        return torch.log(path @ F.softmax(self.leaves, -1) + 1e-9)


@module("neural Turing memory", real("n", 5, 4), real("n", 4))
class TuringMemory(nn.Module):
    def __init__(self, slots=5, width=3):
        super().__init__()
        self.controller, self.head = nn.LSTMCell(4 + width, 6), nn.Linear(6, 3 * width + 2)
        self.register_buffer("initial", torch.full((slots, width), 1e-2))
        self.width, self.out = width, nn.Linear(6 + width, 4)

    def forward(self, x):
        b = x.size(0)
        memory, read = self.initial.clone().repeat(b, 1, 1), torch.zeros(b, self.width)
        h, c = torch.zeros(b, 6), torch.zeros(b, 6)
        for t in range(x.size(1)):
            h, c = self.controller(torch.cat([x[:, t], read], dim=1), (h, c))
            key, erase, add, beta, g = torch.split(self.head(h), [self.width] * 3 + [1, 1], dim=1)
            w = F.softmax(
                F.softplus(beta) * F.cosine_similarity(memory + 1e-16, key.unsqueeze(1) + 1e-16, dim=-1),
                dim=1,
            )
            w = torch.sigmoid(g) * w + (1 - torch.sigmoid(g)) * torch.roll(w, 1, 1)
            memory = memory * (
                1 - torch.matmul(w.unsqueeze(-1), torch.sigmoid(erase).unsqueeze(1))
            ) + w.unsqueeze(-1) * add.unsqueeze(1)
            read = torch.matmul(w.unsqueeze(1), memory).squeeze(1)
        return self.out(torch.cat([h, read], 1))


@module("end-to-end memory network", (whole(9, "n", 4, 5), whole(9, "n", 5)), whole(9, "n"), F.cross_entropy)
class MemoryNetwork(nn.Module):
    def __init__(self, hops=2, d=6):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(9, d, padding_idx=0) for _ in range(hops + 1))
        j, k = torch.arange(1, 6).float()[:, None] / 5, torch.arange(1, d + 1).float()[None] / d
        self.encoding = nn.Parameter(1 - j - k * (1 - 2 * j), requires_grad=False)

    def forward(self, story, query):
        u = (self.embeddings[0](query) * self.encoding).sum(1)
        for a, c in zip(self.embeddings[:-1], self.embeddings[1:], strict=False):
            m = (a(story.view(story.size(0), -1)).view(*story.size(), -1) * self.encoding).sum(2)
            p = (m @ u.unsqueeze(-1)).squeeze(-1).softmax(-1)
            u = u + (p.unsqueeze(-1) * (c(story) * self.encoding).sum(2)).sum(1)
        return u @ self.embeddings[-1].weight.t()
