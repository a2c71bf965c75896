"""Refusals in the translation of graphs, which one error lists."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.errors import CatgradError, FixedSize, UnsupportedOp

REFUSED = object()
"""The value of an operation that cannot be translated, and of those that read it."""


def raise_refusals(refusals: Sequence[CatgradError], unknown: str, must: str, whole: str, do: str) -> None:
    """Raise the only refusal, or one that lists all; those of `unknown` operations without a reason."""
    if len(refusals) == 1:
        raise refusals[0] from None
    if refusals:
        reasons = ["" if e.must == unknown else f" ({e.must}, but {e.found})" for e in refusals]
        places = [f"{e.subject} in {e.where or whole}" for e in refusals]
        listed = dict.fromkeys(map(str.__add__, places, reasons))
        found = f"it lacks {len(listed)}: {'; '.join(listed)}"
        if any(isinstance(e, FixedSize) for e in refusals):
            raise FixedSize(must, found)
        raise UnsupportedOp(must, found, do)
