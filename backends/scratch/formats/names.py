"""Internal names: lists, variables and blocks that users do not need.

In texts they begin with a tilde. Scratch sorts signs before letters, so in files they begin with a letter
that sorts after all others, and are last in every menu.
"""

from __future__ import annotations

WRITTEN, SHOWN = "~", "\u02bc"
"""The prefix in texts, and that in files and the editor: an apostrophe that is a letter."""


def shown(name: str) -> str:
    """Convert a name from texts to files."""
    return SHOWN + name[1:] if name.startswith(WRITTEN) else name


def written(name: str) -> str:
    """Convert a name from files to texts."""
    return WRITTEN + name[1:] if name.startswith(SHOWN) else name
