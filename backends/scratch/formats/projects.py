"""Saved projects (.sb3) and sprites (.sprite3) of Scratch: the items of their lists.

A file is a ZIP archive with a description in JSON; that of a project has several targets, the stage and the
sprites. The content of a file is validated before use.

Source: the Scratch Wiki, "Scratch File Format".
"""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.errors import ArtifactError, translated
from catgrad.terms.state import Slot
from catgrad.types import Array

from . import packed, rounded
from .names import written

MAX_JSON_BYTES = 30_000_000
"""The maximum size of the JSON in bytes; Scratch's site accepts 5 million."""

_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")


def read(file: str | Path | bytes) -> dict[str, list[Any]]:
    """Read the items of all lists by name, or by `target/name` if several targets use the name.

    Lists that a sprite has not unpacked yet are unpacked.

    Raises: ArtifactError if the file cannot be read, or is not a project or sprite
    """
    found = [(target, name, items) for target, lists in _targets(file) for name, items in lists]
    uses = Counter(name for _, name, _ in found)
    return {name if uses[name] == 1 else f"{target}/{name}": items for target, name, items in found}


def read_arrays(file: str | Path | bytes, slots: Iterable[Slot]) -> dict[str, Array]:
    """Read the lists of these slots as arrays of their types; texts are parsed as numbers.

    Raises: ArtifactError if the file cannot be read, or a list is missing or does not fit
    """
    lists = read(file)
    return {slot.name: _array(slot, lists) for slot in slots}


def _array(slot: Slot, lists: dict[str, list[object]]) -> Array:
    if slot.name not in lists:
        several = [name for name in lists if name.endswith(f"/{slot.name}")]
        raise ArtifactError(
            f"the file must have one list {slot.name}",
            f"it has {', '.join(several)}" if several else "it has none",
            "save the project with exactly one sprite of the model",
        )
    items = lists[slot.name]
    if len(items) != slot.type.size:
        raise ArtifactError(
            f"the list {slot.name} must have {slot.type.size} items, as {slot.type} has",
            f"it has {len(items)}",
            "use a project of this model",
        )
    numbers = np.array([_number(slot.name, place, item) for place, item in enumerate(items, start=1)], float)
    return _converted(slot, numbers).reshape(slot.type.shape)


def _converted(slot: Slot, numbers: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        array = numbers.astype(slot.type.dtype.numpy)
    back = array.astype(np.float64)
    fits = np.isfinite(back) if slot.type.dtype.is_floating else back == numbers
    if not fits.all():
        place = int(np.argmin(fits))
        raise ArtifactError(
            f"the items of {slot.name} must be numbers of {slot.type.dtype.value}",
            f"item {place + 1} is {numbers[place]}",
            "use a project of this model",
        )
    return array


def _number(name: str, place: int, item: Any) -> float:
    if isinstance(item, str) and _NUMBER.fullmatch(item):
        item = float(item)
    if type(item) not in (int, float) or not abs(item) <= sys.float_info.max:
        raise ArtifactError(
            f"the items of {name} must be finite numbers",
            f"item {place} is {item!r}",
            "correct it in the project",
        )
    return float(item)


def _targets(file: str | Path | bytes) -> list[tuple[str, list[tuple[str, list[Any]]]]]:
    """Return the names of targets, with the names and items of their lists."""
    name = "the file" if isinstance(file, bytes) else str(file)
    description = _description(file, name)
    targets = description.get("targets", [description]) if isinstance(description, dict) else None
    if not isinstance(targets, list) or not all(isinstance(target, dict) for target in targets):
        raise _malformed(name, "its targets are none")
    return [_target(name, target) for target in targets]


def _target(file: str, target: dict[str, object]) -> tuple[str, list[tuple[str, list[Any]]]]:
    name, lists = target.get("name"), target.get("lists", {})
    if not isinstance(name, str) or not isinstance(lists, dict):
        raise _malformed(file, "a target has no name or no lists")
    for entry in lists.values():
        if not (
            isinstance(entry, list) and len(entry) >= 2 and type(entry[0]) is str and type(entry[1]) is list
        ):
            raise _malformed(file, f"a list of {name!r} has no name and items")
        if not all(isinstance(item, str | int | float) for item in entry[1]):
            raise _malformed(
                file, f"the list {entry[0]!r} of {name!r} has items that are no numbers or texts"
            )
    return name, list(_unpacked(file, {written(entry[0]): entry[1] for entry in lists.values()}).items())


def _unpacked(file: str, lists: dict[str, list[object]]) -> dict[str, list[Any]]:
    """Unpack lists that are stored as texts, if the sprite has not run yet."""
    texts = lists.pop(packed.NAME, [])
    with translated(lambda error: _malformed(file, str(error))):
        return lists | rounded.unpacked(texts)


def _description(file: str | Path | bytes, name: str) -> Any:
    opened = io.BytesIO(file) if isinstance(file, bytes) else file
    with translated(lambda error: _unreadable(name, error)), zipfile.ZipFile(opened) as archive:
        return json.loads(_content(archive), parse_constant=_no_constant)


def _content(archive: zipfile.ZipFile) -> bytes:
    """Read the description, with a limit on the unpacked size, whatever the archive declares."""
    names = [name for name in ("project.json", "sprite.json") if name in archive.namelist()]
    if not names:
        raise ValueError("it has no project.json or sprite.json")
    with archive.open(names[0]) as opened:
        content = opened.read(MAX_JSON_BYTES + 1)
    if len(content) > MAX_JSON_BYTES:
        raise ValueError(f"its JSON has more than {MAX_JSON_BYTES:,} bytes")
    return content


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _unreadable(name: str, error: Exception) -> ArtifactError:
    is_deep = isinstance(error, RecursionError)
    return _malformed(name, "its JSON is nested too deep" if is_deep else f"it is not: {error}")


def _malformed(name: str, found: str) -> ArtifactError:
    return ArtifactError(f"{name} must be a project or sprite of Scratch", found, "save it again in Scratch")
