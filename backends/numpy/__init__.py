"""Static Python on NumPy: one module that needs nothing else."""

from __future__ import annotations

from catgrad.backend import Backend

from .. import templates
from ..python import load_module, passes

BACKEND = Backend(
    name="numpy",
    summary="one Python module, which needs NumPy 1.26 or newer and nothing else",
    folders=(templates("numpy"), templates("python")),
    files={"{name}.py": "module.py.j2"},
    load=load_module,
    passes=passes(),
)
