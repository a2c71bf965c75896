"""The command line: `catgrad targets`, `ops`, `emit` and `draw`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from inspect import getdoc, isfunction
from pathlib import Path
from typing import Annotated, Any

import typer

from catgrad.errors import ArtifactError, CatgradError, OptionError, UnknownName, unknown

app = typer.Typer(
    help="Compile a model's training loop into source code you own.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:NAME",
        help="Where the model is: a `Task`, a term, or a function without arguments that returns one, "
        "as in `examples.iris:dense`.",
    ),
]
Target = Annotated[str, typer.Option("--target", "-t", help="What to emit; `catgrad targets` lists them.")]


@app.command()
def targets(
    target: Annotated[str, typer.Argument(help="The target whose options to explain.")] = "",
) -> None:
    """List the installed targets, or the options of one.

    Example: `catgrad targets c`
    """
    from catgrad.backend import backends, get_backend

    if not target:
        _table(
            ["target", "what it emits"], [[name, get_backend(name).summary] for name in sorted(backends())]
        )
        return
    options = get_backend(target).options
    typer.echo((getdoc(options) or "").partition("\n\nRaises:")[0])
    for field in fields(options):
        typer.echo(f"  --option {field.name}={_spelled(field.default)}")


@app.command()
def ops() -> None:
    """List the operations, what they compute, and which targets print them themselves.

    A definition is printed by every target: where a target has nothing better, its body is.
    """
    import catgrad.ops  # noqa: F401  # declares them
    from catgrad.backend import capability_table
    from catgrad.op import OPS

    rows = []
    for name, printed in capability_table().items():
        op = OPS[name]
        kind = "definition" if op.body is not None else "primitive"
        meaning = (op.__doc__ or "").splitlines()[0]
        by = "all" if all(printed.values()) else ", ".join(t for t, has in printed.items() if has)
        rows.append([name, kind, meaning, by])
    _table(["operation", "kind", "meaning", "printed by"], rows)


@app.command()
def emit(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("out"),
    target: Target = "numpy",
    option: Annotated[
        list[str],
        typer.Option(
            "--option",
            help="NAME=VALUE, an option of the target; may be repeated. "
            "`catgrad targets c` explains those of c.",
        ),
    ] = [],  # noqa: B006  # read and never changed
) -> None:
    """Write the source of a model's functions and its training step.

    Example: `catgrad emit examples.iris:dense --target numpy -o out`
    """
    from catgrad.learn.compile import emit as emit_task
    from catgrad.learn.task import Task

    task = _resolve(model)
    if not isinstance(task, Task):
        raise OptionError(
            "what is emitted must be a Task, for a training step has an optimiser and a loss",
            f"{model} is {type(task).__name__}",
            "wrap the model as Task(model, sgd(0.01), mse)",
        )
    for path in emit_task(task, target, **dict(map(_option, option))).write(output):
        typer.echo(path)


@app.command()
def draw(
    model: Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write: .svg, .png or .pdf.")
    ] = Path("model.svg"),
    function: Annotated[
        str,
        typer.Option(
            "--function",
            "-f",
            help="Which term of a Task: model, predict, loss, rev, rev_p, grads, update, step or train_step.",
        ),
    ] = "model",
) -> None:
    """Draw a model as boxes and wires with their types.

    Example: `catgrad draw examples.iris:dense -o dense.svg`
    """
    from catgrad.draw import render
    from catgrad.learn.task import TERMS, Task

    found = _resolve(model)
    if isinstance(found, Task):
        if function not in TERMS:
            raise OptionError(
                f"a function must be one of {', '.join(TERMS)}", f"it is {function!r}", "choose one of these"
            )
        found = found.term(function)
    picture = render(found, output.suffix.removeprefix("."))
    try:
        output.write_bytes(picture)
    except OSError as error:
        raise ArtifactError(
            "the picture's file must be writable", f"{output} is not: {error.strerror}", "choose another path"
        ) from None
    typer.echo(output)


def main() -> None:
    """Run the command line; an error is one sentence and exit status 2."""
    try:
        app(standalone_mode=True)
    except CatgradError as error:
        typer.secho(f"catgrad: {error}", fg="red", err=True)
        raise SystemExit(2) from None


def _option(text: str) -> tuple[str, Any]:
    """An option: its name, and its value, a truth value or a number if it reads so. Raises: OptionError."""
    name, equals, value = text.partition("=")
    if not equals:
        raise OptionError(
            "an option must be given as NAME=VALUE", f"it is {text!r}", "write for example skeleton=true"
        )
    if value.isascii() and value.isdigit():
        return name, int(value)
    return name, {"true": True, "false": False}.get(value, value)


def _spelled(value: Any) -> str:
    """The value of an option as it is written."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _resolve(reference: str) -> Any:
    """The Task or term that `module:name` refers to. Raises: UnknownName, OptionError."""
    from catgrad.learn.task import Task
    from catgrad.term import Term

    module_name, _, name = reference.partition(":")
    if not name:
        raise OptionError(
            "a model must be given as MODULE:NAME",
            f"it is {reference!r}",
            "write for example examples.iris:dense",
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(module_name)
    except Exception as error:
        raise UnknownName(
            f"the module {module_name!r} must import",
            f"it raised {type(error).__name__}: {error}",
            "run from the folder that holds it, and see that `python -c 'import ...'` works",
        ) from None
    if not hasattr(module, name):
        own = {n: v for n, v in vars(module).items() if getattr(v, "__module__", "") == module_name}
        known = {n: v for n, v in own.items() if isinstance(v, (Task, Term)) or isfunction(v)}
        raise unknown("name in the module", name, known, f"python -c 'import {module_name}'")
    found = getattr(module, name)
    if callable(found) and not isinstance(found, (Task, Term)):
        found = _called(found, reference)
    if not isinstance(found, (Task, Term)):
        raise OptionError(
            f"{reference} must be a Task or a term, or return one",
            f"it is {type(found).__name__}",
            "build one with Task(...) or build(...)",
        )
    return found


def _called(function: Callable[[], Any], reference: str) -> Any:
    try:
        return function()
    except CatgradError:
        raise
    except Exception as error:
        raise OptionError(
            f"{reference} must return a Task or a term when it is called without arguments",
            f"it raised {type(error).__name__}: {error}",
            "give a function without arguments that builds the model",
        ) from None


def _table(header: list[str], rows: list[list[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*header, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)


if __name__ == "__main__":
    main()
