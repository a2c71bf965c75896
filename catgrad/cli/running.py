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
from catgrad.errors import OptionError, require_one_of, unknown
from catgrad.tables import Table

if TYPE_CHECKING:
    from catgrad.learn.functions import Functions
    from catgrad.learn.learner import Learner
    from catgrad.learn.task import Task
    from catgrad.programs.ports import Port

EXAMPLE_SIZE = 4
"""The size of a symbol that has none."""

CLASSES = 2
"""Random labels and indices are drawn below this."""


FunctionName = Annotated[
    str,
    typer.Option(
        "--function", "-f", metavar="NAME", help="The function of the Task, as `predict` or `grads`."
    ),
]
Trace = Annotated[
    bool,
    typer.Option("--trace", help="Run operation by operation, and find the first one that makes a NaN."),
]
Data = Annotated[
    str, typer.Option("--data", metavar="FILE.npz", help="The arrays by name, as x and y; random without.")
]
Weights = Annotated[
    str, typer.Option("--weights", metavar="FILE", help="A checkpoint; initial values of seed 0 without.")
]
Sizes = Annotated[
    list[str],
    typer.Option("--size", metavar="NAME=NUMBER", help="A size of random arrays, such as batch=32; else 4."),
]
Diagram = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", help="With --trace, the diagram to draw, the operation in red."
    ),
]


@app.command()
def run(
    context: typer.Context,
    model: Model,
    function: FunctionName = "loss",
    target: Target = "numpy",
    trace: Trace = False,
    data: Data = "",
    weights: Weights = "",
    size: Sizes = [],
    output: Diagram = "",
    precision: Precision = "f32",
) -> None:
    """Run a function of a Task on a target, and list its results: least, mean and greatest number, and NaN.

    A plain term, or one of `Functions`, is run by the interpreter, that is by the reference of each of its
    operations in NumPy. With --trace, a Task runs operation by operation, and the first one that made NaN of
    numbers is listed, and the slowest ones. Its diagram shows the first in red.

    Example: `catgrad run net:task -f grads --trace --data batch.npz --weights run.safetensors -o nan.svg`
    """
    from catgrad.learn.task import Task

    if data:
        require_unused(context, ["size"], "with --data")
    if not trace:
        require_unused(context, ["output"], "without --trace")
    found, sizes = in_precision(resolve(model), precision), parsed(size)
    if not isinstance(found, Task):
        require_unused(context, ["target", "trace", "weights"], "with a term, which the interpreter runs")
        with guarded(f"{model} must run", "mend the model or its data"):
            show_table(_interpreted(_functions(found), function, data, sizes))
        return
    with guarded(f"{model} must run", "mend the model, its weights or its data"):
        learner = _learner(found, weights)
        own = _own_arrays(found, function, data, sizes)
        if trace:
            _trace(found, function, target, learner, own, output)
        else:
            show_table(_computed(found, function, target, learner, own))


def _learner(task: Task, weights: str) -> Learner:
    """Return a learner with initial values of seed 0, or those of a checkpoint."""
    from catgrad.learn.compile import emit
    from catgrad.learn.fit import checkpoint

    learner: Learner = emit(task).load()().learner(seed=0)
    if weights:
        checkpoint.load(learner, weights)
    return learner


def _own_arrays(task: Task, function: str, data: str, sizes: Mapping[str, object]) -> list[Any]:
    """Read or draw the arguments of a function that are no tables."""
    from catgrad.learn.reports.trace import kind_of

    _, inputs, _ = task.entry(kind_of(function))
    return _arrays([port for port in inputs if not port.role.is_table], data, sizes)


def _trace(
    task: Task, function: str, target: str, learner: Learner, own: Sequence[object], output: str
) -> None:
    """Run a function operation by operation, list what was found, and draw it if a file is named."""
    from catgrad.learn.reports.trace import trace

    found = trace(task, *own, function=function, learner=learner, target=target)
    show_table(found.table)
    if output:
        found.draw(output)


def _computed(task: Task, function: str, target: str, learner: Learner, own: Sequence[object]) -> Table:
    """Run a function as it is emitted for a target, and describe its results."""
    from catgrad.learn.compile import emit_by_default
    from catgrad.learn.reports.trace import arguments, kind_of
    from catgrad.learn.task import COMPILED

    _, _, outputs = task.entry(kind_of(function))
    emitted = emit_by_default(COMPILED, task, target).load()()
    return _described(outputs, getattr(emitted, function)(*arguments(task, function, own, learner)))


def _functions(found: object) -> Functions:
    """Return the functions of a model that is no Task; a term is the only one of its own."""
    from catgrad.learn.functions import Functions
    from catgrad.terms.term import Term

    if isinstance(found, Functions):
        return found
    if isinstance(found, Term):
        return Functions({"term": found})
    raise OptionError(
        "the model to run must be a Task, Functions or a term",
        f"it is {type(found).__name__}",
        "wrap it as Functions({'name': term})",
    )


def _interpreted(functions: Functions, function: str, data: str, sizes: Mapping[str, object]) -> Table:
    """Evaluate a function, which needs no name where it is the only one, with initial values of seed 0."""
    from catgrad.learn.functions import initial_term
    from catgrad.programs.program import evaluate
    from catgrad.terms.state import SEED

    name = next(iter(functions.terms)) if len(functions.terms) == 1 and function == "loss" else function
    require_one_of("a function", name, functions.terms, "write -f NAME")
    term, inputs, outputs = functions.entry(name)
    slots = [*functions.buffers, *functions.parameters]
    seed = np.zeros((), SEED.array_type.dtype.numpy)
    initial = dict(zip((slot.name for slot in slots), evaluate(initial_term(slots), seed), strict=True))
    own = iter(_arrays([port for port in inputs if not port.role.is_table], data, sizes))
    given = [initial[port.name] if port.role.is_table else next(own) for port in inputs]
    return _described(outputs, evaluate(term, *given))


def _arrays(ports: Sequence[Port], file: str, sizes: Mapping[str, Any]) -> list[Any]:
    """Read the arrays of these names from a file, or draw them."""
    from catgrad.data.files import read_npz
    from catgrad.learn.reports.costs import require_sizes
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


def _described(ports: Sequence[Port], results: Sequence[object]) -> Table:
    from catgrad.types import as_numpy, widened

    rows = []
    for port, result in zip(ports, results, strict=True):
        array = widened(as_numpy(result)).astype(np.float64)
        finite = array[~np.isnan(array)]
        numbers = (finite.min(), finite.mean(), finite.max()) if finite.size else ()
        shown = map(float, numbers) if numbers else (None, None, None)
        rows.append((port.label, str(list(array.shape)), *shown, array.size - finite.size))
    return Table(("result", "shape", "least", "mean", "greatest", "NaN"), rows, texts=2)
