"""Replay of a training in PyTorch and in an emitted program, side by side."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from catgrad.errors import CatgradWarning, OptionError, ShapeError, one_line
from catgrad.frontends.torch.replay.differences import Replay, StepComparison
from catgrad.frontends.torch.replay.peer import Batch, Moment, Peer, copied, named_outputs
from catgrad.frontends.torch.training.optimisers import several
from catgrad.frontends.torch.types import Module, Optimizers, Schedulers, Tensor
from catgrad.learn.fit.checkpoint import restore, tables
from catgrad.terms.state import DRAWS
from catgrad.types import Array, as_numpy, widened
from catgrad.verification import difference

if TYPE_CHECKING:
    from catgrad.frontends.torch.training.compiled import ModuleLearner

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""The greatest |y - r| / (1 + |r|) that is allowed, by the dtype of r, PyTorch's result."""

ROUNDING_ERRORS = 10
"""The multiple of PyTorch's own rounding error that is allowed too."""


def replay(
    module: Module,
    learner: ModuleLearner,
    batches: Iterable[Any],
    steps: int | None = None,
    *,
    optimizer: Optimizers | None = None,
    loss: Any = None,
    scheduler: Schedulers = None,
    train: bool | None = None,
    tolerance: Mapping[str, float] = TOLERANCE,
) -> Replay:
    """Train a module and a learner on the same batches, and compare all results of each step.

    A batch is what the learner's `step` takes, as arrays or tensors; `steps` begins again after the last one.
    Losses, gradients (if the target has `grads`), parameters and buffers are compared after every step, and
    the outputs in evaluation mode before the first and after the last. A difference is |y - r| / (1 + |r|),
    where r is PyTorch's. It may be that of `tolerance` for the dtype, or ten times PyTorch's own rounding
    error: the difference between r and the same training in float64. So a bias before batch norm, whose
    gradient is 0 but for rounding, agrees.

    `optimizer` is one of `torch.optim` for the parameters of the module, or several, `loss` a function of
    tensors (outputs…, targets…), `scheduler` one of the optimiser, or several; a learner of `compile_module`
    knows them, its averaged model, and whether it trains in evaluation mode (`train=False`). Copies are
    trained: module, optimiser, scheduler and learner remain as they are.

    Raises: OptionError if something is not known, the learner is not one of the module, or it draws random
            numbers, which differ from PyTorch's
    """
    if optimizer is None:
        optimizer = getattr(learner, "optimizer", None)
        scheduler = getattr(learner, "scheduler", None) if scheduler is None else scheduler
    loss = getattr(learner, "criterion", None) if loss is None else loss
    if train is None:
        train = not hasattr(learner, "artifact") or learner.artifact.origin.get("mode") != "evaluation"
    _check(module, learner, optimizer, loss)
    chosen = _chosen(batches, steps)
    count = len(learner.imported.inputs) if hasattr(learner, "imported") else _arguments(module)
    averaged = getattr(learner, "averaged", None)
    sides = [
        Peer(module, learner, optimizer, loss, train, is_wide, scheduler, averaged)
        for is_wide in (False, True)
    ]
    name = learner.artifact.backend.name if hasattr(learner, "artifact") else type(learner).__module__
    saved = deepcopy(tables(learner))
    found: list[StepComparison] = []
    try:
        ours, theirs, wide = _ours(learner, chosen, count), *(side.train(chosen, count) for side in sides)
        for step, (reference, result, exact) in enumerate(
            zip(theirs, ours, _until_error(wide), strict=False)
        ):
            found += _compared(step, result, reference, exact, tolerance)
    finally:
        restore(learner, saved)
    return Replay(name, tuple(found))


def _ours(learner: ModuleLearner, batches: Sequence[Batch], count: int) -> Iterator[Moment]:
    """Yield the arrays of a learner before training, and after each step."""
    each = [[_array(x) for x in batch] for batch in batches]
    yield _of_tables(learner) | _predicted(learner, each[0][:count])
    for step, batch in enumerate(each, 1):
        gradients = _gradients(learner, batch)
        moment = {("loss", "loss"): copied(learner.step(*batch)), **gradients, **_of_tables(learner)}
        yield moment | (_predicted(learner, batch[:count]) if step == len(each) else {})


def _gradients(learner: ModuleLearner, batch: Batch) -> Moment:
    """Return the gradients, of targets that compute them apart from a step."""
    if "grads" in getattr(learner, "lacks", ()) or not hasattr(learner, "grads"):
        return {}
    saved = deepcopy(tables(learner))
    _, gradients = learner.grads(*batch)
    restore(learner, saved)  # grads updates buffers, as a step does
    return {("grads", name): copied(gradient) for name, gradient in gradients.items()}


def _predicted(learner: ModuleLearner, inputs: Batch) -> Moment:
    outputs = learner.predict(*inputs)
    return named_outputs(outputs if isinstance(outputs, (list, tuple)) else [outputs])


def _of_tables(learner: ModuleLearner) -> Moment:
    owned = {"parameters": learner.parameters, "buffers": learner.buffers}
    return {(table, name): copied(x) for table, arrays in owned.items() for name, x in arrays.items()}


def _compared(
    step: int, result: Moment, reference: Moment, exact: Moment, tolerance: Mapping[str, float]
) -> Iterator[StepComparison]:
    """Compare the arrays that both sides have; those of one alone are constants, or not read."""
    for (what, name), y in result.items():
        r = reference.get((what, name))
        if r is None:
            continue
        if y.shape != r.shape:
            problem = f"{name} has shape {list(y.shape)}, not {list(r.shape)}"
            yield StepComparison(what, name, np.inf, 0.0, problem, step)
            continue
        allowed = tolerance.get(r.dtype.name, 0.0)
        if (what, name) in exact and allowed:
            allowed = max(allowed, ROUNDING_ERRORS * difference(r, exact[what, name]))
        yield StepComparison(what, name, difference(y.astype(r.dtype), r), allowed, "", step)


def _until_error(moments: Iterator[Moment]) -> Iterator[Moment]:
    """Yield the moments of a training in float64, and empty ones once the module fails in it."""
    try:
        yield from moments
    except Exception as error:  # the module may do anything
        said = one_line(f"{type(error).__name__}: {error}")
        warnings.warn(
            f"PyTorch's own rounding errors are unknown, because the module fails in float64: {said}",
            CatgradWarning,
            stacklevel=4,
        )
    while True:
        yield {}


def _check(module: Module, learner: ModuleLearner, optimizer: object, loss: object) -> None:
    for what, value, advice in (
        ("optimizer", optimizer, "torch.optim.SGD(...)"),
        ("loss", loss, "nn.MSELoss()"),
    ):
        if value is None:
            raise OptionError(
                f"the {what} must be known, to train by PyTorch", "it is not given", f"pass {what}={advice}"
            )
    own = dict(module.named_parameters())
    strange = [name for name in learner.parameters if name not in own]
    if strange:
        raise OptionError(
            "the learner must have the parameters of the module",
            f"the module has no {strange[0]!r}",
            "pass the learner that compile_module returned for it",
        )
    groups = [group for each in several(optimizer) for group in getattr(each, "param_groups", [])]
    held = {id(parameter) for parameter in own.values()}
    if any(id(parameter) not in held for group in groups for parameter in group["params"]):
        raise OptionError(
            "the optimiser must be one of the module's parameters",
            "it has others",
            "build it from module.parameters()",
        )
    if any(DRAWS.name in table for table in tables(learner).values()):
        drawing = [name for name, each in module.named_modules() if _probability(each)]
        raise OptionError(
            "a training that is compared with PyTorch's must draw no random numbers, which differ",
            f"this one has dropout in {', '.join(drawing)}" if drawing else "forward of this one draws some",
            "compile it with probability 0, or with train=False" if drawing else "pass them as an input",
        )


def _probability(module: Module) -> bool:
    """Return whether a module has a probability of dropout."""
    found = (getattr(module, name, 0) for name in ("p", "dropout"))
    return any(isinstance(value, (int, float)) and value > 0 for value in found)


def _chosen(batches: Iterable[Any], steps: int | None) -> list[Batch]:
    """Return a batch for each step. Raises: OptionError without batches; ShapeError if one is no tuple"""
    every = list(islice(batches, steps))
    if not every:
        raise OptionError("there must be a batch to train on", "there is none", "pass [(x, y)]")
    for batch in every:
        if not isinstance(batch, (tuple, list)):
            raise ShapeError(
                "a batch must be a tuple of inputs and targets",
                f"one is {type(batch).__name__}",
                "pass a list of them, as in [(x, y)]",
            )
    return [tuple(batch) for batch in islice(cycle(every), len(every) if steps is None else steps)]


def _arguments(module: Module) -> int:
    """Return the number of the arguments that forward needs."""
    every = inspect.signature(module.forward).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in every)


def _array(x: Tensor | Array) -> Array:
    array = as_numpy(x)
    return widened(array) if array.dtype.name == "bfloat16" else array
