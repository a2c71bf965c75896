"""Names of scratch paper: lists, variables and blocks that only a program needs.

Texts write them with a tilde. Scratch sorts names as people do, and signs before letters; so in files they
begin with a letter that comes after all of ours, and stand last in every menu.
"""

from __future__ import annotations

WRITTEN, SHOWN = "~", "\u02bc"
"""What they begin with in texts, and in files and the editor: an apostrophe that is a letter."""


def shown(name: str) -> str:
    """A name as files have it."""
    return SHOWN + name[1:] if name.startswith(WRITTEN) else name


def written(name: str) -> str:
    """A name of a file as texts have it."""
    return WRITTEN + name[1:] if name.startswith(SHOWN) else name
