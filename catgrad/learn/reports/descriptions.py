"""Descriptions: a task as a short table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from catgrad.dims import Size
from catgrad.tables import Table, spelled
from catgrad.types import NdArrayType

if TYPE_CHECKING:
    from catgrad.learn.task import Task


def described(task: Task) -> Table:
    """Describe a task: its model, its arrays, its optimiser with settings other than 0, and its loss."""
    settings = ", ".join(
        f"{name}={getattr(value, 'name', value)}" for name, value in task.optimiser.settings.items() if value
    )
    loss = getattr(task.loss, "__name__", None) or repr(task.loss)
    labels = [] if task.labels is None else [("labels", product_of(task.labels))]
    rows = [
        ("model", f"{product_of(task.inputs)} -> {product_of(task.outputs)}"),
        *labels,
        *(
            (name, arrays(slot.type for slot in slots))
            for name, slots in (
                ("parameters", task.stored),
                ("buffers", task.buffers),
                ("state", task.state),
            )
            if slots
        ),
        ("optimiser", f"{task.optimiser.name}({settings})" if settings else task.optimiser.name),
        ("loss", loss),
    ]
    return Table(("task", task.name), rows, texts=2)


def product_of(types: Iterable[NdArrayType]) -> str:
    """Format an object A₁ ⊗ … ⊗ Aₙ."""
    return " ⊗ ".join(map(str, types)) or "I"


def arrays(types: Iterable[NdArrayType]) -> str:
    """Count arrays, their elements and bytes."""
    every = [*types]
    elements: Size = sum((type.size for type in every), 0)
    size: Size = sum((type.bytes for type in every), 0)
    return f"{len(every)} arrays, {spelled(elements)} elements, {spelled(size)} bytes"
