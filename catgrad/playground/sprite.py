"""The sprite of a model as texts, into which a page writes trained weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from math import prod
from zipfile import ZipFile

from catgrad.artifact import Artifact
from catgrad.dims import numbers

MAIN = "sprite.json"
"""The file of a sprite that has its lists."""

MAX_ELEMENTS = 20_000
"""The maximum of elements in its tables, which Scratch's editor opens quickly."""


def sprite(artifact: Artifact) -> Mapping[str, object] | None:
    """Describe the sprite of an artifact of the target scratch: its files, and for its lists the arrays.

    None if it has too many elements, or if a parameter is stored in another form than a list of its numbers.
    """
    program = artifact.program
    tables = json.loads(artifact.text(f"{program.name}_manifest.json"))["tables"]
    slots = [slot for table in program.tables.values() for slot in table if slot.type.rank]
    lists = {place["list"]: name for name, place in tables.items() if "list" in place}
    elements = sum(prod(numbers(slot.type.shape)) for slot in slots)
    if elements > MAX_ELEMENTS or any(slot.name not in lists.values() for slot in slots):
        return None
    content = artifact.files[f"{program.name}.sprite3"]
    with ZipFile(BytesIO(content if isinstance(content, bytes) else content.encode())) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    return {"main": MAIN, "files": files, "lists": lists}
