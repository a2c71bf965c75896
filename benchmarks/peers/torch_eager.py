"""PyTorch as most people use it: autograd and the fused optimisers of torch.optim.

Embeddings have sparse gradients where SGD takes them, which is faster. With the word `channels_last`, images
have that memory format, which some convolutions are faster with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.peers import torch_case
from benchmarks.peers.torch_nets.names import places
from benchmarks.peers.worker import Case, Makers, Timed, serve

CHANNELS_LAST = "channels_last"


def prepared(case: Case, training: bool) -> Any:
    """Return the model, x and y in the memory format of the case."""
    net, (x, y) = torch_case.net_of(case, training), torch_case.batch_of(case)
    torch_case.with_sparse_gradients(case, net)
    if CHANNELS_LAST in case.flags:
        return net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last), y
    return net, x, y


def stepping(case: Case) -> Timed:
    """One step of training."""
    (net, x, y), loss = prepared(case, training=True), torch_case.loss_of(case)
    step = torch_case.stepped(torch_case.optimiser_of(case, net), lambda: loss(net(x), y))

    def parameters() -> dict[str, np.ndarray]:
        return {name: array.numpy() for name, array in places(net, case.parameters).items()}

    return Timed(step, parameters=parameters)


def predicting(case: Case) -> Timed:
    """Return the output."""
    net, x, _ = prepared(case, training=False)

    @torch.inference_mode()
    def predict() -> torch.Tensor:
        return net(x)

    return Timed(predict)


def makers(case: Case) -> Makers:
    """The measures of PyTorch; only images have channels."""
    if CHANNELS_LAST in case.flags and case.arrays["x"].ndim != 4:
        return {}
    return {"step": lambda: stepping(case), "predict": lambda: predicting(case)}


if __name__ == "__main__":
    serve(makers)
