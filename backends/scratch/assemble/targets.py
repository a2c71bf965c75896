"""Targets, which are sprites and the stage, from sections of a text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..language.tree import Definition, List, Monitor, Name, Script, Section, Variable
from .blocks import Blocks
from .costume import costume_entries
from .ids import Ids
from .layout import places
from .lists import SeparateLists
from .monitors import monitor
from .scope import Scope
from .values import Value, by_id, initial_value, title

Json = dict[str, Any]

_SPRITE = {"size": 100, "direction": 90, "draggable": False, "rotationStyle": "all around"}
_STAGE = {"tempo": 60, "videoTransparency": 50, "videoState": "on", "textToSpeechLanguage": None}


@dataclass(frozen=True, slots=True)
class Target:
    """An assembled section: the JSON of a sprite, and parts that only a project has."""

    name: Name
    json: Json
    values: tuple[Value, ...]
    messages: dict[str, str]
    monitors: tuple[Json, ...]


def target(section: Section, separate: SeparateLists) -> Target:
    """Assemble a section.

    Raises: TextError for an undeclared name; ArtifactError for a list that is too long
    """
    name = title(section)
    ids = Ids(name)
    scope = Scope(section, ids)
    values = [
        initial_value(section, part, scope, separate)
        for part in section.parts
        if isinstance(part, List | Variable)
    ]
    own = sorted((v for v in values if not v.shared), key=lambda value: value.name.name.startswith("~"))
    blocks = Blocks(scope, ids, section.name is None)
    comments = _scripts(section, blocks, ids)
    json = {
        "isStage": section.name is None,
        "name": name,
        "variables": by_id(own, "variable"),
        "lists": by_id(own, "list"),
        "broadcasts": {},
        "blocks": blocks.blocks,
        "comments": comments,
        "currentCostume": 0,
        "costumes": costume_entries(section.costumes, section.picture.name),
        "sounds": [],
        "volume": 100,
        **(_STAGE if section.name is None else _sprite(section)),
    }
    monitors = [monitor(name, part, values) for part in section.parts if isinstance(part, Monitor)]
    return Target(section.name or Name(name), json, tuple(values), blocks.messages, tuple(monitors))


def _sprite(section: Section) -> Json:
    x, y = section.picture.place
    return {"visible": not section.hidden, "x": x, "y": y, **_SPRITE}


def _scripts(section: Section, blocks: Blocks, ids: Ids) -> Json:
    """Assemble and place the scripts; return their comments."""
    scripts = [part for part in section.parts if isinstance(part, Script | Definition)]
    comments: Json = {}
    for script, placed in zip(scripts, places(scripts), strict=True):
        top, commented = blocks.script(script)
        blocks.blocks[top] |= {"x": placed.x, "y": placed.y}
        for block, comment in zip(commented, placed.comments, strict=True):
            id = ids.fresh()
            blocks.blocks[block]["comment"] = id
            comments[id] = {"blockId": block, **asdict(comment), "minimized": False}
    return comments
