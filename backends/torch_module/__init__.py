"""The target torch-module: a standalone torch.nn.Module for autograd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from catgrad.artifact import Artifact
from catgrad.backend import Backend
from catgrad.errors import UnsupportedOp
from catgrad.learn.entries import terms_of
from catgrad.learn.task import Task
from catgrad.ops.derivatives import DeclaredReverse
from catgrad.programs.ports import Kind
from catgrad.programs.terms import TermEntry, Terms
from catgrad.terms.block import any_operation

from .. import templates
from ..torch import KNOWN_GAPS, PASSES, PYTORCH
from .harness import harness
from .options import Options
from .parts import class_name, containers, is_modeless, path, renewed
from .prepare import ENTRIES, prepare
from .skeleton import examples, optimizers


def load(artifact: Artifact) -> type:
    """Load the emitted module as functions on arrays. Raises: ToolError without PyTorch."""
    PYTORCH.require(artifact.program.name)
    return harness(artifact)


def unrolled(backend: Backend, task: Any) -> Any:
    """Return a task whose layers are written out: a module has one of each, and its graph is autograd's.

    Raises: UnsupportedOp for a model that declares another reverse derivative than autograd's
    """
    trains = isinstance(task, Task) or (isinstance(task, Terms) and task.of_task)
    if trains and any(map(_declares_reverse, terms_of(task, (Kind.TRAINED,)).entries.values())):
        raise UnsupportedOp(
            "a module must have the derivative that autograd computes",
            f"{task.name} declares its own, as a model that trains in 8 bits does",
            "choose the target torch, which emits its training step",
        )
    return replace(task, rolls=False) if isinstance(task, Task) else task


def _declares_reverse(entry: TermEntry) -> bool:
    return any_operation(entry.term, lambda op: isinstance(op, DeclaredReverse))


BACKEND = Backend(
    name="torch-module",
    summary="one file with a torch.nn.Module for autograd, which needs PyTorch 2.6 or newer and nothing else",
    folders=(templates("torch_module"), templates("torch"), templates("python")),
    files={"{name}.py": "module.py.j2", "README.md": "README.md.j2"},
    load=load,
    needs=(PYTORCH,),
    passes=PASSES,
    known_gaps=KNOWN_GAPS,
    options=Options(),
    entries=lambda options, task: ENTRIES,
    fit=unrolled,
    prepare=prepare,
    helpers={
        "class_name": class_name,
        "containers": containers,
        "examples": examples,
        "is_modeless": is_modeless,
        "optimizers": optimizers,
        "path": path,
        "renewed": renewed,
    },
)
