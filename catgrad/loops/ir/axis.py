"""Kinds of loops: the schedule of a kernel is the kind of each of its loops."""

from __future__ import annotations

from enum import Enum


class Axis(Enum):
    """Kinds of loops: sequential, parallel, vectorised, or distributed over the levels of a GPU."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    """Iterations are distributed among threads."""
    VECTOR = "vector"
    """Several iterations run at once, in the lanes of vectors; sums over them are reassociated."""
    WIDE = "wide"
    """The same, in the widest vectors that the processor has, even if compilers prefer others."""
    UNROLLED = "unrolled"
    """Iterations are written out one after the other."""
    ROLLED = "rolled"
    """Iterations run one after the other, and compilers are told not to write them out."""
    SELECTED = "selected"
    """Iterations that meet the conditions run in order; the threads of a block test as many at once."""
    OUTER = "outer"
    """A thread adds the outer products of all iterations to its registers, at once."""
    TENSOR = "tensor"
    """Tensor cores run all iterations: a warp adds a product of matrices to its registers."""
    WARPGROUP = "warpgroup"
    """Warp groups run all iterations: a block adds a product of parts of two arrays to its registers."""
    LANES = "lanes"
    """Neighbouring threads exchange registers in all iterations, at once."""
    PAIRWISE = "pairwise"
    """The elements of a vector are added up in pairs, and the sum to a register."""
    EITHER = "either"
    """The one iteration is the last item where warp groups multiply, or the others, which mean the same."""
    COPY = "copy"
    """All iterations are one asynchronous copy of neighbouring elements to shared memory."""
    MOVE = "move"
    """All iterations are one load of neighbouring elements to registers, or one store from there."""
    GRID = "grid"
    """Each iteration has a thread of its own."""
    BLOCK = "block"
    """Each iteration has a block of threads, its team."""
    WARP = "warp"
    """Each iteration has a warp of 32 threads, its team."""
    THREAD = "thread"
    """Iterations are distributed among the threads of the team; sums over them are combined afterwards."""

    @property
    def is_concurrent(self) -> bool:
        """Tell whether threads of a GPU share the iterations."""
        return self in (Axis.GRID, Axis.BLOCK, Axis.WARP, Axis.THREAD)

    @property
    def is_whole(self) -> bool:
        """Tell whether all iterations are one line of a printed kernel."""
        return self in WHOLE

    @property
    def is_vector(self) -> bool:
        """Tell whether iterations run in the lanes of vectors."""
        return self in (Axis.VECTOR, Axis.WIDE)

    @property
    def has_team(self) -> bool:
        """Tell whether several threads run one iteration together."""
        return self in (Axis.BLOCK, Axis.WARP)


WHOLE = (
    Axis.OUTER,
    Axis.TENSOR,
    Axis.WARPGROUP,
    Axis.LANES,
    Axis.PAIRWISE,
    Axis.COPY,
    Axis.MOVE,
)
"""Kinds of which all iterations are one line of a printed kernel."""
