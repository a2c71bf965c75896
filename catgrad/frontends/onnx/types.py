"""Types by which the front end is annotated: those of ONNX, without its import, and inputs of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from catgrad.terms.var import Var
from catgrad.types import Array

if TYPE_CHECKING:
    import onnx

Attribute: TypeAlias = "onnx.AttributeProto"
Graph: TypeAlias = "onnx.GraphProto"
Initialiser: TypeAlias = "onnx.TensorProto"
Model: TypeAlias = "onnx.ModelProto"
Node: TypeAlias = "onnx.NodeProto"

Value: TypeAlias = Var | Array
"""The value of a name in a graph: a variable, or an array where it is a constant."""
