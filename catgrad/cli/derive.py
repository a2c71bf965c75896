"""The command that writes derivatives of a model of ONNX: `derive`."""

from __future__ import annotations

from typing import Annotated

import typer

from catgrad.cli.commands import Folder, Options, Target, _named, app
from catgrad.cli.models import guarded
from catgrad.cli.options import parsed
from catgrad.cli.tables import show_paths


@app.command()
def derive(
    model: Annotated[str, typer.Argument(metavar="FILE.onnx", help="The model, a file of ONNX.")],
    order: Annotated[
        int, typer.Option("--order", min=1, metavar="NUMBER", help="The order up to which to differentiate.")
    ] = 1,
    parameters: Annotated[
        bool,
        typer.Option(
            "--parameters", help="Make the parameters inputs too, and differentiate by them and the inputs."
        ),
    ] = False,
    size: Annotated[
        list[str],
        typer.Option("--size", metavar="NAME=NUMBER", help="A size of the inputs to fix, such as batch=1."),
    ] = [],
    target: Target = "onnx",
    output: Folder = "out",
    option: Options = [],
) -> None:
    """Write the derivatives of a model of ONNX, as models of ONNX or for another target, and print the paths.

    These are value, jvp and vjp, and with --order 2 jvp_2 and vjp_2; for a model to one number, gradient and
    hvp (the Hessian-vector product) in place of vjp. They take the inputs of the model, then the cotangents
    and directions `v_NAME`, `v2_NAME`, …, and return the derivatives `d_NAME`.

    Example: `catgrad derive net.onnx --order 2 -o derivatives`
    """
    from catgrad.frontends.onnx import from_onnx
    from catgrad.learn.compile import emit
    from catgrad.targets import get_backend

    folder = _named(output, "output folder")
    backend = get_backend(target).configured(**parsed(option))
    with guarded(f"{model} must have derivatives", "export the model with other operators"):
        functions = from_onnx(model, sizes=parsed(size)).derived(order, parameters)
        artifact = emit(functions, backend)
    show_paths(artifact.write(folder))
