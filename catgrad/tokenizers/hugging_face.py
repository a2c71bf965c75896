"""Tokenizers of the libraries tokenizers and transformers, read from their JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from catgrad.errors import ArtifactError, OptionError, UnsupportedOp

from .bpe import BPETokenizer
from .stages import WHITESPACE, Decoder, PreTokenizer
from .tokenizer import Tokenizer
from .unigram import UnigramTokenizer

Json = dict[str, Any]

_MODELS = "train a BPE or Unigram model, with Metaspace or WhitespaceSplit before it"
_NEEDLESS = "set it to None in the library, if your texts do without"


def from_hugging_face(source: Any) -> Tokenizer:
    """The same tokenizer as data, which encodes texts as the library does with `encode_special_tokens`.

    `source` is a `tokenizers.Tokenizer`, a fast tokenizer of `transformers`, or the path of a tokenizer.json.

    Raises: UnsupportedOp for what no sprite can do, such as regular expressions and bytes; OptionError for
    what is no tokenizer; ArtifactError if the file cannot be read
    """
    description = _description(source)
    for part in ("truncation", "padding"):
        if description.get(part):
            raise _refused(f"no {part}", "it has it", _NEEDLESS)
    model = description["model"]
    special = _special(description)
    pre_tokenizer = _pre_tokenizer(description.get("pre_tokenizer"))
    before, after = _template(description.get("post_processor"))
    common: Json = {
        "special": frozenset(special),
        "before": before,
        "after": after,
        "lowercase": _lowercase(description.get("normalizer")),
        "pre_tokenizer": pre_tokenizer,
        "decoder": _decoder(description.get("decoder")),
    }
    match model.get("type"):
        case "BPE":
            return _bpe(model, special, common)
        case "Unigram":
            return _unigram(model, special, common)
        case other:
            raise _refused("a BPE or Unigram model", f"it has {other}", _MODELS)


def _description(source: Any) -> Json:
    backend = getattr(source, "backend_tokenizer", source)
    if hasattr(backend, "to_str"):
        text = backend.to_str()
    elif isinstance(source, str | Path):
        try:
            text = Path(source).read_text(encoding="utf-8")
        except OSError as error:
            raise ArtifactError(
                "the file of a tokenizer must be readable",
                f"{source} is not: {error.strerror}",
                "name another",
            ) from None
    else:
        raise OptionError(
            "a tokenizer must be one of tokenizers, a fast one of transformers, or the path of a tokenizer.json",
            f"it is a {type(source).__name__}",
            "load it with tokenizers.Tokenizer.from_file",
        )
    try:
        description = json.loads(text)
    except ValueError:
        description = None
    if not isinstance(description, dict) or not isinstance(description.get("model"), dict):
        raise OptionError(
            "a tokenizer.json must describe a model of tokens",
            "it does not",
            "save it with the library tokenizers",
        )
    return description


def _refused(must: str, found: str, do: str) -> UnsupportedOp:
    return UnsupportedOp(f"a tokenizer must have {must}", found, do)


def _special(description: Json) -> dict[int, str]:
    """The special tokens by id."""
    special = {}
    for token in description.get("added_tokens", []):
        if not token["special"]:
            raise _refused(
                "no added tokens but special ones",
                f"{token['content']!r} is added",
                "train it with that token",
            )
        special[token["id"]] = token["content"]
    return special


def _lowercase(normalizer: Json | None) -> bool:
    if normalizer is None or normalizer["type"] == "Lowercase":
        return normalizer is not None
    raise _refused("no normalizer, or Lowercase", f"it has {normalizer['type']}", _NEEDLESS)


def _pre_tokenizer(pre_tokenizer: Json | None) -> PreTokenizer:
    match pre_tokenizer:
        case None:
            return PreTokenizer()
        case {"type": "WhitespaceSplit"}:
            return PreTokenizer(WHITESPACE)
        case {"type": "CharDelimiterSplit", "delimiter": delimiter}:
            return PreTokenizer(delimiter)
        case {"type": "Metaspace"}:
            return _metaspace(pre_tokenizer)
        case {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace"} as last],
        } if _scheme(last) != "first":
            return _metaspace(last, WHITESPACE)
    kind = pre_tokenizer["type"]
    raise _refused(
        "no pre-tokenizer, or Metaspace, WhitespaceSplit, CharDelimiterSplit or Metaspace after WhitespaceSplit",
        f"it has {kind}" + _WHY.get(kind, ""),
        _MODELS,
    )


_WHY = dict.fromkeys(
    ("Split", "Whitespace", "BertPreTokenizer", "Punctuation", "Digits", "UnicodeScripts"),
    ", which divides text by classes of characters or regular expressions, and Scratch has none",
) | {"ByteLevel": ", which encodes bytes, and Scratch cannot tell those of a character"}


def _scheme(metaspace: Json) -> str:
    older = "always" if metaspace.get("add_prefix_space", True) else "never"
    return str(metaspace.get("prepend_scheme", older))


def _metaspace(metaspace: Json, separators: str = "") -> PreTokenizer:
    prepend = _scheme(metaspace) != "never"
    return PreTokenizer(separators, metaspace["replacement"], prepend, metaspace.get("split", True))


def _decoder(decoder: Json | None) -> Decoder:
    match decoder:
        case None:
            return Decoder(separator=" ")
        case {"type": "Fuse"}:
            return Decoder()
        case {"type": "Metaspace", "replacement": space}:
            return Decoder(space=space, strip=_scheme(decoder) != "never")
    raise _refused(
        "no decoder, or Fuse or Metaspace", f"it has {decoder['type']}", "set one of these in the library"
    )


def _template(processor: Json | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids before and after those of a text."""
    if processor is None:
        return (), ()
    pieces = processor.get("single") or []
    places = [place for place, piece in enumerate(pieces) if "Sequence" in piece]
    if processor["type"] != "TemplateProcessing" or len(places) != 1:
        raise _refused("no post-processor, or TemplateProcessing", f"it has {processor['type']}", _NEEDLESS)
    tokens = processor["special_tokens"]
    written = [
        tokens[piece["SpecialToken"]["id"]]["ids"] if "SpecialToken" in piece else [] for piece in pieces
    ]
    [text] = places
    before, after = written[:text], written[text:]
    return tuple(sum(before, [])), tuple(sum(after, []))


def _vocabulary(ids: dict[str, int], special: dict[int, str]) -> tuple[str, ...]:
    """The tokens in the order of their ids."""
    tokens = {id: token for token, id in ids.items()} | special
    if sorted(tokens) != list(range(len(tokens))):
        raise _refused("ids from 0 without gaps", "there is a gap", "train it again")
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
            raise _refused(f"a BPE model without {option}", f"it is {model[option]!r}", _MODELS)
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
        raise _refused("a Unigram model without byte_fallback", "it is True", _MODELS)
    ids = {token: id for id, (token, _) in enumerate(model["vocab"])}
    vocabulary = _vocabulary(ids, special)
    scores = [score for _, score in model["vocab"]]
    return UnigramTokenizer(vocabulary, tuple(scores), unknown=model.get("unk_id"), **common)
