"""The whole step of PyTorch as one graph, and the model with its parameters as constants, both compiled.

By torch.compile, or with the word `aot` by AOTInductor, which makes a library of what torch.export exports.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.peers.torch_case import batch_of, net_of
from benchmarks.peers.torch_whole import whole
from benchmarks.peers.worker import Case, Makers, Timed, serve


def compiled(module: torch.nn.Module, arguments: tuple[torch.Tensor, ...], freezing: bool) -> Any:
    """Compile a module to one call."""
    return torch.compile(module, fullgraph=True, options={"freezing": True} if freezing else None)


def library(module: torch.nn.Module, arguments: tuple[torch.Tensor, ...], freezing: bool) -> Any:
    """Compile a module to a library, for these arguments."""
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    exported = torch.export.export(module, arguments)
    return aoti_load_package(aoti_compile_and_package(exported, inductor_configs={"freezing": freezing}))


def makers(case: Case) -> Makers:
    """The measures of torch.compile, or of AOTInductor."""
    compile_module = library if "aot" in case.flags else compiled

    def step() -> Timed:
        graph, arguments = whole(case)
        call = compile_module(graph, arguments, False)
        return Timed(torch.no_grad()(lambda: call(*arguments)))

    def predict() -> Timed:
        x = batch_of(case)[:1]
        with torch.no_grad():
            call = compile_module(net_of(case, training=False), x, True)
        return Timed(torch.inference_mode()(lambda: call(*x)))

    return {"step": step, "predict": predict}


if __name__ == "__main__":
    serve(makers)
