"""Registration of the backend of `torch.compile` by the entry point that pyproject.toml declares."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

GROUP = "torch_dynamo_backends"


def register():
    """Register the backend, unless it was there when catgrad was installed."""
    import torch

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    [(name, value)] = project["entry-points"][GROUP].items()
    if name not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(EntryPoint(name, value, GROUP).load(), name=name)
