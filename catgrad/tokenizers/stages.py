"""What happens to text before a model of tokens, and to tokens after it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

WHITESPACE = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
"""The characters that Unicode counts as white space."""

METASPACE = "▁"
"""What SentencePiece writes for a space."""


@dataclass(frozen=True)
class PreTokenizer:
    """Text divided into words, which are encoded one by one.

    `separators` are the characters that end a word and are left out. Where `space` is not empty, it is
    written for each space: with `prepend` also before what begins without one, and with `split` each begins
    a word.
    """

    separators: str = ""
    space: str = ""
    prepend: bool = False
    split: bool = False

    def words(self, text: str) -> list[str]:
        """The words of a text; none is empty."""
        apart = re.split(f"[{re.escape(self.separators)}]", text) if self.separators else [text]
        spaced = [self._spaced(part) for part in apart if part] if self.space else apart
        words = [word for part in spaced for word in self._split(part)] if self.split else spaced
        return [word for word in words if word]

    def _spaced(self, part: str) -> str:
        written = part.replace(" ", self.space)
        return self.space * (self.prepend and not written.startswith(self.space)) + written

    def _split(self, part: str) -> list[str]:
        return re.split(f"(?={re.escape(self.space)})", part)


@dataclass(frozen=True)
class Decoder:
    """Tokens put together to a text.

    `separator` stands between them. What is written for a space, if `space` is not empty, becomes one again,
    but vanishes from the first token with `strip`.
    """

    separator: str = ""
    space: str = ""
    strip: bool = False

    def text(self, tokens: Sequence[str]) -> str:
        """The text of tokens."""
        return self.separator.join(self.shown(token, place == 0) for place, token in enumerate(tokens))

    def shown(self, token: str, first: bool = False) -> str:
        """The text of one token."""
        if not self.space:
            return token
        return token.replace(self.space, "" if first and self.strip else " ")


SENTENCES = PreTokenizer(space=METASPACE, prepend=True, split=True), Decoder(space=METASPACE, strip=True)
"""Words that begin with the space before them, so that decoding restores it."""
