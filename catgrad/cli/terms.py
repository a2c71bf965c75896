"""The commands on terms themselves: `save` and `hash`."""

from __future__ import annotations

from typing import Annotated

import typer

from catgrad.cli.commands import Model, Precision, _named, app
from catgrad.cli.models import guarded, resolve
from catgrad.cli.options import in_precision
from catgrad.cli.tables import show

MEND = "mend the model, its loss or its optimiser"


@app.command()
def save(
    model: Model,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The file to write, FILE.catgrad.json.")
    ] = "model.catgrad.json",
    precision: Precision = "f32",
) -> None:
    """Write the terms of a model to a file, with ports, tables and their hash, and print its path.

    The file can be given to `emit`, `verify`, `draw` and `hash` in place of MODULE:NAME. It holds no code.

    Example: `catgrad save net:task -o net.catgrad.json`
    """
    from catgrad.learn.saving import save

    file = _named(output, "file of terms")
    found = in_precision(resolve(model), precision)
    with guarded(f"{model} must have terms", MEND):
        save(found, file)
    typer.echo(file)


@app.command(name="hash")
def hash_(
    model: Model,
    terms: Annotated[bool, typer.Option("--terms", help="List the hash of each term too.")] = False,
    precision: Precision = "f32",
) -> None:
    """Print the SHA-256 of a model, which every file that is emitted from it states.

    Isomorphic terms have the same hash; any change of an operation, an attribute, a type or an initial value
    changes it. Names of layers do not.

    Example: `catgrad hash net:task`
    """
    from catgrad.learn.entries import terms_of
    from catgrad.learn.saving import digest
    from catgrad.terms import canonical
    from catgrad.terms.term import Term

    found = in_precision(resolve(model), precision)
    with guarded(f"{model} must have terms", MEND):
        typer.echo(digest(found))
        if terms and not isinstance(found, Term):
            entries = terms_of(found).entries.items()
            show(["term", "SHA-256"], [[name, canonical.digest(entry.term)] for name, entry in entries])
