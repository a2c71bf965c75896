"""From a task to a training class: `compile_model`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from catgrad.backend import Artifact, Backend, get_backend
from catgrad.errors import OptionError
from catgrad.learn.checks import Loss
from catgrad.learn.entries import functions_program, program
from catgrad.learn.functions import Functions
from catgrad.learn.optimiser import Optimiser
from catgrad.learn.task import COMPILED, Task
from catgrad.terms.term import Term
from catgrad.types import NdArrayType


class Compiled(NamedTuple):
    """What `compile_model` returns: the training class, the types of its parameters, its source."""

    CompiledModel: Any
    ParamType: tuple[NdArrayType, ...]
    source: str


def emit(task: Task | Functions, target: str = "numpy", **options: Any) -> Artifact:
    """The source of a task's functions for a target, or of `Functions`, with the target's options.

    Raises: UnknownName if there is no such target or option; OptionError for an option's value;
    UnsupportedOp if the target lacks an operation.
    """
    return emit_with(task, get_backend(target).configured(**options))


def emit_with(task: Task | Functions, backend: Backend) -> Artifact:
    """Emit the source of a task's functions for a target whose options are set. Raises: as `emit`."""
    if isinstance(task, Functions):
        return backend.emit(functions_program(task, backend.has))
    task = replace(task, adjustable=True) if backend.adjustable else task
    with _collector_paused():
        entries = backend.entries(backend.options) or COMPILED
        return backend.emit(program(task, backend.has, entries))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without cyclic garbage collection: a large term is a million small objects, all alive, and
    walking them again and again takes a third of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def compile_model(
    model: Term,
    optimiser: Optimiser,
    loss: Loss,
    target: str = "numpy",
    name: str = "model",
    labels: tuple[NdArrayType, ...] | None = None,
) -> Compiled:
    """Compile a model X → Ŷ with its training step, and load the result.

    `labels` are the types of what the loss compares the outputs with, if not those of the outputs.

    The class has the functions of `Task`, each on arrays in the order S, M, P, X, Y:

        CompiledModel, ParamType, source = compile_model(model, sgd(0.01), mse)
        compiled = CompiledModel()
        p = compiled.init(seed=0)
        p = compiled.step(*p, x, y)
        [y_hat] = compiled.predict(*p, x)

    or by name, with the state held for you:

        learner = compiled.learner(seed=0)
        loss = learner.step(x, y)
        y_hat = learner.predict(x)
        learner.parameters["dense.weight"]

    Raises: as Task; UnknownName if there is no such target; UnsupportedOp if it lacks an operation.
    """
    task = Task(model, optimiser, loss, name, labels)
    artifact = emit(task, target)
    model_class = _without_arguments(artifact.load())
    return Compiled(model_class, tuple(slot.type for slot in task.parameters), artifact.source)


def _without_arguments(loaded: type) -> type:
    """Let the class say what to do with an array library, which its namesake in other versions takes."""

    def init(self: Any, *arguments: Any) -> None:
        if arguments:
            raise OptionError(
                "CompiledModel must get no arguments",
                f"it gets {arguments[0]!r}",
                "name the target where the model is compiled, as in compile_model(..., target='numpy')",
            )
        loaded.__init__(self)  # type: ignore[misc]

    return type(loaded.__name__, (loaded,), {"__init__": init, "__doc__": loaded.__doc__})
