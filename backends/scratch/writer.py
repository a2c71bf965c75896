"""Sprites that write: a tokenizer, a model that remembers the tokens before, and what draws the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catgrad.backend import Backend
from catgrad.errors import OptionError
from catgrad.program import Program
from catgrad.tokenizers import Tokenizer, from_hugging_face

from .entries import Entry
from .tokenizers import Tables, tables


@dataclass(frozen=True)
class Writer:
    """The tokenizer, where a token goes in and scores come out, how many there are and how many fit."""

    t: Tables
    token: str
    scores: str
    count: int
    memory: int


def tokens(backend: Backend) -> Tables | None:
    """The tokenizer that the option names, for templates."""
    given = backend.options.tokenizer
    if given is None:
        return None
    return tables(given if isinstance(given, Tokenizer) else from_hugging_face(given))


def writer(backend: Backend, program: Program, entries: Mapping[str, Entry]) -> Writer | None:
    """What makes a sprite write. Raises: OptionError if its model cannot go on from one token."""
    t = tokens(backend)
    if t is None:
        return None
    entry = entries["trained"]
    memories = [s.type.shape[-2] for s in program.tables.get("buffers", ()) if s.name.endswith(".keys")]
    scores = [value for value in entry.gives if value.name == "y_hat"]
    if not memories or len(entry.takes) != 1 or entry.takes[0].size != 1 or len(scores) != 1:
        raise OptionError(
            "a model that writes must take one token at a time, and have attention with memory",
            f"{program.name} takes {_sizes(entry)} and remembers {len(memories)} attentions",
            "build it with the option `memory` of layers.attention",
        )
    count = len(t.tokenizer.vocabulary)
    if scores[0].size != count:
        raise OptionError(
            f"the model must have a score for each of the tokenizer's {count} tokens",
            f"it has {scores[0].size}",
            "give the tokenizer that it was trained with",
        )
    return Writer(t, entry.takes[0].place, scores[0].place, count, min(memories))


def _sizes(entry: Entry) -> str:
    return " and ".join(f"{value.size} numbers" for value in entry.takes) or "nothing"


def given_lists(backend: Backend) -> dict[str, Sequence[Any]]:
    """The lists of the tokenizer."""
    t = tokens(backend)
    return {} if t is None else t.lists
