"""The stages around the model of a tokenizer of Hugging Face, read from its JSON."""

from __future__ import annotations

from typing import Any

from catgrad.errors import OptionError, UnsupportedOp

from .stages import WHITESPACE, Decoder, PreTokenizer

Json = dict[str, Any]

MODELS = "train a BPE or Unigram model, with Metaspace or WhitespaceSplit before it"
SCHEMES = ("always", "first", "never")
"""The values of prepend_scheme."""

NEEDLESS = "set it to None in the library, if your texts do without"


def refused(must: str, found: str, do: str) -> UnsupportedOp:
    """Return the error for a stage that no sprite can do."""
    return UnsupportedOp(f"a tokenizer must have {must}", found, do)


def lowercase(normalizer: Json | None) -> bool:
    """Return whether the normalizer is Lowercase, the only supported one."""
    if normalizer is None or normalizer["type"] == "Lowercase":
        return normalizer is not None
    raise refused("no normalizer, or Lowercase", f"it has {normalizer['type']}", NEEDLESS)


def pre_tokenizer(description: Json | None) -> PreTokenizer:
    """Read the pre-tokenizer, which splits text into words."""
    match description:
        case None:
            return PreTokenizer()
        case {"type": "WhitespaceSplit"}:
            return PreTokenizer(WHITESPACE)
        case {"type": "CharDelimiterSplit", "delimiter": delimiter}:
            return PreTokenizer(_character("delimiter", delimiter))
        case {"type": "Metaspace"}:
            return _metaspace(description)
        case {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace"} as last],
        } if _scheme(last) != "first":
            return _metaspace(last, WHITESPACE)
    kind = description["type"]
    raise refused(
        "no pre-tokenizer, or Metaspace, WhitespaceSplit, the one after the other, or CharDelimiterSplit",
        f"it has {kind}" + _WHY.get(kind, ""),
        MODELS,
    )


_WHY = dict.fromkeys(
    ("Split", "Whitespace", "BertPreTokenizer", "Punctuation", "Digits", "UnicodeScripts"),
    ", which divides text by classes of characters or regular expressions, and Scratch has none",
) | {"ByteLevel": ", which encodes bytes, and Scratch cannot tell those of a character"}


def _scheme(metaspace: Json) -> str:
    older = "always" if metaspace.get("add_prefix_space", True) else "never"
    scheme = metaspace.get("prepend_scheme", older)
    if scheme not in SCHEMES:
        raise malformed("prepend_scheme", f"one of {', '.join(SCHEMES)}", scheme)
    return str(scheme)


def _character(entry: str, value: object) -> str:
    """Return the value of an entry that is one character."""
    if not isinstance(value, str) or len(value) != 1:
        raise malformed(entry, "one character", value)
    return value


def malformed(entry: str, must: str, found: object) -> OptionError:
    """Return the error for an entry that the library does not write."""
    shown = repr(found)[:100]
    return OptionError(f"{entry} of a tokenizer.json must be {must}", f"it is {shown}", "save it again")


def _metaspace(metaspace: Json, separators: str = "") -> PreTokenizer:
    prepend = _scheme(metaspace) != "never"
    split = metaspace.get("split", True)
    if not isinstance(split, bool):
        raise malformed("split", "true or false", split)
    return PreTokenizer(separators, _character("replacement", metaspace["replacement"]), prepend, split)


def decoder(description: Json | None) -> Decoder:
    """Read the decoder, which joins tokens."""
    match description:
        case None:
            return Decoder(separator=" ")
        case {"type": "Fuse"}:
            return Decoder()
        case {"type": "Metaspace", "replacement": space}:
            return Decoder(space=_character("replacement", space), strip=_scheme(description) != "never")
    raise refused(
        "no decoder, or Fuse or Metaspace", f"it has {description['type']}", "set one of these in the library"
    )


def template(processor: Json | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that the template adds before and after a text."""
    if processor is None:
        return (), ()
    pieces = processor.get("single") or []
    places = [place for place, piece in enumerate(pieces) if "Sequence" in piece]
    if processor["type"] != "TemplateProcessing" or len(places) != 1:
        raise refused("no post-processor, or TemplateProcessing", f"it has {processor['type']}", NEEDLESS)
    tokens, [text] = processor["special_tokens"], places
    return _ids(pieces[:text], tokens), _ids(pieces[text + 1 :], tokens)


def _ids(pieces: list[Json], tokens: Json) -> tuple[int, ...]:
    return tuple(id for piece in pieces for id in tokens[piece["SpecialToken"]["id"]]["ids"])
