"""What all targets share that are Python over an array library with operators and broadcasting."""

from __future__ import annotations

from .broadcasting import BroadcastByOperators
from .matmul import MatmulForms
from .modules import load_module

__all__ = ["PASSES", "load_module"]

PASSES = (MatmulForms(), BroadcastByOperators())
"""The dialect's passes, in order."""
