"""Names: what users may call things, and the identifiers that stand for them in emitted code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from fnmatch import translate
from functools import cache

from catgrad.errors import OptionError

_DOTTED = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")

LONGEST = 200
"""Characters of a name, which names files too: most systems allow them 255, with what is added to it."""


def require_dotted(name: str) -> None:
    """Raises OptionError unless the name is made of ASCII letters, digits, `_`, joined by dots.

    Names reach emitted source as identifiers, strings and comments; this one rule keeps them
    from being anything else there.
    """
    if not isinstance(name, str) or not _DOTTED.fullmatch(name):
        raise OptionError(
            "a name must be letters, digits and underscores, with dots between parts",
            f"it is {name!r}",
            "write for example encoder.0.weight",
        )
    if len(name) > LONGEST:
        raise OptionError(
            f"a name must have {LONGEST} characters at most",
            f"it has {len(name)}: {name[:20]}…{name[-20:]}",
            "write a shorter one",
        )


class Namer:
    """Identifiers for one scope of emitted code, each different from all others.

    A reserved word with `*` is a pattern of file names (`fnmatch`): of names that macros or helpers may have.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(reserved)
        self._patterns = _matcher(tuple(sorted(word for word in self._taken if "*" in word)))
        self._tried: Counter[str] = Counter()

    def fresh(self, wish: str) -> str:
        """`wish` as an ASCII identifier: other characters become underscores, and a number follows if it
        is taken.

        What a compiler keeps for itself begins with an underscore, so no identifier does.
        """
        base = re.sub(r"\W", "_", wish, flags=re.ASCII)
        if not base[:1].isalpha():
            base = f"layer_{base.lstrip('_')}"
        if self._patterns.fullmatch(base):
            base = f"{base}_"
        name = base
        while name in self._taken:
            self._tried[base] += 1
            name = f"{base}_{self._tried[base]}"
        self._taken.add(name)
        return name


@cache
def _matcher(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)) or "(?!)")


def numbered(name: str, count: int) -> list[str]:
    """The name for one thing, or one with a number behind it for each of several."""
    return [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
