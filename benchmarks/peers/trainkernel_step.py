"""trainkernel (PyPI): a whole step of PyTorch as one cooperative kernel, captured in a CUDA graph.

The graph also copies new parameters to where the next step reads them, unless they are there already.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.func import functional_call

from benchmarks.peers.gpu_worker import GpuWorker
from benchmarks.peers.torch_case import batch_of, loss_of, net_of
from benchmarks.peers.torch_gpu import replayed
from benchmarks.peers.worker import Case, Makers, Timed, serve


def mean_square(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Compute the loss from operations that it supports; `mse_loss` is none of them."""
    return ((scores - y) ** 2).mean()


def stepping(case: Case) -> Timed:
    """One captured step. Raises: ValueError for what trainkernel does not support."""
    import trainkernel

    numbers = dict(case.spec["optimiser"])
    rate = numbers.pop("rate")
    if numbers:
        raise ValueError("the optimiser must be plain gradient descent for trainkernel")
    net, (x, y) = net_of(case, training=True), batch_of(case)
    loss = mean_square if case.spec["loss"] == "mse" else loss_of(case)
    parameters = {name: array.detach().clone() for name, array in net.named_parameters()}

    def step(p: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        gradients, value = torch.func.grad_and_value(lambda p: loss(functional_call(net, p, (x,)), y))(p)
        return value, gradients, {name: p[name] - rate * gradients[name] for name in p}

    first = {name: array.clone() for name, array in parameters.items()}
    compiled = trainkernel.compile_training(step, (parameters, x, y))
    for _ in range(3):
        compiled(parameters, x, y)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        value, _, new = compiled(parameters, x, y)
        for name, array in parameters.items():
            if new[name].data_ptr() != array.data_ptr():
                array.copy_(new[name])
    for name, array in parameters.items():
        array.copy_(first[name])
    return replayed(captured, value)


def makers(case: Case) -> Makers:
    """The step only."""
    return {"step": lambda: stepping(case)}


if __name__ == "__main__":
    serve(makers, GpuWorker)
