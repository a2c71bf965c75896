"""One operation and one target, outside catgrad's own tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.artifact import Artifact
from catgrad.backend import Backend
from catgrad.terms.op import Op, floating


class Bell(Op):
    """Bell curve: y = e^(-x²), for floating T."""

    elementwise = True

    def type(self, x):
        return floating(x)

    def ref(self, x):
        return np.exp(-x * x)

    def body(self, x):
        from catgrad.ops import exp

        return exp(-(x * x))

    def rev(self, x, dy):
        return dy * (-2 * x * self(x))


def load(artifact: Artifact) -> type:
    """Run the emitted Python."""
    scope: dict[str, Any] = {}
    exec(artifact.source, scope)
    return scope["CompiledModel"]


def provide() -> dict[str, Callable[[], Backend]]:
    """Return the target `scalar`: plain Python, for terms of scalars only."""
    return {
        "scalar": lambda: Backend(
            name="scalar",
            summary="plain Python on numbers",
            folders=(Path(__file__).parent / "templates",),
            files={"{name}_scalar.py": "module.py.j2"},
            load=load,
        )
    }
