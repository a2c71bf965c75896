"""Types of PyTorch by which the front end is annotated, without its import."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import torch

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

Replacement: TypeAlias = tuple[object, str, object]
"""What is replaced during a trace: an owner, the name of its attribute, and the value."""
