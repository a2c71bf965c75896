"""Search for a training step that fits a number of bytes: recompute in segments, and split the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from catgrad.backend import Backend
from catgrad.dims import numbers
from catgrad.errors import OptionError
from catgrad.functors import evaluation, substitute
from catgrad.learn.entries import program
from catgrad.learn.recompute import in_parts, segmented
from catgrad.learn.task import Task
from catgrad.loops.compile import compile_kernels
from catgrad.loops.memory_plan import planned_for
from catgrad.programs.ports import Kind
from catgrad.types import symbols

from .machine import machine_of

SEGMENTS = (2, 4, 8, 16)
"""Numbers of segments that are tried."""


class Trade(NamedTuple):
    """Time for memory: a model in checkpointed segments, or in parts of the batch."""

    segments: int = 1
    parts: int = 1


def fitted(backend: Backend, task: object) -> Any:
    """Make a task's training step fit the option `memory`, at the size `batch` of a symbolic batch.

    Raises: OptionError if it cannot, with the least bytes that it can have; if a size is not known, or there
            is no step; and as `in_parts`, if the batch must be split and may not
    """
    limit, batch = backend.options.memory, backend.options.batch
    if not (limit or batch):
        return task
    if not isinstance(task, Task):
        raise OptionError(
            "memory and batch are options of a Task", f"this is {type(task).__name__}", "give a Task"
        )
    symbol = _symbol(task, batch)
    tried: dict[Trade, int] = {}
    refusal = None
    for trade in _trades(symbol, batch):
        try:
            changed = _traded(task, trade, symbol, batch)
        except OptionError as error:
            refusal = error
            break
        if not limit:
            return changed
        tried[trade] = step_bytes(backend, changed)
        if tried[trade] <= limit:
            return replace(changed, notes=(*task.notes, *_notes(tried, trade)))
    least = min(tried, key=lambda trade: tried[trade])
    raise OptionError(
        f"memory must be at least {tried[least]:,} bytes for the training step of {task.name}",
        f"it is {limit:,}",
        str(refusal) if refusal else "make the model or the batch smaller",
    )


def step_bytes(backend: Backend, task: Task) -> int:
    """Count the bytes of the workspace of a training step, with one thread."""
    function = backend.optimised(program(task, backend.has, (Kind.STEP,))).kinds[Kind.STEP]
    machine = machine_of(backend.options)
    lowered = compile_kernels(function, machine, function.renewed())
    return numbers((planned_for(lowered, machine).total,))[0]


def _symbol(task: Task, batch: int) -> str:
    """Return the symbolic size of the batch, empty if all sizes are numbers. Raises: OptionError"""
    names = symbols((*task.inputs, *task.targets))
    if len(names) == bool(batch):
        return names[0] if names else ""
    named = ", ".join(names) or "none is"
    if batch:
        raise OptionError(
            "batch must be the size of the one symbolic dimension", f"{named} symbolic", "leave out batch"
        )
    raise OptionError(
        "the bytes of a step must be a number: all sizes must be known", f"{named} is symbolic", "give batch"
    )


def _trades(symbol: str, batch: int) -> Iterator[Trade]:
    """Yield what to try, from little to much time: at most two more forward passes."""
    parts = [count for count in range(2, batch + 1) if batch % count == 0] if symbol else []
    yield Trade()
    yield from (Trade(segments=count) for count in SEGMENTS)
    yield from (Trade(parts=count) for count in parts)
    yield from (Trade(count, batch) for count in SEGMENTS if parts)


def _traded(task: Task, trade: Trade, symbol: str, batch: int) -> Task:
    """Change the model that is trained; the one that predicts stays. Raises: as `in_parts`"""
    sizes = {symbol: batch} if symbol else {}
    plain = substitute(task.model, sizes)
    model = segmented(task.model, trade.segments) if trade.segments > 1 else task.model
    model = in_parts(model, symbol, batch, trade.parts) if trade.parts > 1 else substitute(model, sizes)
    inference = substitute(task.inference, sizes) if task.inference is not None else evaluation(plain)
    labels = None if task.labels is None else tuple(type.substitute(sizes) for type in task.labels)
    return replace(task, model=model, labels=labels, inference=inference)


def _notes(tried: dict[Trade, int], trade: Trade) -> tuple[str, ...]:
    """Say what was traded."""
    notes = [f"The workspace of a training step has {tried[trade]:,} bytes with one thread."]
    if trade.segments > 1:
        notes.append(f"Training computes values in {trade.segments} segments, all but the last twice.")
    if trade.parts > 1:
        notes.append(
            f"Training splits the batch into {trade.parts} parts, computed twice, and adds their gradients."
        )
    if trade != Trade():
        notes.append(f"Without this it would have {tried[Trade()]:,} bytes.")
    return tuple(notes)
