"""Types of PyTorch by which the front end is annotated, without its import."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from catgrad.learn.optimiser import Optimiser

Graph: TypeAlias = "torch.fx.Graph"
Module: TypeAlias = "torch.nn.Module"
Node: TypeAlias = "torch.fx.Node"
Tensor: TypeAlias = "torch.Tensor"
OpOverload: TypeAlias = "torch._ops.OpOverload"
InputSpec: TypeAlias = "torch.export.graph_signature.InputSpec"
Optimizer: TypeAlias = "torch.optim.Optimizer"
Scheduler: TypeAlias = "torch.optim.lr_scheduler.LRScheduler"
Program: TypeAlias = "torch.export.ExportedProgram"
GraphModule: TypeAlias = "torch.fx.GraphModule"

Optimizers: TypeAlias = "Optimiser | Optimizer | Sequence[Optimizer]"
"""The optimisers of a module: one of ours, or one or several of PyTorch, for different parameters."""

Schedulers: TypeAlias = "Scheduler | Sequence[Scheduler] | None"
"""The schedulers of the optimisers of PyTorch."""

Replacement: TypeAlias = tuple[object, str, object]
"""An attribute that is replaced during a trace: its owner, its name and the value."""
