"""The backend "catgrad" of torch.compile: graphs run as functions in C, forward and backward."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from catgrad.backend import Backend
from catgrad.errors import CatgradError, CatgradWarning, UnsupportedOp
from catgrad.frontends.torch.dynamo.captured import captured
from catgrad.frontends.torch.dynamo.signature import Signature
from catgrad.frontends.torch.dynamo.version import Version
from catgrad.frontends.torch.types import GraphModule
from catgrad.targets import get_backend

MAX_VERSIONS = 8
"""The most versions of one graph, by sizes and numbers; with any others it runs eagerly."""


def backend(
    graph: GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Any:
    """Compile a graph of TorchDynamo to C, with its reverse derivative where gradients are required.

    This happens at the first call, on its tensors. What cannot be compiled runs eagerly, with a
    CatgradWarning that names the operations. `options` are those of the target c.
    """
    target = get_backend("c").configured(**(options or {}))
    try:
        compiled = Compiled(graph, Signature(graph), target)
    except UnsupportedOp as error:
        return eagerly(graph, error)
    return torch._dynamo.disable(compiled.call)


def eagerly(graph: GraphModule, error: CatgradError) -> Callable[..., Any]:
    """Return the function of a graph in PyTorch, after a warning."""
    warnings.warn(f"a graph of torch.compile runs eagerly: {error}", CatgradWarning, stacklevel=2)
    run: Callable[..., Any] = graph.forward
    return run


class Compiled:
    """A graph and its versions: one for all sizes of symbolic axes if that can be, else one for each.

    Once a version cannot be compiled, inputs without one run eagerly.
    """

    def __init__(self, graph: GraphModule, signature: Signature, target: Backend) -> None:
        self.graph, self.signature, self.target = graph, signature, target
        self.by_shape = False
        self.versions: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self.otherwise: Callable[..., Any] | None = None

    def call(self, *inputs: Any) -> Any:
        """Call the version for the sizes and numbers of these inputs."""
        version = self.versions.get(self._key(inputs)) or self.otherwise or self._compile(inputs)
        return version(*inputs)

    def _key(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Identify the version for some inputs. Numbers are compared by their digits: -0.0 differs from 0."""
        shapes = [x.shape for x in self.signature.tensors(inputs)] if self.by_shape else []
        return (*map(repr, self.signature.numbers(inputs)), *shapes)

    def _compile(self, inputs: Sequence[Any]) -> Callable[..., Any]:
        try:
            version = self._version(inputs)
        except CatgradError as error:
            if not self.by_shape and any(map(any, self.signature.axes)):
                self.by_shape = True
                return self._compile(inputs)
            self.otherwise = eagerly(self.graph, error)
            return self.otherwise
        self.versions[self._key(inputs)] = version
        return version

    def _version(self, inputs: Sequence[Any]) -> Version:
        if len(self.versions) >= MAX_VERSIONS:
            raise UnsupportedOp(
                f"a graph must be called with at most {MAX_VERSIONS} combinations of sizes and numbers",
                "this is one more",
                "pad inputs to fewer sizes",
            )
        found = captured(self.graph, self.signature, inputs, not self.by_shape)
        return Version(self.graph, self.signature, found, inputs, self.target)
