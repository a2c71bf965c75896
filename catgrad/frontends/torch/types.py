"""Types by which the front end is annotated: those of PyTorch, without its import, and operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from catgrad.dims import Dim
from catgrad.terms.var import Var

if TYPE_CHECKING:
    import torch

Graph: TypeAlias = "torch.fx.Graph"
Module: TypeAlias = "torch.nn.Module"
Node: TypeAlias = "torch.fx.Node"
Tensor: TypeAlias = "torch.Tensor"
TorchDtype: TypeAlias = "torch.dtype"
OpOverload: TypeAlias = "torch._ops.OpOverload"
Program: TypeAlias = "torch.export.ExportedProgram"
GraphModule: TypeAlias = "torch.fx.GraphModule"

Replacement: TypeAlias = tuple[object, str, object]
"""What is replaced during a trace: an owner, the name of its attribute, and the value."""

Dims: TypeAlias = int | Sequence[int] | None
"""Axes among the arguments of an operation: one, several, or all for None."""

Number: TypeAlias = float | Dim
"""A number among the arguments of an operation, which a symbolic size may be."""

Operand: TypeAlias = Var | float | Dim
"""An operand that is broadcast and cast to the type of the others: an array, or a number."""
