"""The commands that look at a model: `summary` and `cost`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catgrad.cli.commands import (
    Evaluation,
    Inputs,
    Loss,
    Model,
    OptimiserName,
    Options,
    Precision,
    Rate,
    Trainable,
    app,
)
from catgrad.cli.models import guarded, resolve
from catgrad.cli.options import OF_MODULES, in_precision, parsed, require_unused
from catgrad.cli.tables import show_table
from catgrad.errors import OptionError

if TYPE_CHECKING:
    from catgrad.footprint import Footprint
    from catgrad.learn.task import Task

Sizes = Annotated[
    list[str],
    typer.Option(
        "--size", metavar="NAME=NUMBER", help="A size of the inputs, such as batch=32; others stay symbols."
    ),
]

Measured = Annotated[
    str,
    typer.Option(
        "--target", "-t", metavar="NAME", help="Measure the memory of the program that a target emits: c."
    ),
]


@app.command()
def summary(
    context: typer.Context,
    model: Model,
    size: Sizes = [],
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=1, metavar="NUMBER", help="Merge layers with as many equal first names."),
    ] = None,
    precision: Precision = "f32",
    input: Inputs = [],
    loss: Loss = "mse",
    optimizer: OptimiserName = "adamw",
    lr: Rate = None,
    evaluation: Evaluation = False,
    trainable: Trainable = ["*"],
    target: Measured = "",
    option: Options = [],
) -> None:
    """List the layers of a Task: shapes, parameters, bytes of these and of state, FLOPs and workspace.

    FLOPs and workspace are those of one prediction. With --target, the workspace, flash and stack of the
    emitted functions, as `cost` has them, stand below instead of the workspace of each layer. With --input,
    the model is a PyTorch module, as for `catgrad compile`.

    Example: `catgrad summary net:task --size batch=32`
    """
    sizes = parsed(size)
    task = _task(context, model, precision, input, loss, optimizer, lr, evaluation, trainable)
    with guarded(f"{model} must have a summary", "mend the model"):
        found = task.summary(depth, **sizes)
        measured = _footprint(context, task, target, option, sizes)
    show_table(replace(found, footprint=measured).table)


@app.command()
def cost(
    context: typer.Context,
    model: Model,
    size: Sizes = [],
    precision: Precision = "f32",
    input: Inputs = [],
    loss: Loss = "mse",
    optimizer: OptimiserName = "adamw",
    lr: Rate = None,
    evaluation: Evaluation = False,
    trainable: Trainable = ["*"],
    devices: Annotated[int, typer.Option(help="Devices that share a step: count what each sends.")] = 1,
    target: Measured = "",
    option: Options = [],
) -> None:
    """Count what each function of a Task costs: FLOPs, bytes moved, workspace, bytes of gradients.

    With --devices, what each of so many sends in a step instead, and keeps of the parameters, if they share
    the examples, the parameters, or the layers. With --target, the workspace, flash and stack of each emitted
    function instead, the last two on a Cortex-M4, if a compiler for it is there. With --input, the model is a
    PyTorch module, as for `catgrad compile`.

    Example: `catgrad cost net:task --size batch=32 --devices 8`
    """
    sizes = parsed(size)
    task = _task(context, model, precision, input, loss, optimizer, lr, evaluation, trainable)
    with guarded(f"{model} must have a cost", "mend the model"):
        measured = _footprint(context, task, target, option, sizes)
        found = task.cost(**sizes) if devices == 1 else task.communication(devices, **sizes)
    show_table((measured or found).table)


def _footprint(
    context: object, task: Task, target: str, option: list[str], sizes: dict[str, Any]
) -> Footprint | None:
    """Emit a task and measure its memory, if a target is named. Raises: OptionError if it cannot"""
    if not target:
        require_unused(context, ["option"], "without --target")
        return None
    require_unused(context, ["devices"], "with --target")
    from catgrad.learn.compile import emit

    return emit(task, target, **parsed(option)).footprint(**sizes)


def _task(context: object, model: str, precision: str, inputs: list[str], *training: Any) -> Task:
    """Import a task, or a module with how to train it. Raises: OptionError if it is neither"""
    if not inputs:
        require_unused(context, OF_MODULES, "without --input")
    from catgrad.cli.modules import Training
    from catgrad.learn.task import Task

    found = Training(model, inputs, *training).task() if inputs else resolve(model)
    if not isinstance(found, Task):
        raise OptionError(
            "the model must be a Task, because state and gradients depend on an optimiser and a loss",
            f"{model} is {type(found).__name__}",
            "wrap the model as Task(model, sgd(0.01), mse)",
        )
    return in_precision(found, precision)
