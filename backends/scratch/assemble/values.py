"""Variables and lists with initial values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..formats.names import shown
from ..language.tree import List, Literal, Name, Section, Variable
from .lists import SeparateLists
from .numbers import written
from .scope import KIND, Scope


def title(section: Section) -> str:
    """Return the name of a section's target."""
    return section.name.name if section.name else "Stage"


@dataclass(frozen=True, slots=True)
class Value:
    """A variable or list with its identifier and initial value; `stated` if the text gives that."""

    name: Name
    kind: str
    id: str
    value: Literal | list[Literal]
    stated: bool
    shared: bool


def by_id(values: Iterable[Value], kind: str) -> dict[str, object]:
    """Return the JSON of variables or lists."""
    return {value.id: [shown(value.name.name), value.value] for value in values if value.kind == kind}


def initial_value(section: Section, part: List | Variable, scope: Scope, separate: SeparateLists) -> Value:
    """Return the initial value of a variable or list of a section."""
    kind, name = KIND[type(part)], part.name
    _, id = scope.field(kind, name.name)
    shared = part.shared or section.name is None
    if isinstance(part, List):
        stated = part.items is not None or part.given is not None
        return Value(name, kind, id, separate.items(title(section), part), stated, shared)
    initial = 0 if part.initial is None else written(part.initial)
    return Value(name, kind, id, initial, part.initial is not None, shared)
