"""Internal names: lists, variables and blocks that users do not need.

In texts they begin with a tilde. Scratch sorts signs before letters, so in files lists and variables begin
with a letter that sorts after all others, and are last in every menu. Blocks, whose names people read in the
palette, begin with a word.
"""

from __future__ import annotations

WRITTEN, SHOWN = "~", "\u02bc"
"""The prefix in texts, and that in files and the editor: an apostrophe that is a letter."""

SHOWN_BLOCK = "work: "
"""The prefix of blocks in files and the editor, which sorts after `predict` and `train step`."""


def shown(name: str) -> str:
    """Convert the name of a list or variable from texts to files."""
    return SHOWN + name[1:] if name.startswith(WRITTEN) else name


def shown_block(name: str) -> str:
    """Convert the name of a block from texts to files."""
    return SHOWN_BLOCK + name[1:] if name.startswith(WRITTEN) else name


def written(name: str) -> str:
    """Convert the name of a list or variable from files to texts."""
    return WRITTEN + name[1:] if name.startswith(SHOWN) else name
