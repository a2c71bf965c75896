"""Tokenizers of the libraries tokenizers and transformers, read from their JSON."""

from __future__ import annotations

import json
from pathlib import Path

from catgrad.errors import OptionError, translated
from catgrad.paths import readable, require_file

from .bpe import BPETokenizer
from .hugging_face_stages import MODELS, NEEDLESS, Json, decoder, lowercase, pre_tokenizer, refused, template
from .tokenizer import Tokenizer
from .unigram import UnigramTokenizer

MAX_FILE_BYTES = 2**28
"""The maximum size of a tokenizer.json: ten times that of the largest vocabularies."""


def from_hugging_face(source: object) -> Tokenizer:
    """Convert a tokenizer to data; it encodes as the library does with `encode_special_tokens`.

    `source` is a `tokenizers.Tokenizer`, a fast tokenizer of `transformers`, or the path of a tokenizer.json.

    Raises: UnsupportedOp for stages that no sprite can do, such as regular expressions and bytes;
    OptionError if it is not a tokenizer; ArtifactError if the file cannot be read
    """
    with translated(_malformed):
        return _read(_description(source))


def _malformed(error: Exception) -> OptionError:
    return OptionError(
        "a tokenizer.json must have the form that the library tokenizers gives it",
        f"reading it fails with {repr(error)[:200]}",
        "save it with that library",
    )


def _read(description: Json) -> Tokenizer:
    for part in ("truncation", "padding"):
        if description.get(part):
            raise refused(f"no {part}", "it has it", NEEDLESS)
    model = description["model"]
    special = _special(description)
    before, after = template(description.get("post_processor"))
    common: Json = {
        "special": frozenset(special),
        "before": before,
        "after": after,
        "lowercase": lowercase(description.get("normalizer")),
        "pre_tokenizer": pre_tokenizer(description.get("pre_tokenizer")),
        "decoder": decoder(description.get("decoder")),
    }
    match model.get("type"):
        case "BPE":
            return _bpe(model, special, common)
        case "Unigram":
            return _unigram(model, special, common)
        case other:
            raise refused("a BPE or Unigram model", f"it has {other}", MODELS)


def _description(source: object) -> Json:
    backend = getattr(source, "backend_tokenizer", source)
    if hasattr(backend, "to_str"):
        text = backend.to_str()
    elif isinstance(source, str | Path):
        require_file("the file of a tokenizer", source, MAX_FILE_BYTES)
        with readable("the file of a tokenizer", source):
            text = Path(source).read_bytes()
    else:
        raise OptionError(
            "a tokenizer must be one of tokenizers, a fast one of transformers, or the path of its JSON",
            f"it is a {type(source).__name__}",
            "load it with tokenizers.Tokenizer.from_file",
        )
    try:
        description = json.loads(text)
    except (ValueError, RecursionError):
        description = None
    if not isinstance(description, dict) or not isinstance(description.get("model"), dict):
        raise OptionError(
            "a tokenizer.json must describe a model of tokens",
            "it does not",
            "save it with the library tokenizers",
        )
    return description


def _special(description: Json) -> dict[int, str]:
    """Return the special tokens by id."""
    special = {}
    for token in description.get("added_tokens", []):
        if not token["special"]:
            raise refused(
                "no added tokens but special ones",
                f"{token['content']!r} is added",
                "train it with that token",
            )
        special[token["id"]] = token["content"]
    return special


def _vocabulary(ids: dict[str, int], special: dict[int, str]) -> tuple[str, ...]:
    """Return the tokens in the order of their ids."""
    tokens = {id: token for token, id in ids.items()} | special
    if sorted(tokens) != list(range(len(tokens))):
        raise refused("ids from 0 without gaps", "there is a gap", "train it again")
    return tuple(tokens[id] for id in range(len(tokens)))


def _bpe(model: Json, special: dict[int, str], common: Json) -> BPETokenizer:
    for option in (
        "dropout",
        "byte_fallback",
        "ignore_merges",
        "continuing_subword_prefix",
        "end_of_word_suffix",
    ):
        if model.get(option):
            raise refused(f"a BPE model without {option}", f"it is {model[option]!r}", MODELS)
    pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
    unknown = model.get("unk_token")
    return BPETokenizer(
        _vocabulary(model["vocab"], special),
        tuple((left, right) for left, right in pairs),
        fuse_unknown=bool(model.get("fuse_unk")),
        unknown=None if unknown is None else model["vocab"][unknown],
        **common,
    )


def _unigram(model: Json, special: dict[int, str], common: Json) -> UnigramTokenizer:
    if model.get("byte_fallback"):
        raise refused("a Unigram model without byte_fallback", "it is True", MODELS)
    ids = {token: id for id, (token, _) in enumerate(model["vocab"])}
    for id, token in special.items():
        if id >= len(ids):
            raise refused(
                "no special tokens but those of its model", f"{token!r} is added", "train it with that"
            )
    vocabulary = _vocabulary(ids, special)
    scores = [score for _, score in model["vocab"]]
    return UnigramTokenizer(vocabulary, tuple(scores), unknown=model.get("unk_id"), **common)
