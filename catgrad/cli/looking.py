"""The commands that look at a model: `summary` and `cost`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from catgrad.cli.commands import (
    Evaluation,
    Inputs,
    Loss,
    Model,
    OptimiserName,
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
    from catgrad.learn.task import Task

Sizes = Annotated[
    list[str],
    typer.Option(
        "--size", metavar="NAME=NUMBER", help="A size of the inputs, such as batch=32; others stay symbols."
    ),
]


@app.command()
def summary(
    context: typer.Context,
    model: Model,
    size: Sizes = [],  # noqa: B006  # read and never changed
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=1, metavar="NUMBER", help="Merge layers with as many equal first names."),
    ] = None,
    precision: Precision = "f32",
    input: Inputs = [],  # noqa: B006
    loss: Loss = "mse",
    optimizer: OptimiserName = "adamw",
    lr: Rate = None,
    evaluation: Evaluation = False,
    trainable: Trainable = ["*"],  # noqa: B006
) -> None:
    """List the layers of a Task: shapes, parameters, bytes of these and of state, FLOPs and workspace.

    FLOPs and workspace are those of one prediction. With --input, the model is a PyTorch module, as for
    `catgrad compile`.

    Example: `catgrad summary net:task --size batch=32`
    """
    sizes = parsed(size)
    task = _task(context, model, precision, input, loss, optimizer, lr, evaluation, trainable)
    with guarded(f"{model} must have a summary", "mend the model"):
        show_table(task.summary(depth, **sizes).table)


@app.command()
def cost(
    context: typer.Context,
    model: Model,
    size: Sizes = [],  # noqa: B006
    precision: Precision = "f32",
    input: Inputs = [],  # noqa: B006
    loss: Loss = "mse",
    optimizer: OptimiserName = "adamw",
    lr: Rate = None,
    evaluation: Evaluation = False,
    trainable: Trainable = ["*"],  # noqa: B006
    devices: Annotated[int, typer.Option(help="Devices that share a step: count what each sends.")] = 1,
) -> None:
    """Count what each function of a Task costs: FLOPs, bytes moved, workspace, bytes of gradients.

    With --devices, what each of so many sends in a step instead, and keeps of the parameters, if they share
    the examples, the parameters, or the layers. With --input, the model is a PyTorch module, as for `catgrad
    compile`.

    Example: `catgrad cost net:task --size batch=32 --devices 8`
    """
    sizes = parsed(size)
    task = _task(context, model, precision, input, loss, optimizer, lr, evaluation, trainable)
    with guarded(f"{model} must have a cost", "mend the model"):
        found = task.cost(**sizes) if devices == 1 else task.communication(devices, **sizes)
        show_table(found.table)


def _task(context: Any, model: str, precision: str, inputs: list[str], *training: Any) -> Task:
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
