"""Byte-pair encoding of characters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from catgrad.errors import OptionError

from .stages import SENTENCES
from .tokenizer import Tokenizer

Pair = tuple[int, int]


@dataclass(frozen=True)
class BPETokenizer(Tokenizer):
    """A BPE tokenizer: merges pairs of a word in the order of `merges`, from the left.

    With `fuse_unknown`, adjacent unknown characters are one token.

    Raises: OptionError unless each merge is of two tokens to a token
    Source: Sennrich et al. 2016 (arXiv:1508.07909), section 3.2
    """

    merges: tuple[tuple[str, str], ...] = ()
    fuse_unknown: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for left, right in self.merges:
            for token in (left, right, left + right):
                if token not in self.ids:
                    raise OptionError(
                        "the parts and the result of a merge must be tokens",
                        f"{token!r} is none, in the merge of {left!r} and {right!r}",
                        "add it to the vocabulary",
                    )

    @cached_property
    def ranks(self) -> dict[Pair, tuple[int, int]]:
        """For each pair of ids, the rank of its merge and the id of the result."""
        return {
            (self.ids[left], self.ids[right]): (rank, self.ids[left + right])
            for rank, (left, right) in enumerate(self.merges)
        }

    @classmethod
    def train(cls, text: str, size: int, unknown: str | None = None) -> BPETokenizer:
        """Train at most `size` tokens: the characters of a text, then merges of the most frequent pairs."""
        pre_tokenizer, decoder = SENTENCES
        words = [(list(word), count) for word, count in Counter(pre_tokenizer.words(text)).items()]
        special = [] if unknown is None else [unknown]
        vocabulary = [*special, *sorted({character for word, _ in words for character in word})]
        merges: list[tuple[str, str]] = []
        while len(vocabulary) < size and (pair := _most_frequent(words)):
            merges.append(pair)
            vocabulary += [] if "".join(pair) in vocabulary else ["".join(pair)]
            words = [(_merged(word, pair), count) for word, count in words]
        return cls(
            tuple(vocabulary),
            tuple(merges),
            unknown=0 if special else None,
            pre_tokenizer=pre_tokenizer,
            decoder=decoder,
        )

    def tokenize(self, word: str) -> list[int]:
        """Return the ids of a word."""
        symbols = self._symbols(word)
        while len(symbols) > 1:
            pairs = [self.ranks.get(pair, (len(self.merges), 0)) for pair in pairwise(symbols)]
            place = min(range(len(pairs)), key=pairs.__getitem__)
            rank, merged = pairs[place]
            if rank == len(self.merges):
                break
            symbols[place : place + 2] = [merged]
        return symbols

    def _symbols(self, word: str) -> list[int]:
        symbols: list[int] = []
        fusing = False
        for character in word:
            known = character in self.ids
            if known or not fusing:
                symbols.append(self.id_of(character))
            fusing = self.fuse_unknown and not known
        return symbols


def _most_frequent(words: list[tuple[list[str], int]]) -> tuple[str, str] | None:
    """Return the most frequent pair of neighbours; of several, the first in Unicode order."""
    counts: Counter[tuple[str, str]] = Counter()
    for word, count in words:
        for pair in pairwise(word):
            counts[pair] += count
    return min(counts, key=lambda pair: (-counts[pair], pair), default=None)


def _merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for token in word:
        if merged and (merged[-1], token) == pair:
            merged[-1] += token
        else:
            merged.append(token)
    return merged
