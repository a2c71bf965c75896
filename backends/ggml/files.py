"""Arrays of a program in GGUF files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from catgrad.formats.gguf import FULL_NAME, file_name
from catgrad.programs.ports import Role
from catgrad.programs.segments import patterns

from ..c.layouts import Layout, Part, Place
from ..kernels.structs import LayerStruct, Member

Members = Mapping[Role, Sequence[Member]]


class Tensors(NamedTuple):
    """Arrays with their names in files; with `numbers`, those of equal layers, by `{}` for that of one."""

    arrays: tuple[tuple[Place, str], ...]
    layers: LayerStruct | None = None
    numbers: range = range(0)


def tensors(layout: Layout, *kinds: Collection[str]) -> Iterator[Tensors]:
    """Yield the arrays of a table in order; layers are equal if all or none of an array are of each kind."""
    for part in layout.parts:
        yield _of_layers(part, kinds) or Tensors(tuple((x, file_name(x.slot.name)) for x in part.every))


def _of_layers(part: Part, kinds: Sequence[Collection[str]]) -> Tensors | None:
    """Return the arrays of equal layers as those of one, if their names and kinds allow that."""
    width = len(part.places)
    columns = [[place.slot.name for place in part.every[k::width]] for k in range(width)]
    alike = all(len({name in kind for name in names}) == 1 for names in columns for kind in kinds)
    found = patterns([*map(file_name, names)] for names in columns) if part.layers and alike else None
    return found and Tensors(tuple(zip(part.places, found[0], strict=True)), part.layers, found[1])


def groups(tables: Members) -> list[tuple[bool, list[str]]]:
    """List arrays that a file has all or none of, and whether it needs them; each learning rate alone."""
    places: dict[str, list[str]] = {}
    for role, members in tables.items():
        for slot, identifier, _, _ in members:
            is_rate = role is Role.STATE and slot.is_learning_rate
            places.setdefault(slot.name if is_rate else role, []).append(f"{role}.{identifier}")
    return [(name == Role.PARAMETER, group) for name, group in places.items()]


def long_names(tables: Members) -> dict[str, str]:
    """Return the keys of names that are too long for a file, with the names."""
    names = [member.slot.name for members in tables.values() for member in members]
    return {FULL_NAME + file_name(name): name for name in names if file_name(name) != name}
