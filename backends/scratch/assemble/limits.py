"""Limits of Scratch, checked before a file is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from warnings import warn

from catgrad.errors import ArtifactError, CatgradWarning

MAX_LIST_ITEMS = 200_000
MAX_BLOCKS, MANY_BLOCKS = 20_000, 2_000
MAX_BYTES, MANY_BYTES = 5_000_000, 4_000_000

_SMALLER = (
    'round the weights with sig_figs=4 (9 bytes each instead of 12), store them with storage="packed" (6, '
    'or 3 with sig_figs=4) or storage="int8" (2), or make the model smaller'
)


def check_list(name: str, count: int) -> None:
    """Raise ArtifactError if a list has too many items."""
    if count > MAX_LIST_ITEMS:
        raise ArtifactError(
            f"a list must have at most {MAX_LIST_ITEMS:,} items",
            f"{name} has {count:,}",
            "make this layer smaller, or split the list; no option of storage helps",
        )


def check_blocks(sprite: str, count: int) -> None:
    """Warn if the editor is slow with so many blocks. Raises: ArtifactError if it cannot show them."""
    if count > MAX_BLOCKS:
        raise ArtifactError(
            f"a sprite must have at most {MAX_BLOCKS:,} blocks",
            f"{sprite} has {count:,}",
            "make the model smaller, or unroll its loops less",
        )
    if count > MANY_BLOCKS:
        seconds = round(count * 0.0015)
        warn(
            f"{sprite} has {count:,} blocks, more than {MANY_BLOCKS:,}, and the editor takes about {seconds} "
            "seconds to show them; make the model smaller, or unroll its loops less",
            CatgradWarning,
            stacklevel=4,
        )


def check_size(count: int) -> None:
    """Warn if a file is near the limit of uploads. Raises: ArtifactError if it exceeds it."""
    if count > MAX_BYTES:
        raise ArtifactError(
            f"the JSON of a project must have at most {MAX_BYTES:,} bytes, the limit of Scratch's site",
            f"it has {count:,}",
            _SMALLER,
        )
    if count > MANY_BYTES:
        warn(
            f"the JSON of the project has {count:,} bytes; Scratch's site allows {MAX_BYTES:,}; {_SMALLER}",
            CatgradWarning,
            stacklevel=4,
        )


def check_saved(lists: Mapping[str, Sequence[object]]) -> None:
    """Warn if packed lists are too large for Scratch's site when they are unpacked."""
    count = sum(len(json.dumps(numbers)) - len(numbers) for numbers in lists.values())
    if count > MAX_BYTES:
        warn(
            f"once the sprite has run, its lists have {count:,} bytes; Scratch's site allows {MAX_BYTES:,}; "
            "keep the project in a file, or round the weights with sig_figs",
            CatgradWarning,
            stacklevel=4,
        )
