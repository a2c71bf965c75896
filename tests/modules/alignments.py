"""Paths through sequences, and forecasts: chains, alignments, pointers, series."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import adam, mean, module, real, signs, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional


@module("linear-chain CRF", (real("n", 5, 4), whole(3, "n", 5), signs("n", 5)), (), mean)
class CRF(nn.Module):
    def __init__(self, tags=3):
        super().__init__()
        self.emit, self.transitions = (
            nn.Linear(4, tags),
            nn.Parameter(torch.empty(tags, tags).uniform_(-0.1, 0.1)),
        )
        self.start, self.end = nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))

    def forward(self, x, tags, mask):
        mask, emissions = mask.bool(), self.emit(x).transpose(0, 1)
        tags, mask = tags.t(), mask.t().logical_or(torch.tensor([True] + [False] * 4)[:, None])
        rows = torch.arange(x.size(0))
        score = self.start[tags[0]] + emissions[0, rows, tags[0]]
        alpha = self.start + emissions[0]
        for i in range(1, emissions.size(0)):
            step = self.transitions[tags[i - 1], tags[i]] + emissions[i, rows, tags[i]]
            score += step * mask[i]
            new = torch.logsumexp(alpha.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1), dim=1)
            alpha = torch.where(mask[i].unsqueeze(1), new, alpha)
        last = tags[mask.long().sum(dim=0) - 1, rows]
        return torch.logsumexp(alpha + self.end, dim=1) - score - self.end[last]


@module(
    "CTC recogniser",
    (real("n", 8, 4), whole(2, "n")),
    whole(5, "n", 3),
    lambda logp, lengths, t: F.ctc_loss(
        logp, t + 1, lengths, torch.full((t.size(0),), 3), zero_infinity=True
    ),
)
class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.fc = nn.LSTM(4, 5, bidirectional=True, batch_first=True), nn.Linear(10, 6)

    def forward(self, x, shortening):
        y, _ = self.rnn(x)
        return self.fc(y).log_softmax(2).permute(1, 0, 2), 8 - shortening


@module(
    "pointer network", real("n", 5, 2), whole(5, "n", 3), lambda y, t: F.nll_loss(y.transpose(1, 2), t), adam
)
class Pointer(nn.Module):
    def __init__(self, h=6):
        super().__init__()
        self.encoder, self.cell = nn.LSTM(2, h, batch_first=True), nn.LSTMCell(2, h)
        self.W1, self.W2, self.v = nn.Linear(h, h), nn.Linear(h, h), nn.Linear(h, 1)

    def forward(self, x):
        keys, (h, c) = self.encoder(x)
        state, point, mask, out = (h[-1], c[-1]), torch.zeros_like(x[:, 0]), torch.zeros(x.shape[:2]), []
        for _ in range(3):
            state = self.cell(point, state)
            scores = self.v(torch.tanh(self.W1(keys) + self.W2(state[0])[:, None])).squeeze(-1) - 10.0 * mask
            out.append(F.log_softmax(scores, -1))
            chosen = scores.argmax(-1)
            mask = mask + F.one_hot(chosen, 5)
            point = x[torch.arange(x.size(0)), chosen]
        return torch.stack(out, 1)


@module("DeepAR", real("n", 6, 1), (), mean)
class DeepAR(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.mu, self.sigma = (
            nn.GRU(1, 6, num_layers=2, batch_first=True),
            nn.Linear(6, 1),
            nn.Linear(6, 1),
        )

    def forward(self, x):
        scale = x.abs().mean(1, keepdim=True) + 1.0
        h, _ = self.rnn(x[:, :-1] / scale)
        dist = torch.distributions.StudentT(4.0, self.mu(h) * scale, F.softplus(self.sigma(h)) * scale)
        return -dist.log_prob(x[:, 1:])


@module("N-BEATS", real("n", 8), real("n", 4), nn.HuberLoss(delta=0.5))
class NBeats(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 10), nn.ReLU(), nn.Linear(10, 3 + 3)) for _ in range(2)
        )
        t = torch.linspace(0, 1, 12)
        self.register_buffer("basis", torch.stack([t**i for i in range(3)]))

    def forward(self, x):
        forecast = torch.zeros(x.size(0), 4)
        for block in self.blocks:
            back, ahead = block(x).split(3, -1)
            x = x - back @ self.basis[:, :8]
            forecast = forecast + ahead @ self.basis[:, 8:]
        return forecast


@module("DLinear with instance norm", real("n", 8, 2), real("n", 4, 2))
class DLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool, self.trend, self.season = (
            nn.AvgPool1d(3, stride=1, padding=0),
            nn.Linear(8, 4),
            nn.Linear(8, 4),
        )

    def forward(self, x):
        mu = x.mean(1, keepdim=True).detach()
        sd = torch.sqrt(x.var(dim=1, keepdim=True, unbiased=False) + 1e-5).detach()
        x = (x - mu) / sd
        ends = torch.cat([x[:, 0:1].repeat(1, 1, 1), x, x[:, -1:].repeat(1, 1, 1)], dim=1)
        trend = self.pool(ends.permute(0, 2, 1))
        y = self.trend(trend) + self.season(x.permute(0, 2, 1) - trend)
        return y.permute(0, 2, 1) * sd + mu
