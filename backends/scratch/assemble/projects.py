"""Projects: several targets in one file."""

from __future__ import annotations

from collections.abc import Sequence

from ..language.refused import refused
from ..language.tree import Section
from .lists import SeparateLists
from .targets import Target, target
from .values import Value, by_id

_PEN = "pen"


def project(targets: Sequence[Target]) -> dict[str, object]:
    """Return the JSON of a project. Raises: TextError if two targets have the same name."""
    if all(not made.json["isStage"] for made in targets):
        targets = [target(Section(None), SeparateLists({}, None)), *targets]
    targets = sorted(targets, key=lambda made: not made.json["isStage"])
    _check_names(targets)
    shared = _shared(targets)
    stage, *sprites = (made.json for made in targets)
    layers = [sprite | {"layerOrder": layer} for layer, sprite in enumerate(sprites, start=1)]
    stage |= {
        "variables": by_id(shared, "variable"),
        "lists": by_id(shared, "list"),
        "broadcasts": {id: name for made in targets for id, name in made.messages.items()},
        "layerOrder": 0,
    }
    opcodes = {block["opcode"] for made in targets for block in made.json["blocks"].values()}
    return {
        "targets": [stage, *layers],
        "monitors": [monitor for made in targets for monitor in made.monitors],
        "extensions": [_PEN] if any(opcode.startswith(f"{_PEN}_") for opcode in opcodes) else [],
        "meta": {"semver": "3.0.0", "vm": "5.0.0", "agent": "catgrad"},
    }


def _check_names(targets: Sequence[Target]) -> None:
    names: set[str] = set()
    for made in targets:
        if made.name.name in names:
            raise refused(
                made.name.line,
                "the sprites and the stage of a project must have different names",
                f"{made.name.name} occurs twice",
                "rename one",
            )
        names.add(made.name.name)


def _shared(targets: Sequence[Target]) -> list[Value]:
    """Collect shared variables and lists, with the initial value that one of the sprites states."""
    found: dict[str, Value] = {}
    for value in (value for made in targets for value in made.values if value.shared):
        other = found.setdefault(value.id, value)
        if other.stated and value.stated and other.value != value.value:
            raise refused(
                value.name.line,
                "a shared variable or list must have one initial value",
                f"{value.name.name} has two",
                "state it once",
            )
        if value.stated:
            found[value.id] = value
    _check_own(targets, {(value.kind, value.name.name) for value in found.values()})
    return list(found.values())


def _check_own(targets: Sequence[Target], shared: set[tuple[str, str]]) -> None:
    for value in (value for made in targets for value in made.values if not value.shared):
        if (value.kind, value.name.name) in shared:
            raise refused(
                value.name.line,
                "a variable or list of one sprite must not have the name of a shared one",
                f"{value.name.name} has",
                "rename either",
            )
