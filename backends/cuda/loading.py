"""Loading of an emitted library."""

from __future__ import annotations

from typing import Any

from catgrad.backend import Artifact


def load(artifact: Artifact, simulate: bool = False) -> Any:
    """Load."""
    raise NotImplementedError
