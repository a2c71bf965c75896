"""Emitted modules in Node.js with WebGPU."""

from __future__ import annotations

from catgrad.artifact import Artifact

from ..javascript.loading import loaded
from ..javascript.session import Module, Wire
from .adapter import node


def load(artifact: Artifact) -> type:
    """Import the emitted module; returns the class `CompiledModel`."""
    return loaded(artifact.program, Module(artifact.source, Wire(has_int64=False, bits=32), node))
