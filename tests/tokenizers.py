"""Tokenizers of the library tokenizers, trained on a page of this project, and random texts."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest

_PAGE = (Path(__file__).parents[1] / "docs" / "explanation" / "glossary.md").read_text(encoding="utf-8")
_SPECIAL = ["<unk>", "<s>"]
_ODD = [*" ▁\t\nAaÀàßſK0١漢日é😀🏳", "\u3000", "\xa0", "  ", "e\u0301"]

_ANY = [code for code in range(32, 0x20000) if not 0xD800 <= code < 0xE000]

_NEVER = {"prepend_scheme": "never"}

TRAINED = {
    # model, pre-tokenizer, decoder
    "BPE, Metaspace": ("BPE", [("Metaspace", {})], ("Metaspace", {})),
    "BPE, whole text": ("BPE", [("Metaspace", {"split": False, **_NEVER})], ("Metaspace", _NEVER)),
    "BPE, words, fused": ("BPE", [("WhitespaceSplit", {}), ("Metaspace", {})], ("Metaspace", {})),
    "BPE, no decoder": ("BPE", [("CharDelimiterSplit", {"delimiter": "e"})], None),
    "Unigram, Metaspace": ("Unigram", [("Metaspace", {})], ("Metaspace", {})),
    "Unigram, words": ("Unigram", [("WhitespaceSplit", {})], ("Fuse", {})),
}


@cache
def trained(kind):
    """Train a tokenizer of this kind by the library."""
    tokenizers = pytest.importorskip("tokenizers", reason="the library tokenizers is not installed")
    model, before, decoder = TRAINED[kind]
    options = {"unk_token": "<unk>", "fuse_unk": "fused" in kind} if model == "BPE" else {}
    tokenizer = tokenizers.Tokenizer(getattr(tokenizers.models, model)(**options))
    stages = [getattr(tokenizers.pre_tokenizers, name)(**given) for name, given in before]
    tokenizer.pre_tokenizer = stages[0] if len(stages) == 1 else tokenizers.pre_tokenizers.Sequence(stages)
    if decoder:
        tokenizer.decoder = getattr(tokenizers.decoders, decoder[0])(**decoder[1])
    trainer = {"BPE": tokenizers.trainers.BpeTrainer, "Unigram": tokenizers.trainers.UnigramTrainer}[model]
    unknown = {"unk_token": "<unk>"} if model == "Unigram" else {}
    tokenizer.train_from_iterator(
        _PAGE.splitlines(), trainer(vocab_size=300, special_tokens=_SPECIAL, show_progress=False, **unknown)
    )
    tokenizer.encode_special_tokens = True
    return tokenizer


def texts(count):
    """Draw texts of words of the page, unusual characters, and random ones."""
    chance = random.Random(0)
    words = [*_PAGE.split(), *_SPECIAL]

    def part():
        kind = chance.random()
        if kind < 0.6:
            return chance.choice(words)
        return chance.choice(_ODD) if kind < 0.9 else chr(chance.choice(_ANY))

    return [chance.choice(["", " "]).join(part() for _ in range(chance.randrange(12))) for _ in range(count)]
