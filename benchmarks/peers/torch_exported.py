"""AOTInductor: the whole step and the model, each exported and compiled to a library."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import aoti_compile_and_package, aoti_load_package

from benchmarks.peers.torch_nets import batch_of, net_of
from benchmarks.peers.torch_whole import whole
from benchmarks.peers.worker import Case, Makers, Timed, serve


def library(case: Case, module: torch.nn.Module, arguments: tuple[Any, ...]) -> Timed:
    """Compile a module to a library, for these arguments."""
    path = aoti_compile_and_package(torch.export.export(module, arguments))
    loaded = aoti_load_package(path)
    return Timed(torch.inference_mode()(lambda: loaded(*arguments)))


def predicting(case: Case) -> Timed:
    """Return the output."""
    with torch.no_grad():
        return library(case, net_of(case, training=False), batch_of(case)[:1])


def makers(case: Case) -> Makers:
    """The measures of AOTInductor."""
    return {"step": lambda: library(case, *whole(case)), "predict": lambda: predicting(case)}


if __name__ == "__main__":
    serve(makers)
