"""Items of lists: those in the text, and those passed separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catgrad.errors import OptionError

from ..language.refused import refused
from ..language.tree import List, Literal
from .limits import check_list
from .numbers import items, written


class SeparateLists:
    """Lists passed separately: by name, or as `sprite/name` if several sprites have a list of that name."""

    def __init__(self, lists: Mapping[str, Sequence[object]], sig_figs: int | None) -> None:
        if sig_figs is not None and not (isinstance(sig_figs, int) and sig_figs > 0):
            raise OptionError(
                "sig_figs must be an integer above 0", f"it is {sig_figs!r}", "write for example 6"
            )
        self._lists, self._sig_figs = lists, sig_figs
        self._used: set[str] = set()

    def items(self, sprite: str, list: List) -> list[Literal]:
        """Return the items of a list.

        Raises: TextError if there are other items than the text declares; ArtifactError if there are too many
        """
        name = list.name.name
        if list.given is None:
            found = [written(item) for item in list.items or ()]
        else:
            found = self._taken(sprite, list)
        check_list(name, len(found))
        return found

    def check_all_used(self) -> None:
        """Raise OptionError if a list is passed that no text declares."""
        for name in self._lists:
            if name not in self._used:
                raise OptionError(
                    "separate items must be those of a list in the text",
                    f"{name} is no such list",
                    "leave it out",
                )

    def _taken(self, sprite: str, list: List) -> list[Literal]:
        name = list.name.name
        key = f"{sprite}/{name}" if f"{sprite}/{name}" in self._lists else name
        if key not in self._lists:
            raise refused(
                list.name.line,
                f"the items of {name} must be passed separately",
                "they are not",
                "pass them under this name",
            )
        self._used.add(key)
        found = items(name, self._lists[key], self._sig_figs)
        if len(found) != list.given:
            raise refused(
                list.name.line,
                f"{name} must have {list.given} items",
                f"{len(found)} are passed",
                "change either",
            )
        return found
