"""AOTInductor: the whole step and the model, each exported and compiled to a library.

The parameters of the model are constants of its library.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import aoti_compile_and_package, aoti_load_package

from benchmarks.peers.torch_case import batch_of, net_of
from benchmarks.peers.torch_whole import whole
from benchmarks.peers.worker import Case, Makers, Timed, serve


def library(module: torch.nn.Module, arguments: tuple[Any, ...], freezing: bool = False) -> Timed:
    """Compile a module to a library, for these arguments."""
    exported = torch.export.export(module, arguments)
    path = aoti_compile_and_package(exported, inductor_configs={"freezing": freezing})
    loaded = aoti_load_package(path)
    return Timed(torch.inference_mode()(lambda: loaded(*arguments)))


def predicting(case: Case) -> Timed:
    """Return the output."""
    with torch.no_grad():
        return library(net_of(case, training=False), batch_of(case)[:1], freezing=True)


def makers(case: Case) -> Makers:
    """The measures of AOTInductor."""
    return {"step": lambda: library(*whole(case)), "predict": lambda: predicting(case)}


if __name__ == "__main__":
    serve(makers)
