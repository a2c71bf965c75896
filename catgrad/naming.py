"""Names: what users may call things, and the identifiers that stand for them in emitted code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from catgrad.errors import OptionError

_DOTTED = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")


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


class Namer:
    """Identifiers for one scope of emitted code, each different from all others."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(reserved)
        self._tried: Counter[str] = Counter()

    def fresh(self, wish: str) -> str:
        """`wish` as an identifier: dots become underscores, and a number follows if it is taken."""
        base = wish.replace(".", "_")
        if base[0].isdigit():
            base = f"layer_{base}"
        name = base
        while name in self._taken:
            self._tried[base] += 1
            name = f"{base}_{self._tried[base]}"
        self._taken.add(name)
        return name


def numbered(name: str, count: int) -> list[str]:
    """The name for one thing, or one with a number behind it for each of several."""
    return [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
