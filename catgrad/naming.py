"""Names: validation of user names, and unique identifiers for emitted code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import cache

from catgrad.errors import OptionError

_NUMBER = re.compile(r"_?[0-9]+")
"""The number of a layer in a word."""

_DOTTED = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")

_OF_ARRAY = re.compile(r"\w+([./-]\w+)*")
"""Names that modules of PyTorch give, such as `stages.3x3/conv-1.weight`: they end no string or comment."""

MAX_LISTED_CHARACTERS = 48
"""The maximum length of names that are listed as one; of others after the first, there is the number only."""

MAX_NAME_CHARACTERS = 200
"""The maximum length of a name, which also names files: most systems allow 255 characters."""


def require_dotted(name: str) -> None:
    """Raise OptionError unless the name is made of ASCII letters, digits, `_`, joined by dots.

    Names are identifiers, strings and comments in emitted source; this rule prevents injection.
    """
    _require(name, _DOTTED, "letters, digits and underscores")


def require_name_of_array(name: str) -> None:
    """Raise OptionError unless the name is made of letters, digits, `_`, with single `-`, `/`, dots.

    Arrays keep the names of their modules in strings and comments. Identifiers are made of them, no files.
    """
    _require(name, _OF_ARRAY, "letters, digits and underscores, with single - or /")


def _require(name: str, pattern: re.Pattern[str], allowed: str) -> None:
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise OptionError(
            f"a name must be {allowed}, with dots between parts",
            f"it is {name!r}",
            "write for example encoder.0.weight",
        )
    if len(name) > MAX_NAME_CHARACTERS:
        raise OptionError(
            f"a name must have {MAX_NAME_CHARACTERS} characters at most",
            f"it has {len(name)}: {name[:20]}…{name[-20:]}",
            "write a shorter one",
        )


class Namer:
    """Unique identifiers for one scope of emitted code.

    A reserved word with `*` or `[` is a wildcard pattern (`fnmatch`), for names of macros and helpers.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(reserved)
        self._patterns = _matcher(tuple(sorted(word for word in self._taken if {"*", "["} & set(word))))
        self._tried: Counter[str] = Counter()

    def scope(self) -> Namer:
        """Return a namer for an inner scope; outside, its names are free again."""
        return Namer(self._taken)

    def fresh(self, *preferred: str) -> str:
        """Return the first of these as a unique ASCII identifier, or else the next that is free.

        Other characters become underscores, and a number is appended to the first if all are taken.
        """
        bases = [*map(self._identifier, preferred)]
        name = next((base for base in bases if base not in self._taken), bases[0])
        while name in self._taken:
            self._tried[bases[0]] += 1
            name = f"{bases[0]}_{self._tried[bases[0]]}"
        self._taken.add(name)
        return name

    def _identifier(self, preferred: str) -> str:
        """Return an identifier; compilers reserve those that begin with an underscore."""
        base = re.sub(r"\W", "_", preferred, flags=re.ASCII)
        if not base[:1].isalpha():
            base = f"layer_{base.lstrip('_')}"
        if self._patterns.fullmatch(base):
            base = f"{base}_"
        return base


@cache
def _matcher(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)) or "(?!)")


def common(names: Iterable[str]) -> str:
    """Return the words at the beginning and the end that names have in common, but for different digits."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) <= 1:
        return "".join(distinct)
    first, *others = [re.split(r"[._]", name) for name in distinct]
    before, after = (_agreement([words[::step] for words in (first, *others)]) for step in (1, -1))
    count = min(len(after), min(map(len, (first, *others))) - len(before))
    return "_".join(filter(None, [*before, *after[:count][::-1]]))


def shared_name(names: Sequence[str]) -> str:
    """Return the names of arrays of equal layers without the numbers of the layers: `block.weight`."""
    parts = layer_parts(names)
    if parts is None:
        return common(names) or "layer"
    before, after = parts
    return ".".join([*(before or ["layer"]), *after])


def layer_parts(names: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Split names into the words up to the number of the layer, and those after it, both without numbers.

    None if names differ otherwise than in numbers, or in one word that is not the last.
    """
    numbered, every = numbers_of_layers(names), [name.split(".") for name in names]
    if numbered is None:
        return None
    stems = {k: {_NUMBER.sub("", words[k]) for words in every} for k in numbered}
    alike = {k: min(found) if len(found) == 1 else "" for k, found in stems.items()}
    words = [alike.get(k, word) for k, word in enumerate(every[0])]
    place = max(numbered, default=len(words) - 2) + 1
    return [*filter(None, words[:place])], [*filter(None, words[place:])]


def numbers_of_layers(names: Sequence[str]) -> dict[int, str] | None:
    """Return the words in which the first name differs from others, by place; None as `layer_parts`."""
    every = [name.split(".") for name in names]
    places = [k for k, same in enumerate(zip(*every, strict=False)) if len({*same}) > 1]
    alike = all(len({_NUMBER.sub("", words[k]) for words in every}) == 1 for k in places)
    is_word = len(places) == 1 and places[0] < len(every[0]) - 1
    if len({*map(len, every)}) > 1 or not (alike or is_word):
        return None
    return {k: every[0][k] for k in places}


def summary(names: Iterable[str]) -> str:
    """Return one name for arrays that are computed together: lists what neighbours of them share."""
    groups: list[str] = []
    for name in dict.fromkeys(filter(None, names)):
        shared = common([groups[-1], name]) if groups else ""
        if shared in ("", "d"):  # all cotangents share that
            groups.append(name)
        else:
            groups[-1] = shared
    listed = "".join(groups[:1])
    for count, name in enumerate(groups[1:], 1):
        if len(longer := f"{listed}_and_{name}") > MAX_LISTED_CHARACTERS:
            return f"{listed}_and_{len(groups) - count}_more"
        listed = longer
    return listed


def _agreement(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the words at the beginning of lists in which all agree, without digits in which they do not."""
    words = []
    for same in zip(*lists, strict=False):
        stems = {word.strip("0123456789") for word in same}
        if len(stems) > 1:
            break
        words.append(same[0] if len({*same}) == 1 else stems.pop())
    return words


def numbered(name: str, count: int) -> list[str]:
    """Return the name for one item, or numbered names for several."""
    return [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
