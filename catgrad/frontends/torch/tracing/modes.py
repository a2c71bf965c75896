"""Watch whether a module reads its mode while it is traced: without a read, both modes have one graph."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from catgrad.frontends.torch.types import Module

GRAPHS = "torch.fx.graph_module"
"""The module of PyTorch that copies the mode of a traced module to its graph."""


@contextlib.contextmanager
def reads_of_mode(module: Module) -> Iterator[list[Module]]:
    """Yield a list of the parts that read `training`, in which a property replaces the attribute.

    It begins with parts whose classes have a property of their own, or act when the mode is set, as those
    that merge weights for evaluation.
    """
    import torch

    base: Any = torch.nn.Module
    reads = [p for p in module.modules() if hasattr(type(p), "training") or type(p).train is not base.train]

    def read(part: Module) -> Any:
        if sys._getframe(1).f_globals.get("__name__") != GRAPHS:
            reads.append(part)
        return vars(part)["training"]

    def write(part: Module, mode: bool) -> None:
        vars(part)["training"] = mode

    base.training = property(read, write)
    try:
        yield reads
    finally:
        del base.training
