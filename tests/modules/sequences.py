"""Sequences: recurrences, scans, convolutions in time, translation, alignment."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import module, real, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional
ROWS = real("n", 6, 4)


@module(
    "GRU translation with attention",
    (whole(9, "n", 5), whole(7, "n", 4)),
    whole(7, "n", 4),
    lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten()),
)
class Translator(nn.Module):
    def __init__(self, h=6):
        super().__init__()
        self.source, self.target = nn.Embedding(9, h), nn.Embedding(7, h)
        self.encoder, self.cell = nn.GRU(h, h, batch_first=True, bidirectional=True), nn.GRUCell(3 * h, h)
        self.score, self.out = nn.Linear(3 * h, 1), nn.Linear(h, 7)

    def forward(self, source, target):
        states, last = self.encoder(self.source(source))
        h, outputs = torch.tanh(last[0] + last[1]), []
        for t in range(target.size(1)):
            query = h.unsqueeze(1).expand(-1, states.size(1), -1)
            weights = F.softmax(self.score(torch.cat([query, states], 2)).squeeze(2), dim=1)
            context = torch.bmm(weights.unsqueeze(1), states).squeeze(1)
            h = self.cell(torch.cat([self.target(target[:, t]), context], dim=1), h)
            outputs.append(self.out(h))
        return torch.stack(outputs, dim=1)


@module("ConvLSTM", real("n", 3, 2, 5, 5), real("n", 3, 5, 5))
class ConvLSTM(nn.Module):
    def __init__(self, hidden=3):
        super().__init__()
        self.hidden, self.conv = hidden, nn.Conv2d(2 + hidden, 4 * hidden, 3, padding=1)

    def forward(self, x):
        b, t, _, height, width = x.size()
        h = torch.zeros(b, self.hidden, height, width, device=self.conv.weight.device)
        c = torch.zeros_like(h)
        for k in range(t):
            i, f, o, g = torch.split(self.conv(torch.cat([x[:, k], h], dim=1)), self.hidden, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h


@module("TCN", real("n", 2, 10), real("n", 1, 10))
class TemporalConv(nn.Module):
    def __init__(self):
        super().__init__()
        norm = nn.utils.weight_norm
        self.convs = nn.ModuleList(
            norm(nn.Conv1d(a, 4, 3, dilation=d, padding=2 * d)) for a, d in ((2, 1), (4, 2), (4, 4))
        )
        self.skip, self.out = nn.Conv1d(2, 4, 1), nn.Conv1d(4, 1, 1)

    def forward(self, x):
        h = x
        for conv in self.convs:
            y = conv(h)
            y = y[:, :, : -conv.padding[0]].contiguous()
            h = F.relu(F.relu(y) + (h if h.size(1) == 4 else self.skip(h)))
        return self.out(h)


@module("WaveNet", whole(8, "n", 12), whole(8, "n", 12), F.cross_entropy)
class WaveNet(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        self.embed, self.dilations = nn.Embedding(8, c), [1, 2, 4]
        self.filters = nn.ModuleList([nn.Conv1d(c, c, 2, dilation=d) for d in self.dilations])
        self.gates = nn.ModuleList([nn.Conv1d(c, c, 2, dilation=d) for d in self.dilations])
        self.skips, self.residuals = (
            nn.ModuleList([nn.Conv1d(c, c, 1) for _ in self.dilations]) for _ in range(2)
        )
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(c, 8, 1), nn.ReLU(), nn.Conv1d(8, 8, 1))

    def forward(self, x):
        x, skip = self.embed(x).transpose(1, 2), 0
        for d, f, g, s, r in zip(
            self.dilations, self.filters, self.gates, self.skips, self.residuals, strict=False
        ):
            padded = F.pad(x, (d, 0))
            h = torch.tanh(f(padded)) * torch.sigmoid(g(padded))
            skip = skip + s(h)
            x = x + r(h)
        return self.end(skip)


@module("QRNN pooling", ROWS, ROWS)
class QuasiRecurrent(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.conv = nn.Conv1d(d, 3 * d, 2, padding=1)

    def forward(self, x):
        z, f, o = self.conv(x.transpose(1, 2))[..., :-1].chunk(3, dim=1)
        z, f, o = z.tanh(), f.sigmoid(), o.sigmoid()
        c, out = torch.zeros_like(z[..., 0]), []
        for t in range(x.shape[1]):
            c = f[..., t] * c + (1 - f[..., t]) * z[..., t]
            out.append(o[..., t] * c)
        return torch.stack(out, 1)


@module("S4D kernel", ROWS, ROWS)
class DiagonalStateSpace(nn.Module):
    def __init__(self, d=4, n=3):
        super().__init__()
        self.log_dt, self.C = nn.Parameter(torch.rand(d) - 3), nn.Parameter(torch.randn(d, n, 2))
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(d, n)))
        self.A_imag, self.D = (
            nn.Parameter(torch.pi * torch.arange(n).float().repeat(d, 1)),
            nn.Parameter(torch.randn(d)),
        )

    def forward(self, u):
        u, length = u.transpose(1, 2), u.size(1)
        C, dt, A = torch.view_as_complex(self.C), self.log_dt.exp(), -self.log_A_real.exp() + 1j * self.A_imag
        dtA = A * dt.unsqueeze(-1)
        K = dtA.unsqueeze(-1) * torch.arange(length)
        C = C * (torch.exp(dtA) - 1.0) / A
        k = 2 * torch.einsum("hn,hnl->hl", C, torch.exp(K)).real
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * torch.fft.rfft(k, n=2 * length), n=2 * length)
        return F.gelu(y[..., :length] + u * self.D.unsqueeze(-1)).transpose(1, 2)


@module("selective scan", ROWS, ROWS)
class SelectiveScan(nn.Module):
    def __init__(self, d=4, n=3):
        super().__init__()
        self.in_proj, self.x_proj, self.dt_proj = (
            nn.Linear(d, 2 * d),
            nn.Linear(d, 1 + 2 * n),
            nn.Linear(1, d),
        )
        self.A_log, self.D = (
            nn.Parameter(torch.log(torch.arange(1, n + 1).float().repeat(d, 1))),
            nn.Parameter(torch.ones(d)),
        )
        self.n, self.out = n, nn.Linear(d, d)

    def forward(self, x):
        u, z = self.in_proj(x).chunk(2, dim=-1)
        u = F.silu(u)
        dt, B, C = self.x_proj(u).split([1, self.n, self.n], dim=-1)
        dt, A = F.softplus(self.dt_proj(dt)), -torch.exp(self.A_log.float())
        dA, dBu = torch.exp(torch.einsum("bld,dn->bldn", dt, A)), torch.einsum("bld,bln,bld->bldn", dt, B, u)
        h, ys = torch.zeros(x.size(0), u.size(2), self.n, device=x.device), []
        for i in range(x.size(1)):
            h = dA[:, i] * h + dBu[:, i]
            ys.append(torch.einsum("bdn,bn->bd", h, C[:, i, :]))
        return self.out((torch.stack(ys, dim=1) + u * self.D) * F.silu(z))


@module("RWKV time mixing", ROWS, ROWS)
class TimeMixing(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.decay, self.first = nn.Parameter(torch.linspace(-2, 0, d)), nn.Parameter(torch.ones(d) * 0.3)
        self.mix_k, self.shift = nn.Parameter(torch.full((1, 1, d), 0.5)), nn.ZeroPad2d((0, 0, 1, -1))
        self.key, self.value, self.receptance = (nn.Linear(d, d, bias=False) for _ in range(3))

    def forward(self, x):
        xk = x * self.mix_k + self.shift(x) * (1 - self.mix_k)
        k, v, r, w = self.key(xk), self.value(xk), torch.sigmoid(self.receptance(xk)), -torch.exp(self.decay)
        a, b = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0])
        top, out = torch.full_like(a, -1e38), []
        for t in range(x.shape[1]):
            q = torch.maximum(top, self.first + k[:, t])
            e1, e2 = torch.exp(top - q), torch.exp(self.first + k[:, t] - q)
            out.append((e1 * a + e2 * v[:, t]) / (e1 * b + e2))
            q = torch.maximum(top + w, k[:, t])
            e1, e2 = torch.exp(top + w - q), torch.exp(k[:, t] - q)
            a, b, top = e1 * a + e2 * v[:, t], e1 * b + e2, q
        return r * torch.stack(out, 1)


@module("RetNet retention", ROWS, ROWS)
class Retention(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.q, self.k, self.v, self.g = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.norm, self.gamma = nn.GroupNorm(2, d), 0.9

    def forward(self, x):
        _b, t, d = x.shape
        n = torch.arange(t).unsqueeze(1)
        decay = (self.gamma ** (n - n.T)).float() * (n >= n.T).float()
        decay[decay != decay] = 0
        y = ((self.q(x) @ self.k(x).permute(0, 2, 1)) * decay.unsqueeze(0)) @ self.v(x)
        return self.norm(y.reshape(-1, d)).reshape(x.shape) * F.silu(self.g(x))


@module("minimal gated unit", ROWS, real("n", 4))
class MinimalGated(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.f, self.h = nn.Linear(2 * d, d), nn.Linear(2 * d, d)

    def forward(self, x):
        state = torch.zeros(x.size(0), x.size(2)).to(x)
        for row in x.unbind(1):
            f = torch.sigmoid(self.f(torch.cat((row, state), -1)))
            state = (1 - f) * state + f * torch.tanh(self.h(torch.cat((row, f * state), -1)))
        return state


@module("echo state network", ROWS, real("n", 2))
class EchoState(nn.Module):
    def __init__(self, d=4, n=8):
        super().__init__()
        w = torch.randn(n, n)
        self.register_buffer("w", w * 0.9 / torch.linalg.eigvals(w).abs().max())
        self.win, self.readout = nn.Parameter(torch.randn(n, d), requires_grad=False), nn.Linear(n, 2)

    def forward(self, x):
        with torch.no_grad():
            h = x.new_zeros(x.size(0), self.w.size(0))
            for t in range(x.size(1)):
                h = 0.7 * h + 0.3 * torch.tanh(x[:, t] @ self.win.t() + h @ self.w.t())
        return self.readout(h)
