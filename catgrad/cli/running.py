"""The command that runs a function of a model: `run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from catgrad.cli.commands import Model, Precision, Target, app
from catgrad.cli.models import guarded, resolve
from catgrad.cli.options import in_precision, parsed, require_unused
from catgrad.cli.tables import show_table
from catgrad.errors import OptionError, unknown
from catgrad.tables import Table

if TYPE_CHECKING:
    from catgrad.learn.learner import Learner
    from catgrad.learn.task import Task
    from catgrad.programs.ports import Port

EXAMPLE_SIZE = 4
"""The size of a symbol that has none."""

CLASSES = 2
"""Random labels and indices are drawn below this."""


@app.command()
def run(
    context: typer.Context,
    model: Model,
    function: Annotated[
        str,
        typer.Option(
            "--function", "-f", metavar="NAME", help="The function of the Task, as `predict` or `grads`."
        ),
    ] = "loss",
    target: Target = "numpy",
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Run operation by operation, and find the first one that makes a NaN."),
    ] = False,
    data: Annotated[
        str,
        typer.Option("--data", metavar="FILE.npz", help="The arrays by name, as x and y; random without."),
    ] = "",
    weights: Annotated[
        str, typer.Option("--weights", metavar="FILE", help="A checkpoint; initial values of seed 0 without.")
    ] = "",
    size: Annotated[
        list[str],
        typer.Option(
            "--size", metavar="NAME=NUMBER", help="A size of random arrays, such as batch=32; else 4."
        ),
    ] = [],  # noqa: B006  # read and never changed
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="With --trace, the diagram to draw, the operation in red."
        ),
    ] = "",
    precision: Precision = "f32",
) -> None:
    """Run a function of a Task on a target, and list its results: least, mean and greatest number, and NaN.

    With --trace, it runs operation by operation, and lists the first one that made NaN of numbers, and the
    slowest ones. Its diagram shows the first in red.

    Example: `catgrad run net:task -f grads --trace --data batch.npz --weights run.safetensors -o nan.svg`
    """
    from catgrad.learn import checkpoint
    from catgrad.learn.compile import emit, emit_by_default
    from catgrad.learn.task import COMPILED
    from catgrad.learn.trace import arguments, kind_of
    from catgrad.learn.trace import trace as traced

    if data:
        require_unused(context, ["size"], "with --data")
    if not trace:
        require_unused(context, ["output"], "without --trace")
    task, sizes = _task(model, precision), parsed(size)
    with guarded(f"{model} must run", "mend the model, its weights or its data"):
        learner: Learner = emit(task).load()().learner(seed=0)
        if weights:
            checkpoint.load(learner, weights)
        _, inputs, outputs = task.entry(kind_of(function))
        own = _arrays([port for port in inputs if not port.role.is_table], data, sizes)
        if trace:
            found = traced(task, *own, function=function, learner=learner, target=target)
            show_table(found.table)
            if output:
                found.draw(output)
            return
        given = arguments(task, function, own, learner)
        show_table(
            _described(outputs, getattr(emit_by_default(COMPILED, task, target).load()(), function)(*given))
        )


def _task(model: str, precision: str) -> Task:
    from catgrad.learn.task import Task

    found = resolve(model)
    if not isinstance(found, Task):
        raise OptionError(
            "the model to run must be a Task, because its arrays have names and initial values",
            f"{model} is {type(found).__name__}",
            "wrap the model as Task(model, sgd(0.01), mse)",
        )
    return in_precision(found, precision)


def _arrays(ports: Sequence[Port], file: str, sizes: Mapping[str, Any]) -> list[Any]:
    """Read the arrays of these names from a file, or draw them."""
    from catgrad.data.files import read_npz
    from catgrad.learn.costs import require_sizes
    from catgrad.types import symbols
    from catgrad.verification import draw_arrays

    if file:
        arrays = read_npz(Path(file))
        for port in ports:
            if port.label not in arrays:
                raise unknown("name in the data", port.label, arrays, f"python -m zipfile -l {file}")
        return [arrays[port.label] for port in ports]
    types = tuple(port.type for port in ports)
    require_sizes(types, sizes)
    known = {**dict.fromkeys(symbols(types), EXAMPLE_SIZE), **sizes}
    return draw_arrays([type.substitute(known) for type in types], classes=CLASSES)


def _described(ports: Sequence[Port], results: Sequence[Any]) -> Table:
    from catgrad.types import as_numpy, widened

    rows = []
    for port, result in zip(ports, results, strict=True):
        array = widened(as_numpy(result)).astype(np.float64)
        finite = array[~np.isnan(array)]
        numbers = (finite.min(), finite.mean(), finite.max()) if finite.size else ()
        shown = map(float, numbers) if numbers else (None, None, None)
        rows.append((port.label, str(list(array.shape)), *shown, array.size - finite.size))
    return Table(("result", "shape", "least", "mean", "greatest", "NaN"), rows, texts=2)
