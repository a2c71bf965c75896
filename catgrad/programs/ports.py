"""Ports: role, name and type of each argument and result of a function, and the order of tables.

Harnesses and printers read the ports. For data-parallel training, tables are replicated, gradients and the
loss are averaged, and all other arrays are sharded along the batch axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

from catgrad.dims import Size
from catgrad.errors import TermError
from catgrad.terms.state import Slot
from catgrad.types import NdArrayType


class Role(StrEnum):
    """The part that an array plays in a model or in its training; tables have the names of their roles."""

    CONSTANT = "constants"
    STATE = "state"
    BUFFER = "buffers"
    PARAMETER = "parameters"
    GRADIENT = "gradients"
    INPUT = "inputs"
    OUTPUT = "outputs"
    TARGET = "targets"
    LOSS = "loss"
    INPUT_COTANGENT = "input cotangents"
    OUTPUT_COTANGENT = "output cotangents"
    SEED = "seed"

    @property
    def is_table(self) -> bool:
        """Tell whether functions share the array, in a table that outlives their calls."""
        return self is Role.CONSTANT or self in TABLES


TABLES = (Role.STATE, Role.BUFFER, Role.PARAMETER)
"""The tables that training changes, in the order in which functions take and return them."""


class Kind(StrEnum):
    """The purpose of a function; those of a task are called like their kinds.

    A `function` is one of `Functions`, and a `term` has arguments and results that have no other role.
    """

    PREDICT = "predict"
    TRAINED = "trained"
    CRITERION = "criterion"
    LOSS = "loss"
    REV = "rev"
    REV_P = "rev_p"
    GRADS = "grads"
    UPDATE = "update"
    STEP = "step"
    INIT_CONSTANTS = "init_constants"
    INIT_STATE = "init_state"
    INIT_BUFFERS = "init_buffers"
    INIT = "init"
    FUNCTION = "function"
    TERM = "term"

    @property
    def is_initial(self) -> bool:
        """Tell whether the function computes the initial values of a table."""
        return self in INITIAL.values()


INITIAL = {
    Role.CONSTANT: Kind.INIT_CONSTANTS,
    Role.STATE: Kind.INIT_STATE,
    Role.BUFFER: Kind.INIT_BUFFERS,
    Role.PARAMETER: Kind.INIT,
}
"""For each table, the function that computes its initial values."""


@dataclass(frozen=True)
class Port:
    """An array that a function takes or returns: its role, its name and its type.

    Arrays of tables, and gradients of parameters, have the name of the slot. A result may have none. Devices
    share the axis `split`, if it is not None. With `rows`, it is a list of as many arrays of this type.
    """

    role: Role
    name: str
    type: NdArrayType
    split: int | None = None
    rows: int = 0

    @property
    def label(self) -> str:
        """Return the name that users know the array by."""
        return f"d_{self.name}" if self.role is Role.GRADIENT else self.name

    def substitute(self, sizes: Mapping[str, Size]) -> Port:
        """Return the port with these sizes for symbols."""
        return replace(self, type=self.type.substitute(sizes))


def tables(ports: Iterable[Port]) -> tuple[Role, ...]:
    """List the tables that these arrays belong to, in order."""
    roles = dict.fromkeys(role for role, _ in groupby(port.role for port in ports))
    return tuple(role for role in roles if role.is_table)


def check_distinct(slots: Mapping[Role, Iterable[Slot]]) -> None:
    """Check the names of the arrays of tables. Raises: TermError if two are the same."""
    seen: dict[str, Role] = {}
    for role, table in slots.items():
        for slot in table:
            if slot.name in seen:
                raise TermError(
                    "arrays of tables must have distinct names",
                    f"{slot.name!r} is in {seen[slot.name]} and in {role}",
                    "rename one of them",
                )
            seen[slot.name] = role
