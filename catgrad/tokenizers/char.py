"""Characters as tokens."""

from __future__ import annotations

from dataclasses import dataclass

from .tokenizer import Tokenizer


@dataclass(frozen=True)
class CharTokenizer(Tokenizer):
    """A token for each character: ids from 0 in the order of the vocabulary."""

    @classmethod
    def train(cls, text: str, unknown: str | None = None) -> CharTokenizer:
        """The characters of a text in their order in Unicode, then the token for what is unknown, if any."""
        characters = sorted(set(text))
        if unknown is None:
            return cls(tuple(characters))
        return cls((*characters, unknown), unknown=len(characters))

    def tokenize(self, word: str) -> list[int]:
        """The id of each character."""
        return [self.id_of(character) for character in word]
