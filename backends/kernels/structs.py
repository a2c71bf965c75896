"""Tables as structs: a member for each array, and for equal layers an array of structs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from catgrad.naming import Namer
from catgrad.printing.dialect import Dialect
from catgrad.programs.ports import TABLES, Role
from catgrad.programs.program import Program
from catgrad.programs.stacks import layers_of
from catgrad.terms.state import Slot


@dataclass(frozen=True)
class LayerStruct:
    """The struct of each of `count` equal layers, a part of a table's struct."""

    identifier: str
    count: int


class Member(NamedTuple):
    """An array of a table, and its member in the table's struct, or in that of its layer."""

    slot: Slot
    identifier: str
    layers: LayerStruct | None = None
    name: str = ""


class TableStructs:
    """The tables of a program that are not empty, and the member of each array by its name."""

    def __init__(self, program: Program, dialect: Dialect) -> None:
        self.tables = {
            table: _members(program, table, dialect) for table in TABLES if program.tables.get(table)
        }
        self.members = {each.slot.name: each for table in self.tables.values() for each in table}


def _members(program: Program, table: Role, dialect: Dialect) -> list[Member]:
    """List the slots of a table with their members in its struct; equal layers are an array of structs."""
    namer, found = Namer(dialect.reserved), dict[str, Member]()
    slots = {slot.name: slot for slot in program.tables.get(table, ())}
    for layers in layers_of(program, table):
        reserved = Namer(dialect.reserved).fresh(layers.name) != layers.name
        name = namer.fresh(f"{layers.name}_layers" if reserved else layers.name)
        struct, own = LayerStruct(name, layers.count), Namer(dialect.reserved)
        for member, arrays in zip(map(own.fresh, layers.members), layers.arrays, strict=True):
            for t, name in enumerate(arrays):
                place = dialect.macros["layer_member"](struct.identifier, t, member)
                found[name] = Member(slots[name], place, struct, member)
    return [found.get(name) or Member(slot, namer.fresh(name)) for name, slot in slots.items()]
