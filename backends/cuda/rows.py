"""Rows of a batch that ranks share, by whose index in the whole batch random numbers are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from catgrad.programs.ports import Kind
from catgrad.programs.program import Program
from catgrad.terms.state import FIRST_ROW
from catgrad.types import symbols

from ..kernels.signatures import separate
from ..kernels.structs import Member


class Rows(NamedTuple):
    """The member of the buffers that is a rank's first row, and the argument that is its number of rows."""

    member: str
    rows: str


def shared_rows(
    program: Program, kinds: Mapping[Kind, Any], tables: Mapping[str, Sequence[Member]]
) -> Rows | None:
    """Return the rows of a step; none if it draws nothing by the row of the whole batch."""
    found = [x.identifier for x in tables.get("buffers", ()) if x.slot.name == FIRST_ROW.name]
    if not found:
        return None
    step = program.kinds[Kind.STEP]
    identifiers = dict(zip(symbols(step.argument_types), kinds[Kind.STEP].sizes, strict=True))
    return Rows(found[0], identifiers[str(separate(step.inputs)[0].type.shape[0])])
