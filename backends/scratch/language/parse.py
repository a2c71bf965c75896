"""Parser: text to syntax tree."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from catgrad.errors import TextError

from ... import templates
from .refused import refused
from .tree import Section

if TYPE_CHECKING:
    from lark import Lark


@lru_cache(maxsize=2)
def parse(text: str) -> tuple[Section, ...]:
    """Parse a program to its sections. Raises: TextError, which names the line."""
    from lark.exceptions import UnexpectedInput

    _require_unicode(text)
    try:
        return parser().parse(text + "\n")  # type: ignore[return-value]  # as the rule `start` returns
    except UnexpectedInput as error:
        raise _misplaced(error, text) from None


def _require_unicode(text: str) -> None:
    """Raise TextError at half of a surrogate pair, which no file can have."""
    for number, line in enumerate(text.split("\n"), 1):
        try:
            line.encode()
        except UnicodeEncodeError as error:
            raise refused(
                number,
                "a text must be Unicode",
                f"it has half of a surrogate pair, {line[error.start]!a}",
                "leave it out",
            ) from None


@cache
def parser() -> Lark:
    """Return the parser of the grammar templates/scratch/language.lark."""
    from lark import Lark

    from .builders import Builders, Indentation

    return Lark(
        (templates("scratch") / "language.lark").read_text(encoding="utf-8"),
        parser="lalr",
        maybe_placeholders=False,
        postlex=Indentation(),
        transformer=Builders(),
    )


def _misplaced(error: Any, text: str) -> TextError:
    token = getattr(error, "token", None)
    if token is not None and token.type in ("_INDENT", "_DEDENT"):
        return refused(
            token.end_line,
            "a line must be indented by 4 spaces more than the line it belongs to",
            f"it is indented by {'more' if token.type == '_INDENT' else 'less'}",
            "indent it so",
        )
    line = error.line if error.line > 0 else text.count("\n") + 1
    rest = str(token or text[error.pos_in_stream :].split("\n")[0])
    return refused(
        line,
        "a line must have one of the forms of the language",
        f"it goes on with {rest!r}" if rest.strip() else "it ends too early",
        "the reference page scratch-language shows them",
    )
