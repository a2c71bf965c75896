"""Tokenizers of single characters."""

from __future__ import annotations

from dataclasses import dataclass

from .tokenizer import Tokenizer


@dataclass(frozen=True)
class CharTokenizer(Tokenizer):
    """A token for each character: ids from 0 in the order of the vocabulary."""

    @classmethod
    def train(cls, text: str, unknown: str | None = None) -> CharTokenizer:
        """Train on a text: its characters in Unicode order, then the unknown token, if any."""
        characters = sorted(set(text))
        if unknown is None:
            return cls(tuple(characters))
        return cls((*characters, unknown), unknown=len(characters))

    def tokenize(self, word: str) -> list[int]:
        """Return the id of each character."""
        return [self.id_of(character) for character in word]
