"""The base class of tokenizers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from numbers import Integral

from catgrad.errors import OptionError, UnknownName

from .stages import Decoder, PreTokenizer


@dataclass(frozen=True)
class Tokenizer(ABC):
    """A vocabulary, whose indices are the ids of tokens, with the stages of encoding and decoding.

    `unknown` is the id of characters without token, or None. Tokens in `special` are not part of texts:
    `encode` adds those of `before` and `after` around the others, and `decode` removes all of them.

    Raises: OptionError unless tokens are texts that differ, at least one, and ids are theirs
    """

    vocabulary: tuple[str, ...]
    _: KW_ONLY
    unknown: int | None = None
    special: frozenset[int] = frozenset()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    lowercase: bool = False
    pre_tokenizer: PreTokenizer = field(default_factory=PreTokenizer)
    decoder: Decoder = field(default_factory=Decoder)

    def __post_init__(self) -> None:
        if not self.vocabulary:
            raise OptionError("a vocabulary must have tokens", "it has none", "train it on a longer text")
        for token in self.vocabulary:
            if not isinstance(token, str):
                raise OptionError("a token must be a text", f"one is {token!r}", "write it so")
        twice = [token for token, count in Counter(self.vocabulary).items() if count > 1]
        if twice:
            raise OptionError(
                "the tokens of a vocabulary must differ", f"{twice[0]!r} occurs twice", "leave one out"
            )
        ids = {*self.special, *self.before, *self.after, *([] if self.unknown is None else [self.unknown])}
        for id in sorted(ids):
            if not isinstance(id, Integral) or not 0 <= id < len(self.vocabulary):
                raise OptionError(
                    f"an id must be one of 0 to {len(self.vocabulary) - 1}",
                    f"it is {id}",
                    "extend the vocabulary",
                )

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each token."""
        return {token: id for id, token in enumerate(self.vocabulary)}

    def encode(self, text: str) -> list[int]:
        """Encode a text. Raises: UnknownName for a character without token, if there is no unknown token."""
        written = "".join(character.lower() for character in text) if self.lowercase else text
        ids = [id for word in self.pre_tokenizer.words(written) for id in self.tokenize(word)]
        return [*self.before, *ids, *self.after]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids. Raises: UnknownName for a number that is not an id."""
        for id in ids:
            if id not in range(len(self.vocabulary)):
                raise UnknownName(
                    f"tokens must be integers from 0 to {len(self.vocabulary) - 1}",
                    f"one is {id!r}",
                    "decode what this tokenizer encodes",
                )
        return self.decoder.text([self.vocabulary[int(id)] for id in ids if id not in self.special])

    @abstractmethod
    def tokenize(self, word: str) -> list[int]:
        """Encode a word. Raises: UnknownName as `encode` does."""

    def id_of(self, character: str) -> int:
        """Return the id of a character, or the unknown one. Raises: UnknownName if there is neither."""
        id = self.ids.get(character, self.unknown)
        if id is None:
            raise UnknownName(
                "each character must have a token",
                f"{character!r} has none",
                "leave it out, or use a tokenizer with a token for unknown characters",
            )
        return id
