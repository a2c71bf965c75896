"""Import of models of ONNX."""

from catgrad.frontends.imported import Imported
from catgrad.frontends.onnx.imported import from_onnx

__all__ = ["Imported", "from_onnx"]
