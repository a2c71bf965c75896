"""Tables of a tokenizer for a sprite: symbols of letters, and hash tables of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from catgrad.errors import OptionError
from catgrad.tokenizers import BPETokenizer, Tokenizer, UnigramTokenizer

from ..assemble.costume import FIRST
from .pairs import PairTable, pair_table, trie

SEPARATOR = -1
"""The symbol of separators between words."""


@dataclass(frozen=True)
class Tables:
    """The variables of a tokenizer for templates; a symbol is the number of a character, mostly its id.

    Letters are looked up as costumes, whose names are case-sensitive in Scratch, unlike texts.
    """

    tokenizer: Tokenizer
    first, prefix = FIRST, "letter "
    separator = SEPARATOR
    below_surrogates, above_surrogates = "\ud7ff", "\ue000"

    @property
    def kind(self) -> str:
        """The kind of model."""
        return "bpe" if isinstance(self.tokenizer, BPETokenizer) and self.tokenizer.merges else "char"

    @property
    def fuse_unknown(self) -> bool:
        """Return whether adjacent unknown characters are one symbol."""
        return isinstance(self.tokenizer, BPETokenizer) and self.tokenizer.fuse_unknown

    @cached_property
    def alphabet(self) -> dict[str, int]:
        """The symbols of the characters of tokens."""
        return {token: id for token, id in self.tokenizer.ids.items() if len(token) == 1}

    @property
    def unknown(self) -> int:
        """The symbol of unknown characters."""
        return self.tokenizer.unknown or 0

    @property
    def space(self) -> int:
        """The symbol of the character for a space. Raises: OptionError if it has no token."""
        written = self.tokenizer.pre_tokenizer.space
        if written not in self.alphabet:
            raise OptionError(
                f"the vocabulary must have {written!r}, which replaces spaces", "it has not", "add it"
            )
        return self.alphabet[written]

    @cached_property
    def symbols(self) -> dict[str, int]:
        """The symbols of the characters of texts."""
        pre_tokenizer = self.tokenizer.pre_tokenizer
        symbols = self.alphabet | ({" ": self.space} if pre_tokenizer.space else {})
        symbols |= dict.fromkeys(pre_tokenizer.separators, SEPARATOR)
        return _in_any_case(symbols) if self.tokenizer.lowercase else symbols

    @property
    def costumes(self) -> list[str]:
        """The names of the costumes for letters."""
        return [self.prefix + character for character in self.symbols]

    @cached_property
    def table(self) -> PairTable:
        """The rank of each merge, by the pair of symbols."""
        tokenizer = self.tokenizer
        assert isinstance(tokenizer, BPETokenizer)  # only BPE has merges
        ranks = {pair: rank for pair, (rank, _) in tokenizer.ranks.items()}
        return pair_table(ranks, len(tokenizer.vocabulary), len(tokenizer.merges))

    @cached_property
    def lists(self) -> dict[str, Sequence[object]]:
        """The constant lists."""
        tokenizer = self.tokenizer
        shown = [tokenizer.decoder.shown(token) for token in tokenizer.vocabulary]
        texts = ["" if id in tokenizer.special else text for id, text in enumerate(shown)]
        return {
            "vocabulary": texts,
            "~text.symbols": [self.unknown, *self.symbols.values()],
            **self.model_lists(),
        }

    def model_lists(self) -> dict[str, Sequence[object]]:
        """The lists of the model."""
        if not isinstance(self.tokenizer, BPETokenizer) or self.kind == "char":
            return {}
        ids = self.tokenizer.ids
        merged = [ids[left + right] for left, right in self.tokenizer.merges]
        return {"merged": merged, "~text.pairs": self.table.keys, "~text.values": self.table.values}


@dataclass(frozen=True)
class UnigramTables(Tables):
    """The tables of a Unigram model, whose symbols number the characters of all tokens from 1.

    Characters that are tokens are the last, from `own` on.
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
        """The first symbol of a character that is a token."""
        return 1 + sum(character not in self.tokenizer.ids for character in self.alphabet)

    @cached_property
    def nodes(self) -> tuple[dict[tuple[int, int], int], list[int]]:
        """The trie of tokens. Unknown characters have a symbol that no letter has."""
        none = len(self.alphabet) + 1
        return trie([self.alphabet.get(c, none) for c in token] for token in self.tokenizer.vocabulary)

    @cached_property
    def table(self) -> PairTable:
        """The next node, by a node and a symbol."""
        return pair_table(self.nodes[0], len(self.alphabet) + 2, 0)

    def model_lists(self) -> dict[str, Sequence[object]]:
        """The lists of the model."""
        return {
            "scores": self.tokenizer.scores,
            "~text.pairs": self.table.keys,
            "~text.values": self.table.values,
            "~text.nodes": self.nodes[1],
        }


def tables(tokenizer: Tokenizer) -> Tables:
    """Return the variables of a tokenizer for templates."""
    return UnigramTables(tokenizer) if isinstance(tokenizer, UnigramTokenizer) else Tables(tokenizer)


def _in_any_case(symbols: dict[str, int]) -> dict[str, int]:
    """Add the symbols of characters whose lower case has one."""
    every = (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    return {character: symbols[lower] for character in every if (lower := character.lower()) in symbols}
