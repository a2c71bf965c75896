"""Modules that differentiate within forward train as in PyTorch, at any size of the batch."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import compile_module
from catgrad.errors import UnsupportedOp
from tests.covering import some

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

nn = torch.nn
grad, hessian, jacfwd, jacrev, jvp, vjp, vmap = (
    getattr(torch.func, name) for name in ("grad", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap")
)


class Net(nn.Module):
    """A function of a network and arrays."""

    def __init__(self, function, *parts):
        super().__init__()
        self.function, self.net = function, nn.Sequential(*parts)

    def forward(self, *arrays):
        return self.function(self.net, *arrays)


def mlp(function, inputs, outputs=1):
    return Net(function, nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


def slopes(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def burgers(net, x):
    """The residual of Burgers' equation, as of a physics-informed network."""
    x = x.requires_grad_(True)
    u = net(x)
    first = slopes(u, x)
    return first[:, 1:] + u * first[:, :1] - 0.01 * slopes(first[:, :1], x)[:, :1]


def burgers_by_rows(net, x):
    def u(a, t):
        return net(torch.cat([a, t]))[0]

    first = vmap(grad(u, argnums=(0, 1)))(x[:, :1], x[:, 1:])
    (second,) = vmap(hessian(u, argnums=(0,)))(x[:, :1], x[:, 1:])[0]
    return first[1] + net(x) * first[0] - 0.01 * second[:, 0]


def gradient_penalty(net, real, fake, share):
    """The loss of the critic of a Wasserstein GAN."""
    x = (share * real + (1 - share) * fake).requires_grad_(True)
    norms = slopes(net(x), x).flatten(1).norm(2, dim=1)
    return net(fake).mean() - net(real).mean() + 10 * ((norms - 1) ** 2).mean()


def hamiltonian(net, x):
    with torch.enable_grad():
        x = x.requires_grad_()
        energy = slopes(net(x).sum(), x)
    return torch.stack([energy[:, 1], -energy[:, 0]], 1)


def lagrangian(net, x):
    """The acceleration by the equation of Euler and Lagrange, with a mass matrix of one row."""

    def energy(z):
        return net(z)[0]

    def acceleration(z):
        curvature, slope = hessian(energy)(z), grad(energy)(z)
        return (slope[0] - curvature[1, 0] * z[1]) / (curvature[1, 1] + 1)

    return vmap(acceleration)(x)[:, None]


def adapted(net, x, y, query):
    """The inner step of MAML."""
    weights = dict(net.named_parameters())

    def loss(weights):
        return ((torch.func.functional_call(net, weights, (x,)) - y) ** 2).mean()

    slope = grad(loss)(weights)
    return torch.func.functional_call(net, {k: w - 0.1 * slope[k] for k, w in weights.items()}, (query,))


def adapted_by_autograd(net, x, y, query):
    weights = [net[0].weight, net[0].bias, net[2].weight, net[2].bias]
    steps = torch.autograd.grad(((net(x) - y) ** 2).mean(), weights, create_graph=True)
    a, b, c, d = (w - 0.1 * step for w, step in zip(weights, steps, strict=True))
    return torch.tanh(query @ a.T + b) @ c.T + d


def score_matching(net, x, v):
    x = x.requires_grad_()
    score = net(x)
    return ((slopes((score * v).sum(), x) * v).sum(1) + 0.5 * (score**2).sum(1)).mean()


def curved(net, x, v):
    return jvp(grad(lambda z: net(z).sum()), (x,), (v,))[1]


def constant_slopes(net, x):
    """Slopes without create_graph, which are constants for the training step, and a part that is detached."""
    x = x.requires_grad_()
    (slope,) = torch.autograd.grad(net(x).sum(), x, retain_graph=True)
    return net(x) * slope + net(x).detach() * slopes(net(x).sum(), x)


def critic(*parts):
    def penalty(net, x):
        x = (x * 1.0).requires_grad_(True)
        y = net(x)
        return y.mean() + ((slopes(y, x).flatten(1).norm(2, dim=1) - 1) ** 2).mean()

    return Net(penalty, *parts)


IMAGE = (1, 6, 6)

KINDS = {
    "burgers": (lambda: mlp(burgers, 2), [(2,)]),
    "burgers by rows": (lambda: mlp(burgers_by_rows, 2), [(2,)]),
    "gradient penalty": (lambda: mlp(gradient_penalty, 4), [(4,), (4,), (1,)]),
    "hamiltonian": (lambda: mlp(hamiltonian, 2), [(2,)]),
    "lagrangian": (lambda: mlp(lagrangian, 2), [(2,)]),
    "jacobian": (lambda: mlp(lambda net, x: (vmap(jacrev(net))(x) ** 2).sum((1, 2)).mean(), 3, 4), [(3,)]),
    "jacobian forward": (lambda: mlp(lambda net, x: vmap(jacfwd(net))(x).sum(2), 3, 4), [(3,)]),
    "maml": (lambda: mlp(adapted, 2), [(2,), (1,), (2,)]),
    "maml by autograd": (lambda: mlp(adapted_by_autograd, 2), [(2,), (1,), (2,)]),
    "hessian-vector": (lambda: mlp(curved, 3), [(3,), (3,)]),
    "jacobian-vector": (lambda: mlp(lambda net, x, v: jvp(net, (x,), (v,))[1], 3, 2), [(3,), (3,)]),
    "vector-jacobian": (lambda: mlp(lambda net, x, v: vjp(net, x)[1](v)[0], 3, 2), [(3,), (2,)]),
    "score": (lambda: mlp(score_matching, 3, 3), [(3,), (3,)]),
    "constants": (lambda: mlp(constant_slopes, 2), [(2,)]),
    "convolutions": (
        lambda: critic(nn.Conv2d(1, 3, 3, 2, 1), nn.SiLU(), nn.Conv2d(3, 2, 3), nn.Flatten()),
        [IMAGE],
    ),
    "instance norm": (
        lambda: critic(nn.Conv2d(1, 3, 3), nn.InstanceNorm2d(3, affine=True), nn.SiLU(), nn.Flatten()),
        [IMAGE],
    ),
    "batch norm": (lambda: critic(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.SiLU(), nn.Flatten()), [IMAGE]),
    "group norm": (lambda: critic(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.GELU(), nn.Flatten()), [IMAGE]),
    "layer norm": (lambda: critic(nn.Linear(5, 4), nn.LayerNorm(4), nn.ELU(), nn.Linear(4, 1)), [(5,)]),
    "pools": (
        lambda: critic(nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()),
        [IMAGE],
    ),
    "softmax": (lambda: critic(nn.Linear(5, 4), nn.Softmax(-1), nn.Linear(4, 3), nn.LogSoftmax(1)), [(5,)]),
}

QUICK = (
    "gradient penalty",
    "hamiltonian",
    "maml",
    "hessian-vector",
    "jacobian-vector",
    "vector-jacobian",
    "constants",
    "convolutions",
)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # PyTorch's own jvp calls it
@pytest.mark.parametrize("kind", some(KINDS, QUICK))
def test_derivatives_within_forward_train_as_in_pytorch(kind):
    make, shapes = KINDS[kind]
    torch.manual_seed(0)
    module = make().double()
    rng = np.random.default_rng(0)

    def drawn(size):
        return [torch.tensor(rng.normal(size=(size, *shape))) for shape in shapes]

    x = drawn(6)
    is_loss = module(*x).ndim == 0
    loss, targets = (lambda value: value, None) if is_loss else (nn.MSELoss(), module(*x).detach() + 0.1)
    optimiser = torch.optim.SGD(module.parameters(), 0.02)
    learner = compile_module(module, x, optimiser, loss, targets=targets)
    batches = [drawn(size) for size in (6, 5, 7, 6, 5)]
    ys = [
        [] if is_loss else [torch.tensor(rng.normal(size=(len(b[0]), *targets.shape[1:])))] for b in batches
    ]
    learner.verify([(*b, *y) for b, y in zip(batches, ys, strict=True)], steps=5).check()


def test_a_backward_within_forward_is_refused():
    def summed(net, x):
        net(x).sum().backward()
        return net(x)

    module = mlp(summed, 2)
    with pytest.raises(UnsupportedOp, match=r"calls backward\(\).*create_graph=True"):
        compile_module(module, torch.ones(2, 2), torch.optim.SGD(module.parameters(), 0.1), nn.MSELoss())
