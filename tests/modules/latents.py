"""Attention to latents and masks, and mixtures of experts."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import adam, module, real, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional
ROWS = real("n", 6, 8)


@module("Perceiver", real("n", 9, 5), whole(3, "n"), F.cross_entropy)
class Perceiver(nn.Module):
    def __init__(self, latents=4, d=8):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, d).clamp_(-2, 2))
        self.cross = nn.MultiheadAttention(d, 2, kdim=5, vdim=5, batch_first=True)
        self.block = nn.TransformerEncoderLayer(d, 2, 16, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.head = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 3))

    def forward(self, x):
        z = self.latents.unsqueeze(0).repeat(x.size(0), 1, 1)
        for _ in range(2):
            z = z + self.cross(z, x, x)[0]
            z = self.block(z)
        return self.head(z.mean(dim=1))


@module("Set Transformer", real("n", 5, 4), real("n", 1))
class SetTransformer(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.embed, self.inducing = nn.Linear(4, d), nn.Parameter(torch.Tensor(1, 3, d))
        self.seed = nn.Parameter(torch.Tensor(1, 1, d))
        nn.init.xavier_uniform_(self.inducing), nn.init.xavier_uniform_(self.seed)
        self.attend = nn.ModuleList(nn.MultiheadAttention(d, 2, batch_first=True) for _ in range(3))
        self.ff, self.out = nn.ModuleList(nn.Linear(d, d) for _ in range(3)), nn.Linear(d, 1)

    def mab(self, i, q, k):
        h = q + self.attend[i](q, k, k)[0]
        return h + F.relu(self.ff[i](h))

    def forward(self, x):
        x = self.embed(x)
        h = self.mab(0, self.inducing.repeat(x.size(0), 1, 1), x)
        x = self.mab(1, x, h)
        return self.out(self.mab(2, self.seed.repeat(x.size(0), 1, 1), x)).squeeze(1)


@module("key padding mask", (whole(9, "n", 6), whole(5, "n")), real("n", 8))
class PaddedEncoder(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.embed = nn.Embedding(9, d, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(d, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, tokens, length):
        mask = torch.arange(tokens.size(1)).unsqueeze(0) > length.unsqueeze(1)
        h = self.layer(self.embed(tokens), src_key_padding_mask=mask)
        h = h.masked_fill(mask.unsqueeze(-1), 0.0)
        return h.sum(1) / (~mask).sum(1, keepdim=True).to(h.dtype)


@module("grouped query attention", ROWS, ROWS)
class GroupedQuery(nn.Module):
    def __init__(self, d=8, heads=4, groups=2):
        super().__init__()
        self.h, self.g, self.hd = heads, groups, d // heads
        self.wq, self.wkv, self.norm = (
            nn.Linear(d, d),
            nn.Linear(d, 2 * groups * self.hd),
            nn.RMSNorm(self.hd),
        )

    def forward(self, x):
        b, t, _ = x.shape
        q = self.norm(self.wq(x).view(b, t, self.h, self.hd)).transpose(1, 2)
        k, v = self.wkv(x).view(b, t, 2, self.g, self.hd).unbind(2)
        k, v = (
            z[:, :, :, None, :]
            .expand(b, t, self.g, self.h // self.g, self.hd)
            .reshape(b, t, self.h, self.hd)
            .transpose(1, 2)
            for z in (self.norm(k), v)
        )
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.hd)
        scores = 5.0 * torch.tanh(scores / 5.0)
        return torch.matmul(F.softmax(scores.float(), dim=-1).type_as(q), v).transpose(1, 2).flatten(2)


@module("mixture of experts", real("n", 8), real("n", 8), lambda y, aux, t: F.mse_loss(y, t) + 0.01 * aux)
class SparseExperts(nn.Module):
    def __init__(self, d=8, experts=4, k=2):
        super().__init__()
        self.gate, self.k = nn.Linear(d, experts, bias=False), k
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 12), nn.ReLU(), nn.Linear(12, d)) for _ in range(experts)
        )

    def forward(self, x):
        probs = F.softmax(self.gate(x), dim=-1)
        weights, chosen = torch.topk(probs, self.k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            share = (weights * (chosen == i)).sum(-1, keepdim=True)
            y += share * expert(x)
        load = F.one_hot(chosen, len(self.experts)).float().mean(dim=(0, 1))
        return y, len(self.experts) * (load * probs.mean(0)).sum()


@module("mixture of experts by index", real("n", 8), real("n", 8))
class RoutedExperts(nn.Module):
    def __init__(self, d=8, experts=3):
        super().__init__()
        self.router, self.experts = (
            nn.Linear(d, experts),
            nn.ModuleList(nn.Linear(d, d) for _ in range(experts)),
        )

    def forward(self, x):
        weight, index = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = torch.where(index == i)[0]
            out[rows] = expert(x[rows]) * weight[rows, None]
        return out


@module("product key memory", real("n", 8), real("n", 4), F.mse_loss, adam)
class ProductKeys(nn.Module):
    def __init__(self, keys=4, d=8, k=2):
        super().__init__()
        self.keys, self.values, self.k = (
            nn.Parameter(torch.randn(2, keys, d // 2)),
            nn.EmbeddingBag(keys**2, 4, mode="sum"),
            k,
        )
        self.query = nn.Linear(d, d)

    def forward(self, x):
        q1, q2 = self.query(x).chunk(2, dim=1)
        s1, i1 = (q1 @ self.keys[0].T).topk(self.k, dim=1)
        s2, i2 = (q2 @ self.keys[1].T).topk(self.k, dim=1)
        scores = (s1[:, :, None] + s2[:, None, :]).reshape(x.size(0), -1)
        indices = (i1[:, :, None] * self.keys.size(1) + i2[:, None, :]).view(x.size(0), -1)
        best, place = scores.topk(self.k, dim=1)
        return self.values(indices.gather(1, place), per_sample_weights=F.softmax(best, 1))
