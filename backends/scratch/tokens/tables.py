"""What a sprite needs of a tokenizer: symbols of letters, and lists in which pairs of them are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from catgrad.errors import OptionError
from catgrad.tokenizers import BPETokenizer, Tokenizer, UnigramTokenizer

from ..assemble.costume import FIRST
from .pairs import PairTable, pair_table, trie

SEPARATOR = -1
"""The symbol of what stands between words."""


@dataclass(frozen=True)
class Tables:
    """What templates are given of a tokenizer; a symbol is a number for a character, from 0: mostly its id.

    Letters are found by costumes: only in their names does Scratch tell upper from lower case.
    """

    tokenizer: Tokenizer
    first, prefix = FIRST, "letter "
    separator = SEPARATOR
    below_surrogates, above_surrogates = "\ud7ff", "\ue000"

    @property
    def kind(self) -> str:
        """How words are encoded."""
        return "bpe" if isinstance(self.tokenizer, BPETokenizer) and self.tokenizer.merges else "char"

    @property
    def fuse_unknown(self) -> bool:
        """Whether unknown characters beside each other are one symbol."""
        return isinstance(self.tokenizer, BPETokenizer) and self.tokenizer.fuse_unknown

    @cached_property
    def alphabet(self) -> dict[str, int]:
        """The symbol of each character that tokens are made of."""
        return {token: id for token, id in self.tokenizer.ids.items() if len(token) == 1}

    @property
    def unknown(self) -> int:
        """The symbol of characters that are not in the alphabet."""
        return self.tokenizer.unknown or 0

    @property
    def space(self) -> int:
        """The symbol of what is written for a space. Raises: OptionError if there is none."""
        written = self.tokenizer.pre_tokenizer.space
        if written not in self.alphabet:
            raise OptionError(
                f"the vocabulary must have {written!r}, which is written for a space", "it has not", "add it"
            )
        return self.alphabet[written]

    @cached_property
    def symbols(self) -> dict[str, int]:
        """The symbol of each character that a text may have."""
        pre_tokenizer = self.tokenizer.pre_tokenizer
        symbols = self.alphabet | ({" ": self.space} if pre_tokenizer.space else {})
        symbols |= dict.fromkeys(pre_tokenizer.separators, SEPARATOR)
        return _in_any_case(symbols) if self.tokenizer.lowercase else symbols

    @property
    def costumes(self) -> list[str]:
        """The names of the costumes that letters are found by."""
        return [self.prefix + character for character in self.symbols]

    @cached_property
    def table(self) -> PairTable:
        """The place of each merge in their order, by the pair of symbols."""
        tokenizer = self.tokenizer
        assert isinstance(tokenizer, BPETokenizer)  # as no other has merges
        ranks = {pair: rank for pair, (rank, _) in tokenizer.ranks.items()}
        return pair_table(ranks, len(tokenizer.vocabulary), len(tokenizer.merges))

    @cached_property
    def lists(self) -> dict[str, Sequence[Any]]:
        """The lists that do not change."""
        tokenizer = self.tokenizer
        shown = [tokenizer.decoder.shown(token) for token in tokenizer.vocabulary]
        texts = ["" if id in tokenizer.special else text for id, text in enumerate(shown)]
        return {
            "vocabulary": texts,
            "~text.symbols": [self.unknown, *self.symbols.values()],
            **self.model_lists(),
        }

    def model_lists(self) -> dict[str, Sequence[Any]]:
        """Those of the model alone."""
        if not isinstance(self.tokenizer, BPETokenizer) or self.kind == "char":
            return {}
        ids = self.tokenizer.ids
        merged = [ids[left + right] for left, right in self.tokenizer.merges]
        return {"merged": merged, "~text.pairs": self.table.keys, "~text.values": self.table.values}


@dataclass(frozen=True)
class UnigramTables(Tables):
    """For a Unigram model, whose symbols are the places of characters among those of all tokens, from 1.

    Characters with a token of their own are the last, from `own` on.
    """

    tokenizer: UnigramTokenizer
    kind = "unigram"
    unknown = 0

    @cached_property
    def alphabet(self) -> dict[str, int]:
        """The symbol of each character that tokens are made of, and that texts may have."""
        ids = self.tokenizer.ids
        own = sorted(token for token in ids if len(token) == 1)
        others = sorted({character for token in ids for character in token}.difference(own))
        among = own if self.tokenizer.unknown is None else [*others, *own]
        return {character: place for place, character in enumerate(among, start=1)}

    @property
    def own(self) -> int:
        """The first symbol of a character with a token of its own."""
        return 1 + sum(character not in self.tokenizer.ids for character in self.alphabet)

    @cached_property
    def nodes(self) -> tuple[dict[tuple[int, int], int], list[int]]:
        """The trie of tokens. A character outside the alphabet has a symbol that no letter has."""
        none = len(self.alphabet) + 1
        return trie([self.alphabet.get(c, none) for c in token] for token in self.tokenizer.vocabulary)

    @cached_property
    def table(self) -> PairTable:
        """The next node, by a node and a symbol."""
        return pair_table(self.nodes[0], len(self.alphabet) + 2, 0)

    def model_lists(self) -> dict[str, Sequence[Any]]:
        """Those of the model alone."""
        return {
            "scores": self.tokenizer.scores,
            "~text.pairs": self.table.keys,
            "~text.values": self.table.values,
            "~text.nodes": self.nodes[1],
        }


def tables(tokenizer: Tokenizer) -> Tables:
    """What templates are given of a tokenizer."""
    return UnigramTables(tokenizer) if isinstance(tokenizer, UnigramTokenizer) else Tables(tokenizer)


def _in_any_case(symbols: dict[str, int]) -> dict[str, int]:
    """The symbols of characters by those that become them in lower case."""
    every = (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    return {character: symbols[lower] for character in every if (lower := character.lower()) in symbols}
