"""The commands on terms and trained numbers: `check`, `certify`, `save` and `hash`."""

from __future__ import annotations

from typing import Annotated

import typer

from catgrad.cli.commands import Model, Precision, _named, app
from catgrad.cli.models import guarded, resolve
from catgrad.cli.options import in_precision
from catgrad.cli.tables import FORMAT, Cell, Format, show, show_paths
from catgrad.errors import OptionError, ToolError, UnsupportedOp

MEND = "mend the model, its loss or its optimiser"


@app.command()
def check(model: Model, precision: Precision = "f32") -> None:
    """Check the types of all terms of a model, and list the ranges of its symbolic sizes.

    An error says which types are expected and found, in which layer, and the lines that made the wires.

    Example: `catgrad check net:task`
    """
    from catgrad.learn.entries import terms_of
    from catgrad.terms.check import check
    from catgrad.terms.term import Term

    found = in_precision(resolve(model), precision)
    with guarded(f"{model} must have terms", MEND):
        plain = isinstance(found, Term)
        terms = {"term": found} if plain else {n: e.term for n, e in terms_of(found).entries.items()}
        checked = {name: check(term) for name, term in terms.items()}
    rows: list[list[Cell]] = []
    for name, each in checked.items():
        sizes = [f"{symbol}: {range}" for symbol, range in each.ranges.items()]
        rows.append([name, len(each.types), "; ".join([*sizes, *map(str, each.requirements)]) or "none"])
    show(["term", "wires", "sizes that may vary"], rows)


@app.command()
def certify(
    model: Model,
    target: Annotated[
        list[str],
        typer.Option("--target", "-t", metavar="NAME", help="A target; may be repeated. By default all."),
    ] = [],
    steps: Annotated[int, typer.Option("--steps", min=1, metavar="NUMBER", help="The steps to train.")] = 5,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="Compile C and WebAssembly for speed, not for the same bits with any compiler."
        ),
    ] = False,
    precision: Precision = "f32",
) -> None:
    """Train a model on each target that runs here, and print the SHA-256 of the parameters.

    All begin with the same values and get the same random batches. The difference is the largest
    |p - r| / (1 + |r|) from the reference, NumPy operation by operation.

    Example: `CC=clang catgrad certify net:task -t c -t numpy`
    """
    from catgrad.certification import certify
    from catgrad.learn.compile import emit
    from catgrad.targets import get_backend, loaded_backends

    found = in_precision(resolve(model), precision)
    targets = target or [name for name, each in loaded_backends().items() if not each.missing()]
    rows: dict[str, list[Cell]] = {}
    for name in targets:
        try:
            with guarded(f"{model} must compile for {name}", MEND):
                artifact = emit(found, get_backend(name))
            certificates = certify(artifact, steps, exact=not fast)
        except (OptionError, ToolError, UnsupportedOp) as error:
            if target:
                raise
            typer.echo(f"{name}: {error}", err=True)
            continue
        for each in certificates:
            rows[each.target] = [each.target, each.sha256, float(each.difference)]
    show(["target", "SHA-256 of the parameters", "largest difference"], rows.values())


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
    show_paths([file])


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
    from catgrad.learn.entries import layered, terms_of
    from catgrad.learn.saving import digest
    from catgrad.terms import canonical
    from catgrad.terms.term import Term

    found = in_precision(resolve(model), precision)
    with guarded(f"{model} must have terms", MEND):
        whole = digest(found)
        entries = terms_of(layered(found)).entries if terms and not isinstance(found, Term) else {}
        each = [[name, canonical.digest(entry.term)] for name, entry in entries.items()]
    if FORMAT.get() is Format.JSON:
        show(["term", "SHA-256"], [["model", whole], *each])
        return
    typer.echo(whole)
    if each and FORMAT.get() is Format.TEXT:
        show(["term", "SHA-256"], each)
