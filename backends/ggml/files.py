"""Arrays of a program in GGUF files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catgrad.formats.gguf import FULL_NAME, file_name
from catgrad.programs.ports import Role

from ..kernels.structs import Member

Members = Mapping[Role, Sequence[Member]]


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
