"""Unigram tokenizers, as in SentencePiece."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from catgrad.errors import OptionError

from .tokenizer import Tokenizer

PENALTY = 10.0
"""The difference of the score of an unknown character to the lowest score of a token."""


@dataclass(frozen=True)
class UnigramTokenizer(Tokenizer):
    """A Unigram tokenizer: splits a word into tokens with the largest sum of scores (Viterbi).

    Scores are logarithms of probabilities. Adjacent characters without token are one unknown token; without
    an unknown token, each character needs a token.

    Raises: OptionError unless each token has a finite score
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
        """The score of an unknown character."""
        return min(self.scores) - PENALTY

    @cached_property
    def longest(self) -> int:
        """The length of the longest token."""
        return max(map(len, self.vocabulary))

    def tokenize(self, word: str) -> list[int]:
        """Encode a word; of equal splits, the first one found from the left."""
        # For each end: score, start and id of the last token.
        best = [(0.0, 0, 0)] + [(-math.inf, 0, 0)] * len(word)
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
