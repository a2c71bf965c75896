"""torch.compile: of the model with its loss (`parts`), or of the whole step as one graph (`whole`)."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.peers.torch_nets import batch_of, loss_of, net_of, optimiser_of
from benchmarks.peers.torch_whole import whole
from benchmarks.peers.worker import Case, Makers, Timed, serve


def step_in_parts(case: Case) -> Timed:
    """One step of training, with the compiled model and autograd."""
    net, (x, y), loss = net_of(case, training=True), batch_of(case), loss_of(case)
    optimiser = optimiser_of(case, net)

    @torch.compile(fullgraph=True)
    def compiled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return loss(net(x), y)

    def step() -> Any:
        optimiser.zero_grad()
        value = compiled(x, y)
        value.backward()
        optimiser.step()
        return value.detach()

    return Timed(step)


def whole_step(case: Case) -> Timed:
    """One step of training in one call."""
    graph, arguments = whole(case)
    compiled = torch.compile(graph, fullgraph=True)
    return Timed(torch.no_grad()(lambda: compiled(*arguments)))


def predicting(case: Case) -> Timed:
    """Return the output."""
    net, (x, _) = net_of(case, training=False), batch_of(case)
    compiled = torch.compile(net, fullgraph=True)
    return Timed(torch.inference_mode()(lambda: compiled(x)))


def makers(case: Case) -> Makers:
    """The measures of torch.compile; predictions have no parts."""
    if case.word == "parts":
        return {"step": lambda: step_in_parts(case)}
    return {"step": lambda: whole_step(case), "predict": lambda: predicting(case)}


if __name__ == "__main__":
    serve(makers)
