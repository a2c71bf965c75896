"""Quantise a trained task: calibrate its evaluation on data, and map it to integers of 8 bits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from catgrad.errors import OptionError
from catgrad.learn.functions import opened_term
from catgrad.learn.learner import Learner
from catgrad.learn.task import Task
from catgrad.programs.program import lower
from catgrad.quantisation.affine import Affine
from catgrad.quantisation.calibrate import Extrema, calibrate
from catgrad.quantisation.code import Code
from catgrad.quantisation.evaluation import Evaluation
from catgrad.quantisation.grids import learned_grids, without_rounding
from catgrad.quantisation.levels import rounding
from catgrad.quantisation.quantised import Quantised
from catgrad.quantisation.training import Training
from catgrad.quantisation.values import Known
from catgrad.terms.dead_code import eliminate_dead_code, selected
from catgrad.terms.state import Slot
from catgrad.terms.term import Term
from catgrad.types import Array, Dtype, as_numpy, widened


def quantise(
    task: Task,
    arrays: Learner | Mapping[str, Any],
    data: Iterable[object] = (),
    *,
    keep: Sequence[str] = (),
    train: Sequence[str] = (),
    inputs: Dtype = Dtype.float32,
    outputs: Dtype = Dtype.float32,
    parameters: Dtype = Dtype.float32,
    observer: Extrema | None = None,
) -> Quantised:
    """Map the evaluation of a trained task to int8: x ≈ s · (q - z), with sums in int32.

    `arrays` is a learner with the trained arrays, or these by name, and `data` are batches of inputs, over
    which the `observer` finds the extrema of each array. Layers whose names begin with one of `keep` remain
    in float32 and train, and so does all that follows them, without parameters. Floating-point inputs and
    outputs are float32, or int8 of the scales that the result has.

    Where the model rounds an array by `ops.fake_quantise`, that scale and zero point are those of its int8
    array; `data` are needed for other arrays alone.

    Layers whose names begin with one of `train` compute in int8 and train in int8: `data` are then batches
    of inputs and targets, from which `catgrad.quantisation.training` finds the scales of cotangents too.
    With `parameters` of int8, their matrices and filters are stored as levels, between which updates are
    rounded at random (`catgrad.quantisation.levels`).

    Raises: OptionError if a name in `keep` is that of no parameter, a dtype is neither, or an array or all
            data are missing, do not fit or have NaN; as `evaluate` for data that do not fit
    Source: Jacob et al. 2018 (arXiv:1712.05877), section 2
    """
    _check(task, keep, train, inputs, outputs, parameters)
    opened = opened_term(task.model if task.inference is None else task.inference)
    slots = (*opened.numbers, *opened.buffers, *opened.parameters)
    term = eliminate_dead_code(selected(opened.term, slice(len(opened.buffers), None)))
    code = Code(lower(term, arguments=[s.name for s in slots] + [f"x{k}" for k in range(len(task.inputs))]))
    function, named = code.function, _named(arrays, slots, {slot.name for slot in opened.parameters})
    kept = _kept(opened.parameters, keep or train, bool(train))
    observing = observer or Extrema()
    known = {
        wire: Known(named[slot.name], slot.name)
        for wire, slot in zip(function.arguments, slots, strict=False)
        if slot.name not in kept
    }
    grids = learned_grids(code, known)
    if train:
        tables, x = function.arguments[: len(slots)], function.arguments[len(slots) :]
        without_rounding(code, set(tables) - known.keys(), x, grids)
        training = Training(task, code, slots, named, kept, parameters is Dtype.int8)
        model, given = training.model(training.calibrated(data, observing), inputs is Dtype.int8)
        of_parameters = {name: scale for name, (_, scale) in training.levels.items()}
        return _quantised(task, model, given, [None] * len(task.outputs), of_parameters)
    extrema = calibrate(function, [named[s.name] for s in slots], data, lambda _: observing)
    return _quantised(task, *Evaluation(code, slots, named, kept, grids).model(extrema, inputs, outputs))


def _check(
    task: Task, keep: Sequence[str], train: Sequence[str], inputs: Dtype, outputs: Dtype, parameters: Dtype
) -> None:
    """Raise OptionError unless the options fit one another and the task."""
    for dtype in (inputs, outputs, parameters):
        if dtype not in (Dtype.float32, Dtype.int8):
            raise OptionError(
                "inputs, outputs and parameters must be Dtype.float32 or Dtype.int8",
                f"one is {dtype}",
                "choose one",
            )
    if parameters is Dtype.int8 and not train:
        raise OptionError(
            "parameters in int8 must be parameters that train in int8",
            "train names none",
            "name layers in train, or leave out parameters",
        )
    if keep and train:
        raise OptionError(
            "layers must train in float32 or in int8, not both",
            f"keep is {list(keep)}, and train {list(train)}",
            "leave out one of them",
        )
    if train and not task.has_same_outputs:
        raise OptionError(
            "a model that trains in int8 must have the same outputs in training and in evaluation",
            f"they are {task.model.target.table.tolist()} and {list(task.outputs)}",
            "keep its last layers instead, or train a model with one set of outputs",
        )
    if (keep or train) and outputs is Dtype.int8:
        raise OptionError(
            "outputs that train must be float32", "they are int8", "leave out outputs, or train no layer"
        )


def _quantised(
    task: Task,
    model: Term,
    first: Sequence[Affine | None],
    scales: Sequence[Affine | None],
    of_parameters: Mapping[str, Array] | None = None,
) -> Quantised:
    of_parameters = of_parameters or {}
    optimiser = rounding(task.optimiser, of_parameters) if of_parameters else task.optimiser
    return Quantised(
        model, optimiser, task.loss, task.name, task.targets, task.runtime_learning_rate,
        notes=(*task.notes, *_notes("x", first), *_notes("y_hat", scales), *_notes_on_levels(of_parameters)),
        input_scales=tuple(first), output_scales=tuple(scales), parameter_scales=of_parameters,
    )  # fmt: skip


def _named(
    arrays: Learner | Mapping[str, Any], slots: Sequence[Slot], parameters: Collection[str]
) -> Mapping[str, Array]:
    """Return the arrays of a learner, or of a mapping, that the model reads.

    Raises: OptionError if one is missing, has another shape or kind of numbers, or is not finite
    """
    tables = [arrays] if isinstance(arrays, Mapping) else [arrays.buffers, arrays.parameters]
    named = {name: array for table in tables for name, array in table.items()}
    for slot in slots:
        if slot.name not in named:
            raise OptionError(
                "there must be an array for each parameter and buffer of the model",
                f"there is none for {slot.name}",
                "pass the learner that trained it, or all arrays by name",
            )
    return {slot.name: _fitted(slot, as_numpy(named[slot.name]), slot.name in parameters) for slot in slots}


def _fitted(slot: Slot, array: Array, is_finite: bool) -> Array:
    """Return an array in the dtype of its slot. Raises: OptionError if it has another type, or NaN."""
    kind = widened(array).dtype.kind
    if array.shape != slot.type.shape or kind != slot.type.dtype.wide.numpy.kind:
        raise OptionError(
            f"the array {slot.name} must be {slot.type}",
            f"it is {array.dtype} of shape {array.shape}",
            "pass the numbers that the model trained with; int8 levels times `parameter_scales`",
        )
    with np.errstate(over="ignore"):
        cast = array.astype(slot.type.dtype.numpy)
    # A buffer may be a mask with infinities, which is added as it is.
    if kind == "f" and not np.all(np.isfinite(cast) if is_finite else ~np.isnan(cast)):
        raise OptionError(
            "arrays to quantise must have finite numbers",
            f"{slot.name} has others",
            "`catgrad run --trace` finds where a NaN is made",
        )
    return cast


def _kept(parameters: Sequence[Slot], keep: Sequence[str], trains: bool) -> set[str]:
    """Return the names of parameters that begin with one in `keep`. Raises: OptionError."""
    names = {p.name for p in parameters}
    found = {k: {n for n in names if n == k or n.startswith(f"{k}.")} for k in keep}
    for prefix, those in found.items():
        if not those:
            raise OptionError(
                f"what {'trains' if trains else 'is kept'} must be a parameter, or a layer that has some",
                f"{prefix!r} is none of {', '.join(sorted(names)) or 'no parameters'}",
                "choose dotted names of the model",
            )
    return set[str]().union(*found.values())


def _notes(name: str, scales: Sequence[Affine | None]) -> list[str]:
    """Describe the scales of inputs or outputs for the readers of what is emitted."""
    return [
        f"{name if len(scales) == 1 else f'{name}{k}'} is int8: q stands for {a.scale!r} · (q - {a.zero})."
        for k, a in enumerate(scales)
        if a is not None
    ]


def _notes_on_levels(scales: Mapping[str, Array]) -> list[str]:
    """Name the parameters that are stored in int8."""
    names = ", ".join(scales)
    return (
        [f"Parameters in int8: {names}. A level q stands for s · q, for a scale s of each output."]
        if scales
        else []
    )
