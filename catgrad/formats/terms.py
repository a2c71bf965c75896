"""Files of terms, `.catgrad.json`: columns of hypergraphs, ports and tables as JSON, with their hash.

Reading executes nothing of the file: names select operations and initialisers among those declared, and every
number, type and wire is checked before a term is returned. Versions:

1. `format`, `version`, `sha256`; `term` of a plain term; or `name`, `notes`, `optimiser`, `tables`, `terms`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import catgrad.ops  # noqa: F401  # declares the operations that files name
from catgrad.errors import ArtifactError, CatgradError, OptionError
from catgrad.files import write_atomically
from catgrad.formats.json_objects import parse_object
from catgrad.paths import readable, require_file, writable
from catgrad.programs.ports import TABLES, Kind, Port, Role
from catgrad.programs.terms import TermEntry, Terms, plain
from catgrad.terms.attributes import (
    guarded,
    read_initial,
    read_type,
    require_fitting,
    write_initial,
    write_type,
)
from catgrad.terms.canonical import digest
from catgrad.terms.columns import read_columns, write_columns
from catgrad.terms.state import Slot
from catgrad.terms.term import Term
from catgrad.types import NdArrayType

SUFFIX = ".catgrad.json"
FORMAT, VERSION = "catgrad terms", 1
MAX_FILE_BYTES = 2**34
"""The maximum size of a file in bytes."""


def write(path: str | Path, model: Term | Terms) -> None:
    """Write a term, or terms with ports and tables; an old file is replaced only by a complete one.

    Raises: ArtifactError if the file cannot be written; OptionError for an attribute that JSON cannot hold
    """
    text = json.dumps(to_json(model), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    with writable("the file of terms", path):
        write_atomically(Path(path), [text.encode(), b"\n"])


def read(path: str | Path) -> Term | Terms:
    """Read what `write` wrote: terms that are functions, of the hash that the file states.

    Raises: ArtifactError if the file cannot be read, is no file of terms, or is of a newer version, or if the
            hash is another; TermError, TypeMismatch, OptionError for terms that are invalid
    """
    require_file("the file of terms", path, MAX_FILE_BYTES)
    with readable("the file of terms", path):
        content = Path(path).read_bytes()
    try:
        return from_bytes(content)
    except CatgradError as error:
        raise error.about(where=Path(path).name)  # noqa: B904  # the same error


def to_json(model: Term | Terms) -> dict[str, object]:
    """Return the content of a file."""
    if isinstance(model, Term):
        return {**_header(digest(model)), "term": write_columns(model)}
    optimiser, settings = model.optimiser
    return {
        **_header(model.digest),
        "name": model.name,
        "notes": list(model.notes),
        "optimiser": {"name": optimiser, "settings": plain(settings)},
        "tables": {role: list(map(_slot, model.tables.get(role, ()))) for role in TABLES},
        "terms": {name: _entry(entry) for name, entry in model.entries.items()},
    }


def from_bytes(content: bytes) -> Term | Terms:
    """Parse the content of a file. Raises: as `read`"""
    try:
        data = parse_object(content)
    except (ValueError, RecursionError) as error:
        found = f"JSON cannot be read: {str(error)[:100]}"
        raise ArtifactError("a file of terms must be JSON", found, "write it with catgrad.save") from None
    if data.get("format") != FORMAT or data.get("version") != VERSION or type(data["version"]) is not int:
        raise ArtifactError(
            f"a file of terms must have the format {FORMAT!r} and the version {VERSION}",
            f"it has {repr(data.get('format'))[:50]} and {repr(data.get('version'))[:50]}",
            "write it with this version of catgrad",
        )
    with guarded("a file of terms must follow its format"):
        model = _term(data) if "term" in data else _terms(data)
        found = digest(model) if isinstance(model, Term) else model.digest
    if data["sha256"] != found:
        raise ArtifactError(
            "a file of terms must have the hash that it states",
            f"it has {found}, and states another",
            "it was changed after it was written: get it from its source again",
        )
    return model


def _header(found: str) -> dict[str, object]:
    return {"format": FORMAT, "version": VERSION, "sha256": found}


def _slot(slot: Slot) -> dict[str, object]:
    return {
        "name": slot.name,
        "type": write_type(slot.type),
        "initial": write_initial(slot.initial, write_columns),
        "outputs_first": slot.outputs_first,
    }


def _entry(entry: TermEntry) -> dict[str, object]:
    sides = {"inputs": entry.inputs, "outputs": entry.outputs}
    ports = {side: [[port.role, port.name] for port in ports] for side, ports in sides.items()}
    return {"kind": entry.kind, **ports, "term": write_columns(entry.term)}


def _term(data: Mapping[str, object]) -> Term:
    _require_keys("a file of a term", data, ("format", "version", "sha256", "term"))
    return read_columns(data["term"])


def _terms(data: Mapping[str, Any]) -> Terms:
    keys = ("format", "version", "sha256", "name", "notes", "optimiser", "tables", "terms")
    _require_keys("a file of terms", data, keys)
    _require_keys("an optimiser", data["optimiser"], ("name", "settings"))
    _require_keys("the tables", data["tables"], TABLES)
    optimiser = _text(data["optimiser"]["name"]), dict(_table(data["optimiser"]["settings"]))
    tables = {role: tuple(map(_read_slot, _list(data["tables"][role]))) for role in TABLES}
    entries = {name: _read_entry(entry) for name, entry in _table(data["terms"]).items()}
    notes = tuple(map(_text, _list(data["notes"])))
    return Terms(_text(data["name"]), entries, tables, optimiser, notes)


def _read_slot(data: Any) -> Slot:
    _require_keys("an array of a table", data, ("name", "type", "initial", "outputs_first"))
    if type(data["outputs_first"]) is not bool:
        raise _refused("outputs_first", "true or false", data["outputs_first"])
    slot = Slot(
        _text(data["name"]), read_type(data["type"]), read_initial(data["initial"]), data["outputs_first"]
    )
    require_fitting(slot.name, slot.type, slot.initial)
    return slot


def _read_entry(data: Any) -> TermEntry:
    _require_keys("a term of a file", data, ("kind", "inputs", "outputs", "term"))
    if data["kind"] not in list(Kind):
        raise _refused("the kind of a term", f"one of {', '.join(Kind)}", data["kind"])
    term = read_columns(data["term"])
    sides = [_ports(data["inputs"], term.source.table), _ports(data["outputs"], term.target.table)]
    return TermEntry(Kind(data["kind"]), term, *sides)


def _ports(data: Any, types: Sequence[NdArrayType]) -> tuple[Port, ...]:
    if len(_list(data)) != len(types):
        raise _refused("ports", f"{len(types)}, as many as wires at the boundary", len(data))
    ports = []
    for each, type in zip(data, types, strict=True):
        if len(_list(each)) != 2 or each[0] not in list(Role):
            raise _refused("a port", "a list of a role and a name", each)
        ports.append(Port(Role(each[0]), _text(each[1]), type))
    return tuple(ports)


def _require_keys(what: str, data: object, keys: Sequence[str]) -> None:
    if not isinstance(data, dict) or data.keys() != set(keys):
        raise _refused(
            what, f"a table of {', '.join(keys)}", sorted(data) if isinstance(data, dict) else data
        )


def _list(data: object) -> list[Any]:
    if not isinstance(data, list):
        raise _refused("an entry", "a list", data)
    return data


def _table(data: object) -> dict[str, object]:
    if not isinstance(data, dict):
        raise _refused("an entry", "a table", data)
    return data


def _text(data: object) -> str:
    if not isinstance(data, str):
        raise _refused("a name", "a text", data)
    return data


def _refused(what: str, must: str, found: object) -> OptionError:
    return OptionError(f"{what} must be {must}", f"it is {repr(found)[:100]}", "write the file again")
