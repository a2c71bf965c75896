"""Fields and physics: implicit functions, differential equations, splines, arithmetic."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import adam, mean, module, real, uniform  # noqa: E402

nn, F = torch.nn, torch.nn.functional


class Sine(nn.Module):
    def __init__(self, n, m, first=False, omega=30.0):
        super().__init__()
        self.omega, self.linear = omega, nn.Linear(n, m)
        with torch.no_grad():
            bound = 1 / n if first else math.sqrt(6 / n) / omega
            self.linear.weight.uniform_(-bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.linear(x))


@module("SIREN", real("n", 2), real("n", 1), F.mse_loss, adam)
def siren():
    return nn.Sequential(Sine(2, 8, first=True), Sine(8, 8), nn.Linear(8, 1))


@module("NeRF", (real("n", 5, 3), uniform("n", 5)), real("n", 3))
class NeRF(nn.Module):
    def __init__(self, frequencies=3):
        super().__init__()
        self.bands = 2.0 ** torch.linspace(0.0, frequencies - 1, frequencies)
        self.net = nn.Sequential(nn.Linear(3 + 6 * frequencies, 16), nn.ReLU(), nn.Linear(16, 4))

    def encode(self, x):
        return torch.cat([x] + [f(x * b) for b in self.bands for f in (torch.sin, torch.cos)], -1)

    def forward(self, points, z):
        z, _ = torch.sort(z, dim=-1)
        raw = self.net(self.encode(points))
        rgb, sigma = torch.sigmoid(raw[..., :3]), F.relu(raw[..., 3])
        dists = torch.cat([z[..., 1:] - z[..., :-1], torch.Tensor([1e10]).expand(z[..., :1].shape)], -1)
        alpha = 1.0 - torch.exp(-sigma * dists)
        ones = torch.ones((alpha.shape[0], 1))
        weights = alpha * torch.cumprod(torch.cat([ones, 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
        return torch.sum(weights[..., None] * rgb, -2)


@module("hash grid", uniform("n", 2), real("n", 1))
class HashGrid(nn.Module):
    def __init__(self, size=16, levels=2):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 2) for _ in range(levels))
        self.size, self.out = size, nn.Linear(2 * levels, 1)

    def forward(self, x):
        features = []
        for level, table in enumerate(self.tables):
            scaled = x * (3 * 2**level)
            low, w, total = scaled.floor().long(), scaled - scaled.floor(), 0
            for dx in (0, 1):
                for dy in (0, 1):
                    i, j = low[:, 0] + dx, low[:, 1] + dy
                    index = ((i * 1) ^ (j * 2654435761)) % self.size
                    share = (w[:, 0] if dx else 1 - w[:, 0]) * (w[:, 1] if dy else 1 - w[:, 1])
                    total = total + share.unsqueeze(-1) * table(index)
            features.append(total)
        return self.out(torch.cat(features, -1))


@module("KAN", uniform("n", 3), real("n", 2))
class KANLayer(nn.Module):
    def __init__(self, n=3, m=2, grid=4, k=3):
        super().__init__()
        h, self.k = 2 / grid, k
        self.register_buffer("grid", (torch.arange(-k, grid + k + 1) * h - 1).expand(n, -1).contiguous())
        self.base, self.spline = (
            nn.Parameter(torch.randn(m, n) * 0.3),
            nn.Parameter(torch.randn(m, n, grid + k) * 0.1),
        )

    def bases(self, x):
        x, grid = x.unsqueeze(-1), self.grid
        b = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
        for k in range(1, self.k + 1):
            left = (x - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)]) * b[:, :, :-1]
            b = left + (grid[:, k + 1 :] - x) / (grid[:, k + 1 :] - grid[:, 1:(-k)]) * b[:, :, 1:]
        return b.contiguous()

    def forward(self, x):
        return F.linear(F.silu(x), self.base) + F.linear(
            self.bases(x).view(x.size(0), -1), self.spline.view(self.spline.size(0), -1)
        )


@module("neural ODE", real("n", 2), real("n", 2))
class NeuralODE(nn.Module):
    def __init__(self, steps=4):
        super().__init__()
        self.f, self.steps = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)), steps

    def field(self, t, y):
        return self.f(torch.cat([y, torch.ones_like(y[:, :1]) * t], 1))

    def forward(self, y):
        t, h = 0.0, 1.0 / self.steps
        while t < 1.0 - 1e-9:
            k1 = self.field(t, y)
            k2 = self.field(t + h / 2, y + h / 2 * k1)
            k3 = self.field(t + h / 2, y + h / 2 * k2)
            k4 = self.field(t + h, y + h * k3)
            y, t = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), t + h
        return y


@module("deep equilibrium by iteration", real("n", 4), real("n", 4))
class Equilibrium(nn.Module):
    def __init__(self, iterations=6):
        super().__init__()
        self.W, self.U, self.iterations = nn.Linear(4, 4, bias=False), nn.Linear(4, 4), iterations
        nn.utils.parametrizations.spectral_norm(self.W)

    def forward(self, x):
        with torch.no_grad():
            z = torch.zeros_like(x)
            for _ in range(self.iterations):
                z = torch.tanh(0.9 * self.W(z) + self.U(x))
        return torch.tanh(0.9 * self.W(z) + self.U(x))


@module("PINN of a heat equation", (uniform("n", 2), uniform("n", 1)), (), mean, adam)
class HeatPINN(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, xt, x0):
        x, t = xt[:, :1].requires_grad_(), xt[:, 1:].requires_grad_()
        u = self.net(torch.cat([x, t], 1))
        u_x, u_t = torch.autograd.grad(u, (x, t), torch.ones_like(u), create_graph=True)
        u_xx = torch.autograd.grad(u_x, x, torch.ones_like(u_x), create_graph=True)[0]
        start = self.net(torch.cat([x0, torch.zeros_like(x0)], 1))
        return (u_t - 0.1 * u_xx).square().mean() + (start - torch.sin(math.pi * x0)).square().mean()


@module("Hamiltonian network", real("n", 4), real("n", 4))
class Hamiltonian(nn.Module):
    def __init__(self):
        super().__init__()
        self.H = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1))

    def forward(self, x):
        gradient = torch.vmap(torch.func.grad(lambda z: self.H(z).squeeze(-1)))(x)
        return torch.cat([gradient[:, 2:], -gradient[:, :2]], dim=-1)


@module("Fourier neural operator", real("n", 2, 8), real("n", 1, 8))
class FourierOperator(nn.Module):
    def __init__(self, width=3, modes=3):
        super().__init__()
        self.lift, self.w, self.project = (
            nn.Conv1d(2, width, 1),
            nn.Conv1d(width, width, 1),
            nn.Conv1d(width, 1, 1),
        )
        self.re, self.im = (nn.Parameter(torch.randn(width, width, modes) * 0.3) for _ in range(2))
        self.modes = modes

    def forward(self, x):
        x = self.lift(x)
        spectrum = torch.fft.rfft(x, norm="ortho")
        weight = torch.complex(self.re, self.im)
        low = torch.einsum("bix,iox->box", spectrum[:, :, : self.modes], weight)
        low = F.pad(low, (0, spectrum.size(-1) - self.modes))
        return self.project(F.gelu(torch.fft.irfft(low, n=x.size(-1), norm="ortho") + self.w(x)))


@module("DeepONet", (real("n", 6), uniform("n", 1)), real("n", 1))
class DeepONet(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch, self.trunk = (
            nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5)),
            nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 5)),
        )
        self.b = nn.parameter.Parameter(torch.tensor(0.0))

    def forward(self, u, y):
        return torch.einsum("bi,bi->b", self.branch(u), self.trunk(y)).unsqueeze(1) + self.b


@module("NALU", uniform("n", 3), uniform("n", 2), nn.SmoothL1Loss(beta=0.3))
class NALU(nn.Module):
    def __init__(self, n=3, m=2):
        super().__init__()
        self.W_hat, self.M_hat, self.G = (nn.Parameter(torch.Tensor(m, n)) for _ in range(3))
        for p in self.parameters():
            nn.init.kaiming_uniform_(p, a=math.sqrt(5))

    def forward(self, x):
        W = torch.tanh(self.W_hat) * torch.sigmoid(self.M_hat)
        g = torch.sigmoid(F.linear(x, self.G))
        return g * F.linear(x, W) + (1 - g) * torch.exp(F.linear(torch.log(torch.abs(x) + 1e-7), W))


@module("input convex network", (real("n", 3), real("n", 2)), real("n", 1))
class InputConvex(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wx = nn.ModuleList([nn.Linear(5, 6), nn.Linear(5, 1)])
        self.Wz = nn.ParameterList([torch.randn(1, 6) * 0.3])

    def forward(self, x, y):
        xy = torch.hstack((x, y))
        z = F.softplus(self.Wx[0](xy))
        return F.linear(z, self.Wz[0].clamp(min=0)) + self.Wx[1](xy) + 0.5 * xy.square().sum(-1, True)


@module("Gaussian process", (real(5, 2), real(5)), (), mean, adam)
class GaussianProcess(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_length, self.log_noise = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.tensor(-1.0))

    def forward(self, x, y):
        d = (x / self.log_length.exp()).unsqueeze(1) - (x / self.log_length.exp()).unsqueeze(0)
        K = torch.exp(-0.5 * d.pow(2).sum(-1)) + self.log_noise.exp() * torch.eye(x.size(0))
        L = torch.linalg.cholesky(K)
        alpha = torch.cholesky_solve(y.unsqueeze(-1), L)
        return (
            0.5 * (y @ alpha.squeeze(-1)) + L.diagonal().log().sum() + 0.5 * x.size(0) * math.log(2 * math.pi)
        )
