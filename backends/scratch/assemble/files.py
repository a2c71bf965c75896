"""Files of sprites and projects; equal texts give equal bytes."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Collection, Mapping, Sequence

from catgrad.errors import ArtifactError, TextError

from ..language.parse import parse
from ..language.tree import List, Section
from .costume import NO_PICTURE, file_name, picture
from .limits import check_blocks, check_size
from .lists import SeparateLists
from .projects import project
from .targets import Target, target

_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def sprite3(text: str, given: Mapping[str, Sequence[object]], sig_figs: int | None = None) -> bytes:
    """Assemble a sprite file. Shared names are not declared in it, so that they are those of the project.

    Raises: TextError unless the text is one sprite; ArtifactError if that is too large for Scratch
    """
    section = _only_sprite(text)
    [made] = _targets([section], SeparateLists(given, sig_figs))
    return _zipped("sprite.json", made.json, {section.picture.name})


def sb3(texts: Sequence[str], given: Mapping[str, Sequence[object]], sig_figs: int | None = None) -> bytes:
    """Assemble a project file from all sections of these texts; shared names belong to the stage.

    Raises: TextError if they do not fit together; ArtifactError if they are too large for Scratch
    """
    sections = tuple(section for text in texts for section in parse(text))
    content = project(_targets(sections, SeparateLists(given, sig_figs)))
    return _zipped("project.json", content, {NO_PICTURE, *(section.picture.name for section in sections)})


def count_blocks(text: str) -> int:
    """Count the blocks in the sections of a text."""
    sections = parse(text)
    return sum(len(target(section, _zeros(section)).json["blocks"]) for section in sections)


def json_size(file: bytes) -> int:
    """Return the size of the JSON in a file, which Scratch's site limits."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return archive.infolist()[0].file_size


def _zeros(section: Section) -> SeparateLists:
    lists = [part for part in section.parts if isinstance(part, List) and part.given is not None]
    return SeparateLists({list.name.name: [0] * (list.given or 0) for list in lists}, None)


def _only_sprite(text: str) -> Section:
    sections = parse(text)
    if len(sections) != 1 or sections[0].name is None:
        kinds = ["a sprite" if section.name else "the stage" for section in sections]
        raise TextError(
            "the text for a sprite's file must be one sprite",
            f"it is {' and '.join(kinds)}",
            "write a project",
        )
    return sections[0]


def _targets(sections: Sequence[Section], lists: SeparateLists) -> list[Target]:
    made = [target(section, lists) for section in sections]
    lists.check_all_used()
    for each in made:
        check_blocks(each.name.name, len(each.json["blocks"]))
    return made


def _dumped(content: object) -> bytes:
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise ArtifactError(
            "the texts of a sprite must be Unicode",
            f"one has half of a surrogate pair, {error.object[error.start]!a}",
            "leave it out",
        ) from None
    check_size(len(text))
    return text


def _zipped(name: str, content: object, pictures: Collection[str]) -> bytes:
    """Zip the JSON and the pictures reproducibly, without time and system."""
    buffer = io.BytesIO()
    files = [(name, _dumped(content)), *((file_name(each), picture(each)) for each in sorted(pictures))]
    with zipfile.ZipFile(buffer, "w") as archive:
        for file, data in files:
            entry = zipfile.ZipInfo(file, _LONG_AGO)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            archive.writestr(entry, data, compresslevel=9)
    return buffer.getvalue()
