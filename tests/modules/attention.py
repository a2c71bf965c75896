"""Attention and its relatives: positions, masks, kernels, latents, experts."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import module, real, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional
ROWS = real("n", 6, 8)


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


@module("RoPE attention", ROWS, ROWS)
class RotaryAttention(nn.Module):
    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.heads, self.wq, self.wk, self.wv = heads, *(nn.Linear(dim, dim, bias=False) for _ in range(3))
        inv = 1.0 / (10000 ** (torch.arange(0, dim // heads, 2).float() / (dim // heads)))
        angles = torch.outer(torch.arange(16).float(), inv)
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin(), persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (w(x).view(b, t, self.heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        cos, sin = self.cos[:t], self.sin[:t]
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)


@module("complex RoPE", ROWS, ROWS)
class ComplexRotary(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        freqs = torch.outer(torch.arange(6), 1.0 / (100.0 ** (torch.arange(0, dim, 2) / dim)))
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(freqs), freqs))

    def forward(self, x):
        y = self.proj(x)
        y_ = torch.view_as_complex(y.float().reshape(*y.shape[:-1], -1, 2))
        return torch.view_as_real(y_ * self.freqs_cis).flatten(2).type_as(x)


@module(
    "ALiBi attention", whole(9, "n", 6), whole(9, "n", 6), lambda y, t: F.cross_entropy(y.transpose(1, 2), t)
)
class Alibi(nn.Module):
    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.heads, self.embed, self.qkv, self.out = (
            heads,
            nn.Embedding(9, dim),
            nn.Linear(dim, 3 * dim),
            nn.Linear(dim, 9),
        )
        self.slopes = [2 ** (-8 * (i + 1) / heads) for i in range(heads)]

    def forward(self, tokens):
        x = self.embed(tokens)
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        distance = torch.arange(t)[None, :] - torch.arange(t)[:, None]
        bias = torch.tensor(self.slopes)[:, None, None] * distance
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1)) + bias
        scores = scores.masked_fill(torch.triu(torch.ones(t, t), diagonal=1).bool(), float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(b, t, c))


@module("T5 relative bias", ROWS, ROWS)
class RelativeBias(nn.Module):
    def __init__(self, buckets=8, heads=2, dim=8):
        super().__init__()
        self.bias, self.buckets, self.heads = nn.Embedding(buckets, heads), buckets, heads
        self.q, self.kv = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def bucket(self, relative):
        n = torch.abs(relative)
        half = self.buckets // 4
        large = half + (torch.log(n.float().clamp(min=1) / half) / math.log(16 / half) * half).long()
        result = (relative > 0).long() * (self.buckets // 2)
        return result + torch.where(
            n < half, n, torch.min(large, torch.full_like(large, self.buckets // 2 - 1))
        )

    def forward(self, x):
        t = x.size(1)
        positions = torch.arange(t, device=x.device)
        bias = self.bias(self.bucket(positions[None, :] - positions[:, None])).permute(2, 0, 1).unsqueeze(0)
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in self.kv(x).chunk(2, -1))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)


@module("Transformer-XL shift", ROWS, ROWS)
class RelativeShift(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.q, self.k, self.r, self.v = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.u, self.w = nn.Parameter(torch.randn(d) * 0.1), nn.Parameter(torch.randn(d) * 0.1)

    def forward(self, x):
        b, t, d = x.shape
        position = torch.arange(t - 1, -1, -1.0)
        angle = torch.ger(position, 1 / (10 ** (torch.arange(0.0, d, 2.0) / d)))
        r = self.r(torch.cat([angle.sin(), angle.cos()], dim=-1))
        q, k, v = self.q(x), self.k(x), self.v(x)
        ac = torch.einsum("bid,bjd->bij", q + self.u, k)
        bd = torch.einsum("bid,jd->bij", q + self.w, r)
        bd = torch.cat([bd.new_zeros(b, t, 1), bd], dim=2).view(b, t + 1, t)[:, 1:].view_as(ac)
        mask = torch.ones(t, t, dtype=torch.bool).triu(1)
        scores = ((ac + bd) / d**0.5).masked_fill(mask, -1e30)
        return torch.bmm(F.softmax(scores, dim=-1), v)


@module("linear attention", ROWS, ROWS)
class LinearAttention(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.to_qkv = nn.Linear(d, 3 * d)

    def forward(self, x):
        q, k, v = self.to_qkv(x).tensor_split(3, dim=-1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.cumsum(torch.einsum("btd,bte->btde", k, v), dim=1)
        z = 1 / (torch.einsum("btd,btd->bt", q, k.cumsum(1)) + 1e-6)
        return torch.einsum("btd,btde,bt->bte", q, kv, z)


@module("Performer", ROWS, ROWS)
class Performer(nn.Module):
    def __init__(self, d=8, features=6):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        q, _ = torch.linalg.qr(torch.randn(d, d))
        self.register_buffer("projection", q[:features] * math.sqrt(d))

    def kernel(self, x):
        x = x * x.shape[-1] ** -0.25
        y = torch.einsum("...d,md->...m", x, self.projection)
        half = x.pow(2).sum(-1, keepdim=True) / 2
        return (torch.exp(y - half - y.amax(dim=(-1, -2), keepdim=True).detach()) + 1e-4) / math.sqrt(
            y.shape[-1]
        )

    def forward(self, x):
        q, k, v = self.kernel(self.query(x)), self.kernel(self.key(x)), self.value(x)
        return (q @ (k.transpose(-1, -2) @ v)) / (q @ k.sum(dim=-2).unsqueeze(-1))


@module("Linformer", ROWS, ROWS)
class Linformer(nn.Module):
    def __init__(self, length=6, d=8, k=3):
        super().__init__()
        self.E, self.F = nn.Parameter(torch.empty(length, k)), nn.Parameter(torch.empty(length, k))
        nn.init.xavier_uniform_(self.E), nn.init.xavier_uniform_(self.F)
        self.attention = nn.MultiheadAttention(d, 2, dropout=0.0, batch_first=True)

    def forward(self, x):
        keys, values = (torch.einsum("bnd,nk->bkd", x, p) for p in (self.E, self.F))
        return self.attention(x, keys, values, need_weights=False)[0]
