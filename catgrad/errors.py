"""Exceptions, all under CatgradError: each says what must hold, what was found, where, and what to do.

CatgradError
├── TypeMismatch (TypeError)      arrays, wires or terms that do not fit together
│   ├── ShapeError                … because of their shapes
│   └── DtypeError                … because of their element types
├── TermError (ValueError)        a term that is not a function: cyclic, or a wire dangling or merged
├── OptionError (ValueError)      an attribute or option outside its range
├── TextError (ValueError)        a text that is not a program of its language
├── UnsupportedOp (NotImplementedError)   a target that lacks an operation
│   └── FixedSize                 … or a module that fixes the size of a symbolic axis
├── UnknownName (LookupError)     no such target, operation, module or attribute
├── NotEmitted (AttributeError)   a function of a task that was not emitted
├── DivergenceError (ArithmeticError)     a training whose loss is not finite
├── VerificationError (ArithmeticError)   an emitted program whose results differ from the reference
├── ArtifactError (OSError)       files that cannot be written or read
└── ToolError (RuntimeError)      an external tool that is missing or failed
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn, Self


class CatgradError(Exception):
    """A sentence in four parts: `subject: must, but found, in where; do`."""

    def __init__(self, must: str, found: str, do: str, *, subject: str = "", where: str = "") -> None:
        super().__init__(must, found, do)
        self.must, self.found, self.do = must, found, do
        self.subject, self.where = subject, where

    def about(self, subject: str = "", where: str = "") -> Self:
        """Fill in the subject and place of an error where they are empty."""
        self.subject = self.subject or subject
        self.where = self.where or where
        return self

    def __str__(self) -> str:
        subject = f"{self.subject}: " if self.subject else ""
        where = f", in {self.where}" if self.where else ""
        return one_line(f"{subject}{self.must}, but {self.found}{where}; {self.do}")


@contextmanager
def translated(refused: Callable[[Exception], CatgradError]) -> Iterator[None]:
    """Turn any error that a parser has with an untrusted file into one of catgrad.

    Parsers raise what happens to go wrong in them; a list of exceptions would never be complete.
    """
    try:
        yield
    except CatgradError:
        raise
    except Exception as error:
        raise refused(error) from error


def brief(error: Exception) -> str:
    """Return the cause of an error as one line of at most 200 characters."""
    return f"{' '.join(str(error).split())[:200] or 'no reason is given'} ({type(error).__name__})"


def one_line(text: str) -> str:
    r"""Join the lines of a text by spaces, and escape characters that are not printable.

    Then a text from outside cannot end a comment, a message or a line in a terminal.
    """
    if text.isprintable():
        return text
    lines = (line.strip() for line in text.expandtabs(1).splitlines())
    joined = " ".join(filter(None, lines))
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in joined)


class TypeMismatch(CatgradError, TypeError):
    """Arrays, wires or terms that do not fit together."""


class ShapeError(TypeMismatch):
    """Shapes that do not fit together."""


class DtypeError(TypeMismatch):
    """Element types that do not fit together."""


class TermError(CatgradError, ValueError):
    """A term that does not denote a function: it has a cycle, or a wire dangles or merges."""


class OptionError(CatgradError, ValueError):
    """An attribute of an operation, or an option of a target, outside its range."""


class TextError(CatgradError, ValueError):
    """A text that is not a program of its language."""


class UnsupportedOp(CatgradError, NotImplementedError):
    """A target cannot print an operation, and the operation has no body to expand."""


class FixedSize(UnsupportedOp):
    """A module fixes the size of a symbolic axis, so it can be imported with that axis fixed."""

    def __init__(
        self,
        must: str,
        found: str,
        do: str = "leave it out of `dynamic`, or rewrite that line",
        *,
        subject: str = "",
        where: str = "",
    ) -> None:
        super().__init__(must, found, do, subject=subject, where=where)


class UnknownName(CatgradError, LookupError):
    """No target, operation, module or attribute has this name."""


def unknown(kind: str, name: str, known: Iterable[str], command: str) -> UnknownName:
    """Return the error for an unknown name, with a suggestion of the nearest known one."""
    names = sorted(known)
    return UnknownName(
        f"a {kind} must be one of {', '.join(names)}",
        f"it is {name!r}",
        f"{nearest(name, names)}`{command}` lists them",
    )


def require_one_of(what: str, name: Any, known: Iterable[str], do: str = "choose one of these") -> None:
    """Raise OptionError unless a name is a known one, with the nearest of these."""
    names = [*known]
    if name not in names:
        listed = ", ".join(names)
        raise OptionError(f"{what} must be one of {listed}", f"it is {name!r}", nearest(name, names) + do)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion of the nearest of these names; empty if none is near."""
    near = get_close_matches(str(name), list(map(str, known)), n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def no_attribute(module: str, known: Iterable[str]) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module, whose error suggests the nearest name, whatever the case."""
    spelled = {name.replace("_", "").lower(): name for name in known}

    def refuse(name: str) -> NoReturn:
        near = get_close_matches(name.replace("_", "").lower(), spelled, n=1)
        hint = f"did you mean {spelled[near[0]]!r}?" if near else f"dir({module}) lists them"
        raise AttributeError(f"{module} must have what is read from it, but it has no {name!r}; {hint}")

    return refuse


class NotEmitted(CatgradError, AttributeError):
    """A function of a task was not emitted."""


def not_emitted(name: str, emitted: Iterable[str]) -> NotEmitted:
    """Return the error for a function that was not emitted, with the call that emits it."""
    functions = list(map(str, emitted))
    return NotEmitted(
        f"an emitted program must have the function {name} for this",
        f"it has {', '.join(functions) or 'none'}",
        f"emit it with functions={(*functions, str(name))}",
    )


class DivergenceError(CatgradError, ArithmeticError):
    """A training whose loss is not finite."""


class VerificationError(CatgradError, ArithmeticError):
    """An emitted program whose results differ from those of the reference."""


class ArtifactError(CatgradError, OSError):
    """Files that cannot be written or read."""


class ToolError(CatgradError, RuntimeError):
    """An external tool (dot, a compiler) that is missing or failed."""


class CatgradWarning(UserWarning):
    """A warning: something works, but not as well as its user may expect."""
