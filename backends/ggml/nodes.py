"""Nodes that are no operations of terms."""

from __future__ import annotations

from catgrad.printing.dialect import Layers
from catgrad.programs.program import Function
from catgrad.terms.op import Op
from catgrad.types import NdArrayType


class Duplicate(Op, register=False):
    """A copy."""


class DuplicateRows(Op, register=False):
    """A copy of each array of a list."""


class Rows(Op, register=False):
    """The rows of an array as a list."""

    result = "rows"


class LayerLoop(Op, register=False):
    """A loop over lists of arrays, whose iterations are nodes of one graph."""

    loop: Layers
    function: Function


class HostCall(Op, register=False):
    """A call of a function in C on arrays of the host and sizes."""

    called: str
    sizes: tuple[str, ...]
    array_type: NdArrayType

    def result_name(self, *operands: str) -> str:
        """Return the name of the function."""
        return self.called


class Fused(HostCall, register=False):
    """Operations on elements: one call on a CPU, and the nodes of a function on other devices.

    If the call `is_exact` where the nodes are not, a CPU makes it whatever the number of its threads.
    """

    function_of_nodes: Function
    is_exact: bool
