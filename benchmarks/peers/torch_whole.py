"""A whole step of PyTorch, forward, backward and update, as one graph of its operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.func import functional_call
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.peers.torch_case import batch_of, loss_of, net_of
from benchmarks.peers.worker import Case

Arrays = list[torch.Tensor]


class Whole(NamedTuple):
    """The graph, and the arrays that it updates in place: parameters, buffers, the optimiser's state."""

    graph: GraphModule
    arguments: tuple[Arrays, Arrays, Arrays, torch.Tensor, torch.Tensor]


def sgd(
    state: Arrays, parameters: Arrays, gradients: Sequence[torch.Tensor], rate: float, momentum: float = 0
) -> None:
    """Gradient descent in place, with momentum if asked for."""
    for k, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
        if momentum:
            g = state[k].mul_(momentum).add_(g)
        p.sub_(rate * g)


def adamw(
    state: Arrays, parameters: Arrays, gradients: Sequence[torch.Tensor], rate: float, weight_decay: float = 0
) -> None:
    """Adam with decoupled weight decay in place, with the constants that PyTorch takes by default."""
    [count, *moments] = state
    count.add_(1)
    first, second = 1 - 0.9**count, 1 - 0.999**count
    for k, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
        m = moments[2 * k].mul_(0.9).add_(0.1 * g)
        v = moments[2 * k + 1].mul_(0.999).add_(0.001 * g * g)
        p.mul_(1 - rate * weight_decay)
        p.sub_(rate * (m / first) / ((v / second).sqrt() + 1e-8))


def state_of(kind: str, parameters: Arrays) -> Arrays:
    """Return the optimiser's first state: for each parameter one array or two."""
    if kind == "sgd":
        return [torch.zeros_like(p) for p in parameters]
    return [
        torch.zeros((), device=parameters[0].device),
        *(torch.zeros_like(p) for p in parameters for _ in range(2)),
    ]


def whole(case: Case) -> Whole:
    """Return the step of a case."""
    net, (x, y), loss = net_of(case, training=True), batch_of(case), loss_of(case)
    numbers = dict(case.spec["optimiser"])
    kind = numbers.pop("kind", "sgd")
    update = {"sgd": sgd, "adam": adamw, "adamw": adamw}[kind]
    names, kept = list(dict(net.named_parameters())), list(dict(net.named_buffers()))
    p = [each.detach() for each in net.parameters()]

    def step(p: Arrays, m: Arrays, s: Arrays, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        live = [each.detach().requires_grad_() for each in p]
        with torch.enable_grad():
            arrays = dict(zip(names + kept, live + m, strict=True))
            value = loss(functional_call(net, arrays, (x,)), y)
            gradients = torch.autograd.grad(value, live)
        with torch.no_grad():
            update(s, p, gradients, **numbers)
        return value.detach()

    def fresh() -> Any:
        return [each.clone() for each in p], [b.clone() for b in net.buffers()], state_of(kind, p), x, y

    return Whole(make_fx(step)(*fresh()), fresh())
