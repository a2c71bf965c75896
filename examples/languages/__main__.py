"""Train Fisher's irises in another language.

    python -m catgrad.examples.languages rust --out flowers

Emits the model in C with bindings to the language, writes a program of at most 30 lines beside it, and prints
the commands that build and run it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import run
from . import LANGUAGES, artifact, write

Language = Annotated[str, typer.Argument(help=f"One of {', '.join(LANGUAGES)}.")]
Out = Annotated[Path, typer.Option(help="The folder to write to; it is made.")]


def main(language: Language, out: Out = Path("flowers")) -> None:
    """Write a program that trains on Fisher's irises in another language."""
    artifact(language).write(out)
    write(out, LANGUAGES[language])
    for command in (f"cd {out}", *LANGUAGES[language].commands):
        typer.echo(command)


if __name__ == "__main__":
    run(main)
