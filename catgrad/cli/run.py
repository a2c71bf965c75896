"""Run a command line to an exit status, with one line on standard error for an error."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from catgrad.cli import clean, derive, looking, playground, running, terms  # noqa: F401  # add their commands
from catgrad.cli.commands import command
from catgrad.cli.models import described, place
from catgrad.cli.tables import FORMAT, Format
from catgrad.errors import CatgradError, CatgradWarning, VerificationError, one_line

FAILED, REFUSED, INTERRUPTED = 1, 2, 130
"""Exit statuses: a wrong program, a defect or a broken pipe; an error of the input; Ctrl-C."""

COMPLETE = "_CATGRAD_COMPLETE"
"""The variable by which a shell asks for completions."""

UsageError: Any = typer.BadParameter.__bases__[0]  # Typer bundles click, and does not export this name


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 for success, 1 if verification fails, 2 after an error, 130 if
    interrupted.

    With CATGRAD_TRACEBACK in the environment, the traceback of an error precedes its line.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # characters that the terminal cannot encode are escaped
            stream.reconfigure(errors="backslashreplace")
    if COMPLETE in os.environ:  # a shell asks for completions, in Typer's own protocol
        command()(prog_name="catgrad")
    with _short_warnings():
        status = _run(sys.argv[1:] if arguments is None else list(arguments))
    sys.exit(status)


def _run(arguments: list[str]) -> int:
    try:
        status = _invoke(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of the output closed the pipe
        _forget_output()
        return FAILED
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, OSError) and not isinstance(error, CatgradError):
            _forget_output()
        if os.environ.get("CATGRAD_TRACEBACK"):
            traceback.print_exception(error)
        status, message = _explained(error)
        typer.secho(f"catgrad: {one_line(message)}", fg="red", err=True)
        return status


def _invoke(arguments: list[str]) -> int:
    """Run a command by Typer's parts, as its own `main` prints errors differently."""
    form = FORMAT.set(Format.TEXT)
    try:
        group = command()
        with group.make_context("catgrad", arguments) as context:
            group.invoke(context)
    except typer.Exit as done:
        return int(done.exit_code)
    finally:
        FORMAT.reset(form)
    return 0


def _forget_output() -> None:
    """Discard pending output, about which Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _explained(error: BaseException) -> tuple[int, str]:
    """Return the exit status and the sentence for an error."""
    if isinstance(error, CatgradError):
        return FAILED if isinstance(error, VerificationError) else REFUSED, str(error)
    if isinstance(error, UsageError):
        path, message = error.ctx.command_path if error.ctx else "catgrad", error.format_message().rstrip(".")
        stop = "" if message.endswith("?") else ";"
        return REFUSED, f"{message[:1].lower()}{message[1:]}{stop} `{path} --help` explains what there is"
    if isinstance(error, KeyboardInterrupt):
        found = CatgradError(
            "the command must run to its end", "it was interrupted", "run it again", where=place(error)
        )
        return INTERRUPTED, str(found)
    if isinstance(error, OSError):
        return REFUSED, f"standard output must be writable, but it is not: {error.strerror}; write elsewhere"
    found = CatgradError(
        "the command must succeed or report invalid input",
        f"it raised {described(error)}",
        "this is a defect: report it with the traceback that CATGRAD_TRACEBACK=1 shows",
    )
    return FAILED, str(found)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Show a warning of catgrad as one line, others as usual."""
    others = warnings.formatwarning

    def formatted(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> str:
        if issubclass(category, CatgradWarning):
            return f"catgrad: {one_line(str(message))}\n"
        return others(message, category, *where, **more)

    warnings.formatwarning = formatted
    try:
        yield
    finally:
        warnings.formatwarning = others
