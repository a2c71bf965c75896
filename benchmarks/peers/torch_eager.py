"""PyTorch as most people use it: autograd and the fused optimisers of torch.optim."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.peers.torch_nets import batch_of, loss_of, net_of, optimiser_of, places
from benchmarks.peers.worker import Case, Makers, Timed, serve


def stepping(case: Case) -> Timed:
    """One step of training."""
    net, (x, y), loss = net_of(case, training=True), batch_of(case), loss_of(case)
    optimiser = optimiser_of(case, net)

    def step() -> Any:
        optimiser.zero_grad()
        value = loss(net(x), y)
        value.backward()
        optimiser.step()
        return value.detach()

    def parameters() -> Any:
        return {name: array.numpy() for name, array in places(net, case.parameters).items()}

    return Timed(step, parameters=parameters)


def predicting(case: Case) -> Timed:
    """Return the output."""
    net, (x, _) = net_of(case, training=False), batch_of(case)

    @torch.inference_mode()
    def predict() -> Any:
        return net(x)

    return Timed(predict)


def makers(case: Case) -> Makers:
    """The measures of PyTorch."""
    return {"step": lambda: stepping(case), "predict": lambda: predicting(case)}


if __name__ == "__main__":
    serve(makers)
