"""Terms of a model by name, with ports and tables: the content of files, of hashes, and of programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import Any

from catgrad.errors import TermError, TypeMismatch
from catgrad.naming import require_dotted, require_name_of_array
from catgrad.programs.ports import TABLES, Kind, Port, Role, check_distinct
from catgrad.programs.signatures import SIGNATURES
from catgrad.terms.attributes import write_initial, write_type
from catgrad.terms.canonical import digest, digest_of, write_digest
from catgrad.terms.state import Slot
from catgrad.terms.term import Term
from catgrad.types import NdArrayType

FUNCTION_ROLES = (Role.BUFFER, Role.PARAMETER, Role.INPUT), (Role.BUFFER, Role.OUTPUT)
"""Roles of the arguments and of the results of one of `Functions`, in order."""


@dataclass(frozen=True)
class TermEntry:
    """A term that becomes a function: its purpose, and the ports of its arguments and results."""

    kind: Kind
    term: Term
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def roles(self) -> tuple[Sequence[Role], Sequence[Role]]:
        """The roles that arguments and results may have, in order."""
        return FUNCTION_ROLES if self.kind is Kind.FUNCTION else SIGNATURES[self.kind]

    @property
    def optional(self) -> Sequence[Role]:
        """The tables that it may leave out."""
        return TABLES if self.kind is Kind.FUNCTION else (Role.STATE, Role.BUFFER)


@dataclass(frozen=True)
class Terms:
    """The terms of a Task or of Functions: `catgrad.load` returns them, and `catgrad.emit` takes them.

    `tables` are the arrays that the terms share, with their initial values; `optimiser` is its name and its
    hyperparameters; `notes` are sentences for readers of what is emitted.

    Raises: TermError for ports that do not have the roles of the kind, or are not whole tables; TypeMismatch
            for ports of other types than the term
    """

    name: str
    entries: Mapping[str, TermEntry]
    tables: Mapping[Role, tuple[Slot, ...]]
    optimiser: tuple[str, Mapping[str, Any]] = ("", MappingProxyType({}))
    notes: tuple[str, ...] = ()
    whole: Terms | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_dotted(self.name)
        check_distinct(self.tables)
        types: dict[tuple[Role, str], NdArrayType] = {}
        for name, entry in self.entries.items():
            _check_name(name, entry)
            for ports, roles, terms in zip(
                (entry.inputs, entry.outputs),
                entry.roles,
                (entry.term.source, entry.term.target),
                strict=True,
            ):
                self._check_roles(name, ports, roles, entry.optional)
                _check_types(name, ports, terms.table)
            for port in (*entry.inputs, *entry.outputs) if entry.kind is not Kind.FUNCTION else ():
                _check_type(name, port, types.setdefault((port.role, port.name), port.type))
        for array in dict.fromkeys(port.name for entry in self.entries.values() for port in entry.inputs):
            require_name_of_array(array)

    @property
    def of_task(self) -> bool:
        """Tell whether the terms are those of a Task."""
        return not any(entry.kind is Kind.FUNCTION for entry in self.entries.values())

    def only(self, names: Iterable[str]) -> Terms:
        """Return some of the terms; their hash is still that of all. Raises: TermError if one is missing"""
        chosen = list(names)
        for name in chosen:
            if name not in self.entries:
                raise TermError(
                    f"{self.name} must have the term {name}",
                    f"it has {', '.join(self.entries)}",
                    "save the whole task, or name other functions",
                )
        picked = {name: self.entries[name] for name in chosen}
        return replace(self, entries=picked, whole=self.whole or self)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all terms, tables and hyperparameters, in hexadecimal.

        Names of the model and notes, which only readers see, do not change it.
        """
        if self.whole:
            return self.whole.digest
        entries = {
            name: [e.kind, _roles_and_names(e.inputs), _roles_and_names(e.outputs), digest(e.term)]
            for name, e in self.entries.items()
        }
        tables = {
            role: [
                [s.name, write_type(s.type), write_initial(s.initial, write_digest), s.outputs_first]
                for s in slots
            ]
            for role, slots in self.tables.items()
        }
        optimiser, settings = self.optimiser
        return digest_of(["terms", entries, tables, optimiser, plain(settings)])

    def _check_roles(
        self, name: str, ports: Sequence[Port], roles: Sequence[Role], optional: Sequence[Role]
    ) -> None:
        """Raise TermError unless ports have these roles in order, and whole tables."""
        found = [role for role, _ in groupby(port.role for port in ports)]
        if found != [role for role in roles if role in found]:
            raise _refused(name, f"arrays of {', '.join(roles)}, in this order", ", ".join(found))
        for role in (Role.GRADIENT, *TABLES):
            table = Role.PARAMETER if role is Role.GRADIENT else role
            slots = [(slot.name, slot.type) for slot in self.tables.get(table, ())]
            given = [(port.name, port.type) for port in ports if port.role is role]
            if given != slots and (given or (role in roles and role not in optional)):
                raise _refused(
                    name, f"all {role}, in the order of their table", ", ".join(n for n, _ in given)
                )
        if found.count(Role.LOSS) and [port.role for port in ports].count(Role.LOSS) > 1:
            raise _refused(name, "one loss", "several")


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyperparameters as JSON: numbers, texts and lists; of others the names of their classes."""
    return {name: _plain(value) for name, value in settings.items()}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str, int, float)):
        return value
    return list(map(_plain, value)) if isinstance(value, (tuple, list)) else type(value).__name__


def _roles_and_names(ports: Iterable[Port]) -> list[tuple[str, str]]:
    return [(port.role, port.name) for port in ports]


def _check_name(name: str, entry: TermEntry) -> None:
    if entry.kind is not Kind.FUNCTION and (entry.kind not in SIGNATURES or name != entry.kind):
        raise _refused(name, f"the name of its kind, one of {', '.join(SIGNATURES)}", entry.kind)


def _check_types(name: str, ports: Sequence[Port], types: Sequence[NdArrayType]) -> None:
    if len(ports) != len(types):
        raise _refused(name, f"a port for each of {len(types)} wires at its boundary", str(len(ports)))
    for port, type in zip(ports, types, strict=True):
        _check_type(name, port, type)


def _check_type(name: str, port: Port, type: NdArrayType) -> None:
    if port.type is not type:
        raise TypeMismatch(
            f"{port.role} {port.name} must have one type",
            f"it is {port.type} and {type}",
            "save the task again",
            where=name,
        )


def _refused(name: str, must: str, found: str) -> TermError:
    return TermError(f"a term must have {must}", f"{name} has {found or 'none'}", "save the task again")
