"""Configurations of Hugging Face as data: what names code, or files elsewhere, is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from catgrad.errors import ArtifactError
from catgrad.paths import require_file

MAX_FILE_BYTES = 2**24
"""The maximum size of a config.json: a hundred times that of the largest ones."""

IMPLEMENTATION = re.compile(r"_*\w*(attn|attention|experts)_impl(ementation)?(_internal|_autoset)?")
"""Entries that choose an implementation, which may be code on the Hub."""

ALLOWED = (None, "", "eager", "sdpa")
"""Implementations that are part of transformers and of PyTorch."""

REFUSED = {
    "attribute_map", "auto_map", "compression_config", "custom_generate", "custom_pipelines", "hub_kernels",
    "kernel_config", "kernels", "quantization_config", "trust_remote_code", "use_hub_kernels", "use_kernels",
    "use_pretrained_backbone",
}  # fmt: skip
"""Entries that name code or files elsewhere, change the names of entries, or change what weights mean."""

COUNT = re.compile(r"num_(\w+_)?(labels|layers|heads|experts|blocks|stages)|n_(layer|head)s?|(\w+_)?layers")
MAX_COUNT = 2**20
"""Entries that count parts of a model, and their maximum."""

HUB = "kernels-community/"
"""The repositories of kernels that transformers trusts."""


def read(folder: Path) -> dict[str, Any]:
    """Read the config.json of a folder. Raises: ArtifactError unless it is one, and names no code"""
    path = folder / "config.json"
    if not path.is_file():
        raise ArtifactError(
            "a folder of Hugging Face must have a config.json", f"there is no file {path}", "check the path"
        )
    require_file("the config.json of a folder of Hugging Face", path, MAX_FILE_BYTES)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    names = found.get("architectures") if isinstance(found, dict) else None
    if not (isinstance(names, list) and names and isinstance(names[0], str)):
        raise ArtifactError(
            "config.json must be JSON that names the class of the model in `architectures`",
            f"{path} is not",
            "save the model by save_pretrained",
        )
    require_data(found)
    _require_counts(found)
    return dict(found)


def require_data(config: Mapping[str, Any]) -> None:
    """Raise ArtifactError if an entry at any depth names code, or files outside the folder."""
    for key, value in _entries(config):
        name = key.lower()
        chosen = _implementations(value) if IMPLEMENTATION.fullmatch(name) else []
        refused = [each for each in chosen if each not in ALLOWED and not isinstance(each, bool)]
        if (name in REFUSED and value) or refused or (isinstance(value, str) and value.startswith(HUB)):
            raise refusal(key, value)


def require_own_attention(config: Any) -> None:
    """Raise ArtifactError unless a configuration object, and those inside, choose allowed implementations."""
    left, seen = [config], set[int]()
    while left:
        each = left.pop()
        if id(each) not in seen and hasattr(each, "_attn_implementation"):
            require_data({"attn_implementation": each._attn_implementation})
            left.extend(vars(each).values())
        seen.add(id(each))


def refusal(key: str, value: object) -> ArtifactError:
    """Return the error for an entry that names code."""
    return ArtifactError(
        "config.json must not name code or files elsewhere, and attention must be 'eager' or 'sdpa'",
        f"its entry {key!r} is {repr(value)[:100]}",
        "delete the entry, if the model of transformers is the same without it",
    )


def _require_counts(config: Mapping[str, Any]) -> None:
    """Raise ArtifactError for a number of parts that no model has, but that memory is asked for."""
    for key, value in _entries(config):
        if COUNT.fullmatch(key) and isinstance(value, int) and value > MAX_COUNT:
            raise ArtifactError(
                f"numbers of parts in config.json must be at most {MAX_COUNT:,}",
                f"{key} is {repr(value)[:30]}",
                "use the config.json that belongs to the weights",
            )


def _entries(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield all entries of tables, at any depth."""
    left = [config]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield from value.items()
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)


def _implementations(value: object) -> list[object]:
    """Return the names of implementations: one, or a table of those of parts."""
    return (
        [each for one in value.values() for each in _implementations(one)]
        if isinstance(value, dict)
        else [value]
    )
