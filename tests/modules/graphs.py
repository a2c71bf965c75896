"""Graphs and sets: messages along edges, pools of points."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import mean, module, real, signs, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional
NODES, EDGES = real("n", 5), whole(4, 2, 9)


@module("GCN on dense graphs", (real("n", 5, 3), signs("n", 5, 5)), whole(2, "n"), F.cross_entropy)
class DenseGCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2 = nn.Linear(3, 6, bias=False), nn.Linear(6, 2, bias=False)

    def forward(self, x, adj):
        adj = ((adj + adj.transpose(1, 2)) > 0).float() + torch.eye(adj.size(1))
        d = adj.sum(-1).pow(-0.5)
        adj = d.unsqueeze(-1) * adj * d.unsqueeze(-2)
        return (adj @ self.w2(F.relu(adj @ self.w1(x)))).mean(1)


@module("GCN on one graph", (real("n", 3), signs("n", "n")), whole(2, "n"), F.cross_entropy)
class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(3, 2) * 0.5), nn.Parameter(torch.zeros(2))

    def forward(self, x, adj):
        adj = adj + torch.eye(adj.size(0))
        inv = adj.sum(1).clamp(min=1).pow(-0.5)
        return torch.mm(torch.diag(inv) @ adj @ torch.diag(inv), torch.mm(x, self.weight)) + self.bias


@module("GAT", (real("n", 5, 3), signs("n", 5, 5)), real("n", 5, 4))
class GAT(nn.Module):
    def __init__(self, heads=2):
        super().__init__()
        self.W = nn.ModuleList(nn.Linear(3, 2, bias=False) for _ in range(heads))
        self.a = nn.ParameterList([nn.Parameter(torch.randn(4, 1)) for _ in range(heads)])

    def forward(self, x, adj):
        outs = []
        for W, a in zip(self.W, self.a, strict=False):
            h = W(x)
            e = F.leaky_relu(h @ a[:2] + (h @ a[2:]).transpose(1, 2), 0.2)
            attention = torch.where(adj > 0, e, -9e15 * torch.ones_like(e))
            outs.append(F.elu(F.softmax(attention, dim=-1) @ h))
        return torch.cat(outs, dim=-1)


@module("GAT on edges", (NODES, EDGES), real("n", 4))
class EdgeGAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.src, self.dst = (
            nn.Linear(5, 4),
            nn.Parameter(torch.randn(4)),
            nn.Parameter(torch.randn(4)),
        )

    def forward(self, x, edge_index):
        source, target = edge_index
        h = self.lin(x)
        score = F.leaky_relu((h * self.src).sum(-1)[source] + (h * self.dst).sum(-1)[target], 0.2)
        top = torch.full((x.size(0),), -1e9).scatter_reduce(
            0, target, score, reduce="amax", include_self=True
        )
        weight = (score - top[target]).exp()
        total = torch.zeros(x.size(0)).scatter_add_(0, target, weight)
        weight = weight / (total[target] + 1e-16)
        return torch.zeros_like(h).index_add_(0, target, weight[:, None] * h[source])


@module("GraphSAGE mean", (NODES, EDGES), real("n", 3))
class SAGE(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.neighbours = nn.Linear(5, 3), nn.Linear(5, 3, bias=False)

    def forward(self, x, edge_index):
        source, target = edge_index[0], edge_index[1]
        total = x.new_zeros(x.shape).index_add(0, target, x[source])
        degree = torch.bincount(target, minlength=x.size(0)).clamp(min=1).unsqueeze(-1)
        return F.normalize(self.own(x) + self.neighbours(total / degree), p=2.0, dim=-1)


@module("GIN", (NODES, EDGES), real("n", 4))
class GIN(nn.Module):
    def __init__(self):
        super().__init__()
        self.eps = nn.Parameter(torch.Tensor([0.1]))
        self.mlp = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x, edge_index):
        messages = torch.zeros_like(x)
        messages.scatter_add_(0, edge_index[1].unsqueeze(-1).expand(-1, x.size(1)), x[edge_index[0]])
        return self.mlp((1 + self.eps) * x + messages)


@module("message passing with edges", (NODES, EDGES, real(9, 2)), real("n", 5), F.l1_loss)
class MessagePassing(nn.Module):
    def __init__(self):
        super().__init__()
        self.phi, self.update = nn.Sequential(nn.Linear(12, 8), nn.ReLU()), nn.GRUCell(8, 5)

    def forward(self, x, edges, attributes):
        for _ in range(2):
            m = self.phi(torch.cat([x[edges[0]], x[edges[1]], attributes], -1))
            pooled = torch.zeros(x.size(0), 8).index_add_(0, edges[1], m)
            x = self.update(pooled, x)
        return x


@module("DeepSets", (real("n", 5, 3), signs("n", 5)), real("n", 1))
class DeepSets(nn.Module):
    def __init__(self):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(3, 8), nn.ELU(inplace=True), nn.Linear(8, 8))
        self.rho = nn.Sequential(nn.Linear(8, 8), nn.ELU(inplace=True), nn.Linear(8, 1))

    def forward(self, x, mask):
        return self.rho((self.phi(x) * mask[..., None]).sum(dim=1))


@module(
    "PointNet",
    real("n", 3, 10),
    whole(3, "n"),
    lambda y, T, t: (
        F.nll_loss(y, t) + 1e-3 * torch.norm(torch.eye(3)[None] - T @ T.transpose(2, 1), dim=(1, 2)).mean()
    ),
)
class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.tnet, self.tfc = nn.Conv1d(3, 8, 1), nn.Linear(8, 9)
        self.conv, self.bn, self.fc = nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x):
        n = x.size(0)
        t = torch.max(F.relu(self.tnet(x)), 2, keepdim=True)[0].view(-1, 8)
        T = (self.tfc(t) + torch.eye(3).view(1, 9).repeat(n, 1)).view(-1, 3, 3)
        x = torch.bmm(x.transpose(2, 1), T).transpose(2, 1)
        x = torch.max(F.relu(self.bn(self.conv(x))), 2)[0]
        return F.log_softmax(self.fc(x), dim=1), T


@module("edge convolution", real("n", 3, 8), real("n", 4))
class EdgeConv(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.k, self.conv = (
            k,
            nn.Sequential(nn.Conv2d(6, 4, 1, bias=False), nn.BatchNorm2d(4), nn.LeakyReLU(0.2)),
        )

    def forward(self, x):
        n, c, points = x.size()
        inner = -2 * torch.matmul(x.transpose(2, 1), x)
        xx = torch.sum(x**2, dim=1, keepdim=True)
        index = (-xx - inner - xx.transpose(2, 1)).topk(k=self.k, dim=-1)[1]
        base = torch.arange(0, n).view(-1, 1, 1) * points
        rows = x.transpose(2, 1).contiguous().view(n * points, -1)[(index + base).view(-1), :]
        rows = rows.view(n, points, self.k, c)
        own = x.transpose(2, 1).view(n, points, 1, c).repeat(1, 1, self.k, 1)
        y = self.conv(torch.cat((rows - own, own), dim=3).permute(0, 3, 1, 2))
        return y.max(dim=-1, keepdim=False)[0].mean(-1)


@module("E(n) equivariant layer", (real("n", 4, 3), real("n", 4, 2)), real("n", 4, 3))
class Equivariant(nn.Module):
    def __init__(self):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(5, 8), nn.SiLU(), nn.Linear(8, 4), nn.SiLU())
        self.coordinate, self.node = nn.Linear(4, 1, bias=False), nn.Linear(6, 3)

    def forward(self, x, h):
        difference = x.unsqueeze(2) - x.unsqueeze(1)
        distance = difference.pow(2).sum(-1, keepdim=True)
        pairs = torch.cat(
            [h.unsqueeze(2).expand(-1, -1, 4, -1), h.unsqueeze(1).expand(-1, 4, -1, -1), distance], -1
        )
        m = self.edge(pairs) * (1 - torch.eye(4)).view(1, 4, 4, 1)
        moved = x + (difference / (distance.sqrt() + 1) * self.coordinate(m)).mean(2)
        return moved + self.node(torch.cat([h, m.sum(2)], -1))


@module("knowledge graph embedding", (whole(6, "n", 3), whole(6, "n", 3)), (), mean)
class TransE(nn.Module):
    def __init__(self):
        super().__init__()
        self.entities, self.relations = nn.Embedding(6, 4, max_norm=None), nn.Embedding(6, 4)

    def distance(self, triples):
        h, r, t = triples[:, 0], triples[:, 1], triples[:, 2]
        return (
            F.normalize(self.entities(h), dim=-1) + self.relations(r) - F.normalize(self.entities(t), dim=-1)
        ).norm(p=1, dim=1)

    def forward(self, positive, negative):
        good, bad = self.distance(positive), self.distance(negative)
        return F.margin_ranking_loss(good, bad, torch.tensor([-1]), margin=1.0, reduction="none")
