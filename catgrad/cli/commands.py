"""The commands: `targets`, `ops`, `emit`, `compile`, `verify`, `draw` and `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import catgrad
from catgrad.cli.models import guarded, resolve
from catgrad.cli.options import OF_MODULES, in_precision, parsed, require_unused, spelled, with_bindings
from catgrad.cli.tables import FORMAT, Format, report, show, show_all, show_options, show_paths
from catgrad.errors import OptionError, require_one_of
from catgrad.files import write_atomically
from catgrad.paths import writable

if TYPE_CHECKING:
    from catgrad.artifact import Artifact
    from catgrad.cli.modules import Training

app = typer.Typer(rich_markup_mode="markdown")


def _target_names() -> list[str]:
    """Return the names of targets, for a shell to complete."""
    from catgrad.targets import backends

    return sorted(backends())


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:NAME",
        help="The model: MODULE is imported as Python does, from this folder first, and NAME in it is a "
        "`Task`, `Functions`, a term, or a function without arguments that returns one. Or the path of a "
        "file of terms, which ends in `.catgrad.json`.",
    ),
]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        metavar="NAME",
        help="The target to emit for; `catgrad targets` lists them.",
        autocompletion=_target_names,
    ),
]
Options = Annotated[
    list[str],
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the target; may be repeated. `catgrad targets c` explains those of c.",
    ),
]
Bindings = Annotated[
    list[str],
    typer.Option(
        "--bindings",
        metavar="LANGUAGE",
        help="A language from which the library of the target c is called, once for each: fortran, rust, go, "
        "julia, swift, csharp, java or python.",
    ),
]
EntryPoints = Annotated[
    list[str],
    typer.Option(
        "--function",
        "-f",
        metavar="NAME",
        help="A function to emit, once for each; by default predict and step. Others of a Task are loss "
        "(which validation needs), grads and update (the halves of step), rev (the reverse of predict) "
        "and rev_p (its part for the parameters); of c, cuda and ggml step_many (several batches in one "
        "call); of c predict_prepared (with packed weights). Initial values are always there, and with step "
        "what reads and writes weights, and a program that trains, if the target has these.",
    ),
]
Folder = Annotated[
    str, typer.Option("--output", "-o", metavar="FOLDER", help="The folder to write to; it is made.")
]
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="DTYPE",
        help="bf16: mixed precision, with matrix products, convolutions and attention in bfloat16, and the "
        "rest in float32. f32: as the model is written.",
    ),
]

Module = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py:NAME",
        help="The module: NAME in a file, or in a module MODULE:NAME, is a `torch.nn.Module`, or a function "
        "without arguments that returns one; hf:FOLDER is a model of Hugging Face on disk.",
    ),
]
Inputs = Annotated[
    list[str],
    typer.Option(
        "--input",
        metavar="TYPE",
        help="The dtype and the shape of an argument of forward, such as 'f32[batch,1,28,28]', once for "
        "each; a name is a size that may differ between calls.",
    ),
]
Loss = Annotated[
    str,
    typer.Option(
        "--loss",
        metavar="NAME",
        help="A loss of catgrad.losses, whose classes are the last axis, or a loss module of torch.nn; "
        "options follow in brackets: 'CrossEntropyLoss(label_smoothing=0.1)'.",
    ),
]
OptimiserName = Annotated[
    str,
    typer.Option(
        "--optimizer",
        metavar="NAME",
        help="An optimiser, with the options and defaults of torch.optim: "
        "'adamw(lr=1e-3, weight_decay=0.1)'.",
    ),
]
Scheduler = Annotated[
    str,
    typer.Option(
        "--scheduler",
        metavar="NAME",
        help="A scheduler of torch.optim, which makes one step for each step of the optimiser: "
        "'CosineAnnealingLR(T_max=100)'.",
    ),
]
Rate = Annotated[float | None, typer.Option("--lr", metavar="NUMBER", help="The learning rate.")]
Evaluation = Annotated[
    bool,
    typer.Option("--eval", help="Train in evaluation mode: without dropout, and with running statistics."),
]
Trainable = Annotated[
    list[str],
    typer.Option(
        "--trainable",
        metavar="PATTERN",
        help="Names of parameters to train, as patterns of a shell; others are constants. May be repeated.",
    ),
]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"catgrad {catgrad.__version__}")
        raise typer.Exit


def _chosen(form: Format) -> Callable[[bool], None]:
    """Return the callback of an option that chooses the form of the output."""

    def choose(asked: bool) -> None:
        if asked:
            FORMAT.set(form)

    return choose


@app.callback(
    invoke_without_command=True,
    epilog="Where an error came from is shown with CATGRAD_TRACEBACK=1 in the environment.",
)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and exit.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json", callback=_chosen(Format.JSON), expose_value=False, help="Print the results as JSON."
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            callback=_chosen(Format.QUIET),
            expose_value=False,
            help="Print errors only, and of lists the names only.",
        ),
    ] = False,
) -> None:
    """Compile a model's training loop into source code you own.

    Begin with `catgrad emit net:task -o out`, where `net.py` in this folder holds a Task named `task`.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def command() -> Any:
    """Return the command line, whose every command also takes the options for the form of the output."""
    group: Any = typer.main.get_command(app)
    shared = [option for option in group.params if option.name in ("json", "quiet")]
    for each in group.commands.values():
        each.params.extend(shared)
    return group


@app.command()
def targets(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="A target whose options to explain.", autocompletion=_target_names
        ),
    ] = "",
) -> None:
    """List the installed targets, or explain the options of one.

    Example: `catgrad targets c`
    """
    from catgrad.targets import get_backend, loaded_backends

    if not target:
        show(["target", "what it emits"], [[name, each.summary] for name, each in loaded_backends().items()])
        return
    options = get_backend(target).options
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    meaning = (getdoc(options) or "").partition("\n\nRaises:")[0]
    show_options(meaning, values, {name: spelled(value) for name, value in values.items()})


@app.command()
def ops() -> None:
    """List the operations, what each computes, and the targets that print it.

    Every target supports every definition: it prints it, or the primitives that define it.

    Example: `catgrad ops`
    """
    import catgrad.ops  # noqa: F401  # declares them
    from catgrad.targets import capability_table
    from catgrad.terms.op import OPS

    rows = []
    for name, printed in capability_table().items():
        op = OPS[name]
        kind = "definition" if op.body is not None else "primitive"
        meaning = (op.__doc__ or "").partition("\n")[0]
        rows.append([name, kind, meaning, _printed_by(printed)])
    show(["operation", "kind", "meaning", "printed by"], rows)


def _printed_by(printed: Mapping[str, bool]) -> str:
    """List the targets that print an operation, or those that do not if these are fewer."""
    has, lacks = ([name for name, found in printed.items() if found is wanted] for wanted in (True, False))
    if len(has) <= len(lacks):
        return ", ".join(has)
    return f"all but {', '.join(lacks)}" if lacks else "all"


@app.command()
def emit(
    model: Model,
    output: Folder = "out",
    target: Target = "numpy",
    function: EntryPoints = [],
    option: Options = [],
    bindings: Bindings = [],
    precision: Precision = "f32",
) -> None:
    """Write the source of a model's functions and its training step, and print the paths of the files.

    The model must be a `Task`, which has a loss and an optimiser, or `Functions`.

    Example: `catgrad emit net:task --target c --option openmp=true -o out`, with the loss
    `catgrad emit net:task -f predict -f step -f loss`, or called from Rust
    `catgrad emit net:task --target c --bindings rust`
    """
    from catgrad.learn.task import EMITTED

    folder = _named(output, "output folder")
    option = with_bindings(option, bindings)
    show_paths(_emitted(model, target, option, precision, EMITTED, function).write(folder))


@app.command(name="compile")
def compile_(
    model: Module,
    input: Inputs = [],
    loss: Loss = "mse",
    optimizer: OptimiserName = "adamw",
    lr: Rate = None,
    scheduler: Scheduler = "",
    target: Target = "numpy",
    output: Folder = "build",
    evaluation: Evaluation = False,
    trainable: Trainable = ["*"],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The name of the program and its files.")
    ] = "model",
    function: EntryPoints = [],
    option: Options = [],
    bindings: Bindings = [],
) -> None:
    """Compile a PyTorch module with its training step, and print the paths of the files.

    The folder gets the sources, the weights, a manifest (arrays, options, versions, the hash of the weights)
    and a README that says how to build and call them.

    Example: `catgrad compile net.py:make_model --input 'f32[batch,1,28,28]' --loss cross_entropy -t c`
    """
    from catgrad.cli.modules import Training

    folder = _named(output, "output folder")
    training = Training(model, input, loss, optimizer, lr, evaluation, trainable, name, scheduler)
    _, artifact = training.emitted(target, with_bindings(option, bindings), function or None)
    show_paths(artifact.write(folder))


@app.command()
def verify(
    context: typer.Context,
    model: Model,
    target: Target = "numpy",
    option: Options = [],
    precision: Precision = "f32",
    input: Inputs = [],
    loss: Loss = "mse",
    optimizer: OptimiserName = "adamw",
    lr: Rate = None,
    scheduler: Scheduler = "",
    evaluation: Evaluation = False,
    trainable: Trainable = ["*"],
    steps: Annotated[
        int, typer.Option("--steps", min=1, metavar="NUMBER", help="The steps to train a PyTorch module.")
    ] = 5,
    classes: Annotated[
        int,
        typer.Option("--classes", min=1, metavar="NUMBER", help="Labels and indices are drawn below this."),
    ] = 2,
    plot: Annotated[
        str, typer.Option("--plot", metavar="FILE", help="A plot of the differences over the steps to write.")
    ] = "",
) -> None:
    """Run the emitted program of a model, and compare every result of every function with the reference.

    The reference is NumPy, operation by operation; arrays are random. The program runs in its real runtime: C
    by a compiler, Scratch by its virtual machine. The table has for each function the largest
    |y - r| / (1 + |r|), and the tolerance of the target. The exit status is 1 if a result differs.

    With --input, the model is a PyTorch module, as for `catgrad compile`. It is trained on random batches,
    with labels of --classes classes, by PyTorch and by the emitted program, and losses, gradients,
    parameters, buffers and outputs are compared after each step.

    Example: `catgrad verify net:task --target c`, or
    `catgrad verify net.py:make_model --input 'f32[batch,1,28,28]' --loss cross_entropy --target c`
    """
    if input:
        require_unused(context, ["precision"], "with --input")
        from catgrad.cli.modules import Training

        training = Training(model, input, loss, optimizer, lr, evaluation, trainable, scheduler=scheduler)
        _replay(training, target, option, steps, classes, plot)
        return
    require_unused(context, [*OF_MODULES, "steps", "classes", "plot"], "without --input")
    _compare(model, target, option, precision)


def _replay(training: Training, target: str, option: list[str], steps: int, classes: int, plot: str) -> None:
    """Compare a training by PyTorch with that of the emitted program. Raises: VerificationError"""
    learner = training.learner(target, option)
    replay = learner.verify(training.batches(learner.artifact, steps, classes))
    report(replay.HEADER, replay.rows)
    if plot:
        replay.plot(plot)
    replay.check()


def _compare(model: str, target: str, option: list[str], precision: str) -> None:
    """Compare the emitted functions of a model with the reference. Raises: VerificationError"""
    from catgrad.learn.task import COMPILED
    from catgrad.verification import verify

    verification = verify(_emitted(model, target, option, precision, COMPILED))
    report(
        ["function", "results", "largest difference", "allowed", "agrees"],
        [
            [each.function, count, float(each.difference), float(each.tolerance), bool(each.agrees)]
            for each, count in verification.worst
        ],
    )
    verification.check()


@app.command()
def draw(
    model: Model,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The file to write: .svg, .png or .pdf.")
    ] = "model.svg",
    function: Annotated[
        str,
        typer.Option(
            "--function",
            "-f",
            metavar="NAME",
            help="The term of a Task to draw: model, predict, loss, rev (the reverse derivative of predict), "
            "rev_p (its part for the parameters), grads (the gradient of the loss), update (the part of the "
            "optimiser in a step), or step.",
        ),
    ] = "model",
    precision: Precision = "f32",
) -> None:
    """Draw a model as a diagram of boxes and wires with their types.

    It runs graphviz's program `dot`, or for SVG and PNG graphviz-pure, which is installed with catgrad.

    Example: `catgrad draw net:task -f step -o step.svg`
    """
    from catgrad.learn.task import TERMS, Task
    from catgrad.programs.terms import Terms
    from catgrad.terms.draw import render

    require_one_of("a function", function, TERMS)
    file = _named(output, "picture's file")
    found = in_precision(resolve(model), precision)
    if isinstance(found, Terms):
        found = found.only([function]).entries[function].term
    elif isinstance(found, Task):
        with guarded(f"{model} must have the term {function}", "mend the model, its loss or its optimiser"):
            found = found.term(function)
    picture = render(found, file.suffix.removeprefix("."))
    with writable("the picture's file", file):
        write_atomically(file, [picture])
    show_paths([file])


@app.command()
def doctor() -> None:
    """List the targets that can run on this machine, what the others need, and the installed tools.

    Every target can be emitted anywhere; only running the emitted program needs tools.

    Example: `catgrad doctor`
    """
    from catgrad.cli.doctor import examine

    runnable, tools = examine()
    show_all(
        {
            "targets": (["target", "runs here", "what to do"], runnable),
            "tools": (["tool", "version", "needed by", "how to install it"], tools),
        }
    )


def _emitted(
    model: str,
    target: str,
    option: list[str],
    precision: str,
    default: Sequence[str],
    functions: list[str] | None = None,
) -> Artifact:
    """Emit a Task or Functions. Raises: OptionError if the model is neither or does not compile."""
    from catgrad.learn.compile import emit_by_default
    from catgrad.learn.functions import Functions
    from catgrad.learn.task import Task
    from catgrad.programs.terms import Terms
    from catgrad.targets import get_backend

    backend = get_backend(target).configured(**parsed(option))
    task = in_precision(resolve(model), precision)
    if not isinstance(task, (Task, Functions, Terms)):
        raise OptionError(
            "the model to emit must be a Task, because a training step needs an optimiser and a loss",
            f"{model} is {type(task).__name__}",
            "wrap the model as Task(model, sgd(0.01), mse)",
        )
    with guarded(f"{model} must compile for {target}", "mend the model, its loss or its optimiser"):
        return emit_by_default(default, task, backend, functions or None)


def _named(path: str, what: str) -> Path:
    """Return the path. Raises: OptionError if it is empty, which would mean the current folder."""
    if not path:
        raise OptionError(f"the {what} must have a name", "it is empty", "write . for this folder")
    return Path(path)
