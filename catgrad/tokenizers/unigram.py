"""Unigram language models of tokens, as SentencePiece has them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from catgrad.errors import OptionError

from .tokenizer import Tokenizer

PENALTY = 10.0
"""By how much an unknown character scores less than the least of the tokens."""


@dataclass(frozen=True)
class UnigramTokenizer(Tokenizer):
    """A word divided into the tokens whose scores, logarithms of probabilities, have the largest sum.

    A character without token of its own may be unknown instead, and unknown ones beside each other are one
    token. Where none is for that, each character needs its own.

    Raises: OptionError unless there is a finite score for each token
    Source: Kudo 2018 (arXiv:1804.10959), section 3.2
    """

    scores: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.scores) != len(self.vocabulary) or not all(map(math.isfinite, self.scores)):
            raise OptionError(
                "each token must have a finite score",
                f"{sum(map(math.isfinite, self.scores))} scores are for {len(self.vocabulary)} tokens",
                "give one for each",
            )

    @property
    def unknown_score(self) -> float:
        """What an unknown character scores."""
        return min(self.scores) - PENALTY

    @cached_property
    def longest(self) -> int:
        """How many characters the longest token has."""
        return max(map(len, self.vocabulary))

    def tokenize(self, word: str) -> list[int]:
        """The ids of a word; of divisions that score the same, that which is found first from the left."""
        best = [(0.0, 0, 0)] + [(-math.inf, 0, 0)] * len(word)  # of each end: score, start and id of the last
        for start in range(len(word)):
            here = best[start][0]
            for end in range(start + 1, min(start + self.longest, len(word)) + 1):
                id = self.ids.get(word[start:end])
                score = here + (self.unknown_score if id is None else self.scores[id])
                if id is None and end == start + 1:
                    id = self.id_of(word[start])
                if id is not None and score > best[end][0]:
                    best[end] = (score, start, id)
        return self._path(best)

    def _path(self, best: list[tuple[float, int, int]]) -> list[int]:
        path: list[int] = []
        end = len(best) - 1
        while end:
            _, end, id = best[end]
            if not (path and id == self.unknown == path[-1]):
                path.append(id)
        return path[::-1]
