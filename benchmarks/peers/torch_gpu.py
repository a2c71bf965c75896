"""PyTorch on a GPU: eager, as a CUDA graph captured by hand, or compiled.

Words: `eager`, `graph`, `whole/MODE` for torch.compile of the whole step as one graph of operations, and
`parts/MODE` for torch.compile of the model with its loss, beside the fused optimiser. After them, `/tf32`
allows TF32 in products and convolutions of float32, and `/channels_last` sets the memory format of images.
"""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.peers import torch_eager
from benchmarks.peers.gpu_worker import GpuWorker
from benchmarks.peers.torch_case import loss_of, optimiser_of, stepped
from benchmarks.peers.torch_whole import whole
from benchmarks.peers.worker import Case, Makers, Timed, serve

ON_THE_SIDE = 3
"""Steps before a capture, as PyTorch's documentation asks for."""


def fetched(losses: torch.Tensor) -> np.ndarray:
    """Copy losses to the host."""
    return losses.float().cpu().numpy()


def replayed(captured: torch.cuda.CUDAGraph, value: torch.Tensor) -> Timed:
    """Return the replay of a captured step, which writes its loss to a tensor."""
    return Timed(lambda: captured.replay() or value, fetch=fetched)


def graph(case: Case) -> Timed:
    """One step captured in a CUDA graph."""
    (net, x, y), loss = torch_eager.prepared(case, training=True), loss_of(case)
    optimiser = optimiser_of(case, net, captured=True)
    step = stepped(optimiser, lambda: loss(net(x), y))
    first = {name: array.clone() for name, array in net.state_dict().items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(ON_THE_SIDE):
            step()
    torch.cuda.current_stream().wait_stream(side)
    net.load_state_dict(first)
    for state in optimiser.state.values():
        for array in state.values():
            if isinstance(array, torch.Tensor):
                array.zero_()
    captured = torch.cuda.CUDAGraph()
    optimiser.zero_grad(set_to_none=True)
    with torch.cuda.graph(captured):
        value = step()

    return replayed(captured, value)


def step_in_parts(case: Case, mode: str) -> Timed:
    """One step of training, with the compiled model and autograd."""
    (net, x, y), loss = torch_eager.prepared(case, training=True), loss_of(case)
    compiled = torch.compile(lambda x, y: loss(net(x), y), fullgraph=True, mode=mode)
    return Timed(stepped(optimiser_of(case, net), lambda: compiled(x, y)), fetch=fetched)


def whole_step(case: Case, mode: str) -> Timed:
    """One step of training as one compiled graph."""
    step, arguments = whole(case)
    for array in (each for table in arguments[:3] for each in table):
        torch._dynamo.mark_static_address(array)  # or CUDA graphs are not used, as arguments change
    compiled = torch.compile(step, fullgraph=True, mode=mode)
    return Timed(torch.no_grad()(lambda: compiled(*arguments)), fetch=fetched)


def makers(case: Case) -> Makers:
    """The step in the form that the word names."""
    form, mode, *_ = [*case.word.split("/"), "default"]
    forms = {
        "eager": lambda: torch_eager.stepping(case),
        "graph": lambda: graph(case),
        "parts": lambda: step_in_parts(case, mode),
        "whole": lambda: whole_step(case, mode),
    }
    return {"step": forms[form]}


if __name__ == "__main__":
    serve(makers, GpuWorker)
