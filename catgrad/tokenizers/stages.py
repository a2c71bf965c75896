"""The stages before and after the model of a tokenizer: pre-tokenization and decoding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.errors import OptionError

WHITESPACE = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
"""White space in Unicode."""

METASPACE = "▁"
"""The character for a space in SentencePiece."""


@dataclass(frozen=True)
class PreTokenizer:
    """Pre-tokenization: split text into words, which are encoded separately.

    `separators` are characters that end a word and are removed. If `space` is not empty, it replaces each
    space; with `prepend` it is added to a text that begins without one, and with `split` each begins a
    word.

    Raises: OptionError unless they are texts
    """

    separators: str = ""
    space: str = ""
    prepend: bool = False
    split: bool = False

    def __post_init__(self) -> None:
        _require_texts("a pre-tokenizer", self.separators, self.space)

    def words(self, text: str) -> list[str]:
        """Split a text into words, none of which is empty."""
        apart = re.split(f"[{re.escape(self.separators)}]", text) if self.separators else [text]
        spaced = [self._spaced(part) for part in apart if part] if self.space else apart
        begin = f"(?={re.escape(self.space)})"
        words = [word for part in spaced for word in re.split(begin, part)] if self.split else spaced
        return [word for word in words if word]

    def _spaced(self, part: str) -> str:
        written = part.replace(" ", self.space)
        return self.space * (self.prepend and not written.startswith(self.space)) + written


@dataclass(frozen=True)
class Decoder:
    """Decoding: join tokens to a text.

    `separator` is inserted between tokens. If `space` is not empty, it becomes a space again, but is
    removed from the first token with `strip`.

    Raises: OptionError unless they are texts
    """

    separator: str = ""
    space: str = ""
    strip: bool = False

    def __post_init__(self) -> None:
        _require_texts("a decoder", self.separator, self.space)

    def text(self, tokens: Sequence[str]) -> str:
        """Join tokens to a text."""
        return self.separator.join(self.shown(token, place == 0) for place, token in enumerate(tokens))

    def shown(self, token: str, first: bool = False) -> str:
        """Return the text of one token."""
        if not self.space:
            return token
        return token.replace(self.space, "" if first and self.strip else " ")


def _require_texts(what: str, *texts: str) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise OptionError(f"characters of {what} must be a text", f"they are {text!r}", "write them so")


SENTENCES = PreTokenizer(space=METASPACE, prepend=True, split=True), Decoder(space=METASPACE, strip=True)
"""Split words before each space, so that decoding restores it."""
