"""Compilation of a task to a training class: `compile_model`."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from catgrad.artifact import Artifact
from catgrad.backend import Backend
from catgrad.errors import OptionError
from catgrad.learn.checks import Loss
from catgrad.learn.choice import select, select_terms
from catgrad.learn.entries import layered, lowered, terms_of
from catgrad.learn.functions import Functions
from catgrad.learn.optimiser import Optimiser
from catgrad.learn.task import COMPILED, EMITTED, Task
from catgrad.ops.table import Stack
from catgrad.programs.signatures import SIGNATURES
from catgrad.programs.terms import Terms
from catgrad.targets import get_backend
from catgrad.terms.term import Term
from catgrad.types import NdArrayType

Model = Task | Functions | Terms


class Compiled(NamedTuple):
    """The result of `compile_model`: the training class, the types of its parameters, its source."""

    CompiledModel: Any
    ParamType: tuple[NdArrayType, ...]
    source: str


def emit(
    task: Model,
    target: str | Backend = "numpy",
    functions: Iterable[str] | None = None,
    roll: bool = True,
    **options: Any,
) -> Artifact:
    """Emit functions of a Task, of Functions or of loaded terms for a target, with its options.

    Of a task, these are `predict` and `step`, with initial values, unless `functions` names others:

        emit(task, "c", functions=("predict", "step", "loss"))

    The others are `loss`, `grads` and `update` (the halves of a step), `rev` and `rev_p`, `trained`, and
    `criterion`; for c, cuda and ggml also `step_many`, for c `predict_prepared`. Validation in `fit` needs
    `loss`. The library of c is called from other languages by their `bindings`:

        emit(task, "c", bindings=("fortran", "rust"))

    The target torch-module has its own three. Of Functions all are emitted by default.

    On targets that have tables of arrays, stacks of at least three equal layers of a task are loops, and so
    are the draws of initial values of any model. With `roll=False`, they are written out.

    Raises: UnknownName if there is no such target, function or option; OptionError for an option's value;
    UnsupportedOp if the target lacks an operation; TermError if loaded terms lack one that is emitted.
    """
    return emit_by_default(EMITTED, task, target, functions, roll, **options)


def emit_by_default(
    default: Sequence[str],
    task: Model,
    target: str | Backend,
    functions: Iterable[str] | None = None,
    roll: bool = True,
    **options: Any,
) -> Artifact:
    """Emit as `emit`, with other functions by default: all of a target that does not print these."""
    backend = (target if isinstance(target, Backend) else get_backend(target)).configured(**options)
    if not isinstance(task, (Task, Functions, Terms)):
        raise OptionError(
            "what to emit must be a Task, because a training step needs an optimiser and a loss",
            f"it is {task!r}",
            'write Task(model, sgd(0.01), mse), or Functions({"predict": model}) without training',
        )
    return _emitted(task, backend, default, functions, roll, backend.runtime_learning_rate)


def _emitted(
    model: Model,
    backend: Backend,
    default: Sequence[str],
    functions: Iterable[str] | None = None,
    roll: bool = True,
    runtime_learning_rate: bool = False,
) -> Artifact:
    """Emit a model as it is changed for a target, with the hash of the model that the user gave."""
    given, rolls = layered(model), roll and backend.has(Stack(1))
    task = given if rolls else model
    if runtime_learning_rate and isinstance(task, Task):
        task = replace(task, runtime_learning_rate=True)
    fitted = backend.fit(backend, task)
    with _collector_paused():
        terms = terms_of(given)
        variants: frozenset[str] = frozenset()
        if not terms.of_task:
            changed = select_terms(terms, functions)
        else:
            default = [name for name in default if name not in SIGNATURES or name in terms.entries]
            kinds, variants = select(backend, fitted, functions, default)
            if isinstance(fitted, Task):
                fitted.require(kinds)
            changed = terms.only(kinds) if fitted is given else terms_of(fitted, kinds)
        program = lowered(changed, backend.has, rolls)
        return backend.emit(replace(program, digest=terms.digest, variants=variants))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause cyclic garbage collection: a large term is a million small objects, all reachable, and
    traversing them repeatedly takes a third of the time.
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
    **options: Any,
) -> Compiled:
    """Compile a model X → Ŷ with its training step, and load the result.

    `labels` are the types of the targets in the loss, if not those of the outputs. With
    `mixed_precision(model)`, contractions are computed in bfloat16. The `options` are those of the target.

    The class has the functions of `Task`, each on arrays in the order S, M, P, X, Y:

        CompiledModel, ParamType, source = compile_model(model, sgd(0.01), mse)
        compiled = CompiledModel()
        p = compiled.init(seed=0)
        p = compiled.step(*p, x, y)
        [y_hat] = compiled.predict(*p, x)

    or by name, with the state in the learner:

        learner = compiled.learner(seed=0)
        loss = learner.step(x, y)
        y_hat = learner.predict(x)
        learner.parameters["dense.weight"]

    Only this `step` omits the loss, as in the published snippets of Python catgrad. That of the emitted
    source, and of `emit(task, target).load()`, returns the loss before the step, then the new S, M and P.

    Raises: as Task; UnknownName if there is no such target or option; OptionError for an option's value;
    UnsupportedOp if the target lacks an operation.
    """
    backend = get_backend(target).configured(**options)
    task = Task(model, optimiser, loss, name, labels)
    artifact = _emitted(task, backend, COMPILED)  # a learning rate is in the state only if the task says so
    types = tuple(slot.type for slot in task.parameters)
    return Compiled(_published(artifact.load()), types, artifact.source)


def _published(loaded: Any) -> type:
    """Adapt an emitted class to the calling convention of the published snippets of Python catgrad.

    They pass all results of `step` to the next call, so the loss is omitted. An argument, the array
    library of other versions, is refused with advice.
    """

    def init(self: Any, *arguments: Any) -> None:
        if arguments:
            raise OptionError(
                "CompiledModel must get no arguments",
                f"it gets {arguments[0]!r}",
                "name the target where the model is compiled, as in compile_model(..., target='numpy')",
            )
        loaded.__init__(self)

    def step(*arrays: Any) -> Any:
        """S × M × P × X × Y → S × M × P: one step of training."""
        return loaded.step(*arrays)[1:]

    body: dict[str, Any] = {"__init__": init, "__doc__": loaded.__doc__}
    if hasattr(loaded, "step"):
        body["step"] = staticmethod(step)
    return type(loaded.__name__, (loaded,), body)
