"""catgrad compiles a model's training loop into source code you own."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from catgrad import checkout as checkout  # first: others look for targets when they are imported
from catgrad import data, ops
from catgrad.artifact import Artifact
from catgrad.dims import Dim
from catgrad.errors import CatgradError
from catgrad.frontends.verify import verify
from catgrad.learn import layers, losses, optimisers, schedules
from catgrad.learn.compile import Compiled, compile_model, emit
from catgrad.learn.fit.loop import fit
from catgrad.learn.fit.metrics import accuracy, evaluate
from catgrad.learn.functions import Functions
from catgrad.learn.learner import Learner
from catgrad.learn.losses import mse
from catgrad.learn.optimiser import Optimiser
from catgrad.learn.optimisers import sgd
from catgrad.learn.precision import mixed_precision
from catgrad.learn.reports.trace import trace
from catgrad.learn.rows import shared_rows
from catgrad.learn.saving import digest, load, save
from catgrad.learn.task import Task
from catgrad.programs.terms import Terms
from catgrad.terms.build import build
from catgrad.terms.term import Term, copy, discard, identity, obj, permutation
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

if TYPE_CHECKING:
    from catgrad.frontends.onnx import from_onnx
    from catgrad.frontends.torch import compile_module, from_torch

    __version__: str

__all__ = [
    "Artifact", "CatgradError", "Compiled", "Dim", "Dtype", "Functions", "Learner", "NdArrayType",
    "Optimiser", "Task", "Term", "Terms", "Var", "accuracy", "build", "compile_model", "compile_module",
    "copy", "data", "digest", "discard", "emit", "evaluate", "fit", "from_onnx", "from_torch", "identity",
    "layers", "load", "losses", "mixed_precision", "mse", "obj", "ops", "optimisers", "permutation",
    "save", "schedules", "sgd", "shared_rows", "trace", "verify",
]  # fmt: skip


FRONTENDS = {"compile_module": "torch", "from_onnx": "onnx", "from_torch": "torch"}
"""Functions of front ends, by the folder of each."""


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Read the version, or load a front end at its first use, as it registers functions."""
    if name == "__version__":
        return version("catgrad")
    if name not in FRONTENDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"catgrad.frontends.{FRONTENDS[name]}"), name)
