"""torch.compile: of the whole step as one graph, and of the model with its parameters as constants."""

from __future__ import annotations

import torch

from benchmarks.peers.torch_case import batch_of, net_of
from benchmarks.peers.torch_whole import whole
from benchmarks.peers.worker import Case, Makers, Timed, serve


def whole_step(case: Case) -> Timed:
    """One step of training in one call."""
    graph, arguments = whole(case)
    compiled = torch.compile(graph, fullgraph=True)
    return Timed(torch.no_grad()(lambda: compiled(*arguments)))


def predicting(case: Case) -> Timed:
    """Return the output."""
    net, (x, _) = net_of(case, training=False), batch_of(case)
    compiled = torch.compile(net, fullgraph=True, options={"freezing": True})
    return Timed(torch.inference_mode()(lambda: compiled(x)))


def makers(case: Case) -> Makers:
    """The measures of torch.compile."""
    return {"step": lambda: whole_step(case), "predict": lambda: predicting(case)}


if __name__ == "__main__":
    serve(makers)
