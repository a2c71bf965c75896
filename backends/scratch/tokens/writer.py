"""Sprites that generate text: a tokenizer, a model with a key/value cache, and sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from catgrad.backend import Backend
from catgrad.errors import OptionError
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Program
from catgrad.tokenizers import Tokenizer, from_hugging_face

from ..compile.entries import Routine
from ..compile.sizes import streams
from .tokenizers import Tables, tables


@dataclass(frozen=True)
class Writer:
    """The tokenizer, the variables of token and scores, and the sizes of vocabulary and context.

    `end` is the token that ends a text, or None.
    """

    t: Tables
    token: str
    scores: str
    count: int
    memory: int
    end: int | None


def writer(backend: Backend, program: Program, entries: Mapping[str, Routine]) -> Writer | None:
    """Return the text generator of a sprite with the option `tokenizer`.

    Raises: OptionError if its model does not continue from one token, or other options are not allowed
    """
    tokenizer = backend.options.tokenizer
    if tokenizer is None:
        return None
    if not isinstance(tokenizer, Tokenizer):
        tokenizer = from_hugging_face(tokenizer)
    _check_options(backend)
    entry = next((e for e in entries.values() if e.function.kind is Kind.TRAINED), None)
    if entry is None:
        raise OptionError(
            "a sprite that generates text must be emitted from a Task",
            f"{program.name} is Functions",
            "leave out the tokenizer, or write Task(model, sgd(0.01), mse)",
        )
    scores, memory = entry.outputs, _memory(program, entry)
    count = len(tokenizer.vocabulary)
    if scores[0].size != count:
        raise OptionError(
            f"the model must have a score for each of the tokenizer's {count} tokens",
            f"it has {scores[0].size}",
            "pass the tokenizer that it was trained with",
        )
    # The prompt must not end with the tokens after a text.
    opened = tables(replace(tokenizer, after=()))
    end = tokenizer.after[0] if tokenizer.after else None
    return Writer(opened, entry.takes[0].place, scores[0].place, count, memory, end)


def _memory(program: Program, entry: Routine) -> int:
    """Return the number of tokens that a model remembers. Raises: OptionError if it cannot generate text."""
    memories = [
        int(s.type.shape[-2]) for s in program.tables.get(Role.BUFFER, ()) if s.name.endswith(".keys")
    ]
    sizes = " and ".join(f"{value.size} numbers" for value in entry.takes)
    if not memories or len(entry.takes) != 1 or entry.takes[0].size != 1 or len(entry.outputs) != 1:
        raise OptionError(
            "a model that generates text must take one token at a time, and have attention with memory",
            f"{program.name} takes {sizes or 'nothing'} and has {len(memories)} memories",
            "build it with the option `memory` of layers.attention",
        )
    if streams(program):
        raise OptionError(
            "a model that generates text must draw no random numbers",
            f"{program.name} has dropout",
            "build it without",
        )
    return min(memories)


def _check_options(backend: Backend) -> None:
    options = backend.options
    for name in ("features", "classes"):
        if getattr(options, name):
            raise OptionError(
                f"a sprite that generates text must have no {name}", "it has", f"leave out {name}"
            )
