"""Scopes: resolution of the names in a section."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from catgrad.errors import TextError, nearest

from ..formats.names import shown
from ..language.refused import refused
from ..language.tree import Definition, List, Name, Section, Variable
from .ids import Ids, shared_id

KIND = {List: "list", Variable: "variable"}


@dataclass(frozen=True, slots=True)
class Custom:
    """A custom block; an argument has an identifier, a name, and whether it is boolean."""

    name: str
    arguments: tuple[tuple[str, str, bool], ...]
    slow: bool


class Scope:
    """The variables, lists and custom blocks of a section. Raises: TextError if one is declared twice."""

    def __init__(self, section: Section, ids: Ids) -> None:
        self._declared: dict[str, tuple[str, str]] = {}
        self._custom: dict[str, Custom] = {}
        for part in section.parts:
            if isinstance(part, List | Variable):
                kind = KIND[type(part)]
                known = part.shared or section.name is None
                _once(part.name, self._declared)
                self._declared[part.name.name] = (
                    kind,
                    shared_id(kind, part.name.name) if known else ids.fresh(),
                )
            elif isinstance(part, Definition):
                _once(part.name, self._custom)
                self._custom[part.name.name] = _custom(part, ids)

    def field(self, kind: str, name: str) -> tuple[str, str]:
        """Resolve a variable or list to name and identifier. Raises: TextError unless it is declared."""
        found, id = self._declared.get(name, ("", ""))
        if found != kind:
            do = f"declare it: {kind} {name}" if not found else f"use a {kind}"
            raise TextError(
                f"{name} must be a {kind} of its sprite",
                f"it is a {found}" if found else "it is not declared",
                nearest(name, () if found else self._declared) + do,
            )
        return shown(name), id

    def custom(self, name: str) -> Custom:
        """Resolve a custom block. Raises: TextError if there is none."""
        if name not in self._custom:
            raise TextError(
                f"{name} must be a custom block of its sprite",
                "it is not defined",
                nearest(name, self._custom) + f"define {name}",
            )
        return self._custom[name]


def _once(name: Name, known: Iterable[str]) -> None:
    if name.name in known:
        raise refused(
            name.line, "a name must be declared once", f"{name.name} is declared again", "rename it"
        )


def _custom(definition: Definition, ids: Ids) -> Custom:
    name, kinds = definition.name.name, re.findall("%[sb]", definition.name.name)
    if len(kinds) != len(definition.arguments):
        raise refused(
            definition.name.line,
            f"{name} must have an argument for each %s and %b of its name",
            f"it has {len(definition.arguments)} for {len(kinds)}",
            "write for example define `train %s steps`(count)",
        )
    names: list[str] = []
    for argument in definition.arguments:
        _once(argument, names)
        names.append(argument.name)
    pairs = zip(names, kinds, strict=True)
    return Custom(name, tuple((ids.fresh(), n, kind == "%b") for n, kind in pairs), definition.slow)
