"""Kernels as functions, and calls of them, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from catgrad.dims import Dim, Size
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.nest import size_hint
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.machine import BLOCK_REGISTERS, THREAD_REGISTERS
from catgrad.loops.printing.fed_lines import Heads
from catgrad.loops.printing.lines import Line, Threads
from catgrad.printing.dialect import Text
from catgrad.types import Dtype


@dataclass(frozen=True)
class Parameter:
    """An array parameter of a kernel.

    It `changes` or not, 16 bytes of one that `is_aligned` are accessed at once, and one that `is_exchanged`
    has elements that a thread writes and another one accesses after a barrier.
    """

    dtype: Dtype
    name: str
    changes: bool
    is_aligned: bool = False
    is_exchanged: bool = False


@dataclass(frozen=True)
class TensorMap:
    """The tensor map of an operand: its first element, the sizes of its dimensions, the innermost first, the
    strides of all but this, and the places of a box, whose rows have 128 bytes.

    Windows of an image begin at pixels of both axes, in steps from the lower corners to the upper ones.
    """

    dtype: Dtype
    array: str
    sizes: tuple[Text, ...]
    strides: tuple[Text, ...]
    places: int
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Feed:
    """The tensor maps of the operands of a product of warp groups, and the columns of its tiles.

    It has the map of its result too, if this is stored by boxes.
    """

    columns: int
    maps: tuple[TensorMap, ...]
    result: TensorMap | None = None
    is_attention: ClassVar[bool] = False


@dataclass(frozen=True)
class AttentionFeed:
    """The tensor maps of the operands of attention, and its tiles."""

    heads: Heads
    maps: tuple[TensorMap, ...]
    is_attention: ClassVar[bool] = True


@dataclass(frozen=True)
class Launch:
    """The grid of a kernel: a count of iterations, which blocks of `threads` share, and of blocks if known.

    A parametric kernel is launched with extents in its `size`, the number of iterations. A thread of one that
    `is_wide` processes elements side by side. Its blocks have `shared_bytes` of shared memory beside that
    which the kernel declares. Where warp groups multiply, the kernel has other blocks, and a `feed`. Threads
    of one with `large_patches` need many registers: two blocks run at once only if they are bounded.
    """

    count: Text
    per_block: int
    threads: int
    blocks: int | None
    is_wide: bool
    shared_bytes: int = 0
    size: Size = 0
    feed: Feed | AttentionFeed | None = None
    large_patches: bool = False

    def at(self, extents: Mapping[str, int], spell: Callable[[Size], Text]) -> Launch:
        """Return the grid for these extents of a parametric kernel."""
        count = self.size.substitute(extents) if isinstance(self.size, Dim) else self.size
        return replace(self, count=spell(count), blocks=-(-size_hint(count) // self.per_block))

    @property
    def shares_registers(self) -> bool:
        """Tell whether its threads are too many for each to have all registers that a thread can have."""
        return self.threads * THREAD_REGISTERS > BLOCK_REGISTERS


@dataclass(frozen=True)
class Table:
    """Entries of a grouped kernel: their number, and sizes, streams and arrays that each of them has."""

    rows: int
    sizes: tuple[str, ...]
    streams: tuple[str, ...]
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class KernelText:
    """A kernel as a function of symbols of sizes, variables of loops around it, random streams and arrays.

    It needs `scratch` memory or not, perhaps for each thread, and may fail if it `checks` indices. `helpers`
    are the functions of the runtime that it calls; `reach` bounds the sizes and indices in it. On machines
    with grids of threads it has a `launch`, unless it `is_part` of other kernels. A grouped kernel has the
    `table` of its entries as its last argument.
    """

    name: str
    comments: tuple[str, ...]
    symbols: tuple[str, ...]
    around: tuple[str, ...]
    streams: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    lines: tuple[Line, ...]
    scratch: bool
    per_thread: bool
    checks: bool
    helpers: frozenset[str]
    reach: Size
    launch: Launch | None = None
    is_part: bool = False
    table: Table | None = None

    @property
    def sizes(self) -> tuple[str, ...]:
        """The integers among its parameters: sizes, and variables of loops around it."""
        return (*self.symbols, *self.around)

    @property
    def takes_block(self) -> bool:
        """Tell whether it depends on the number of the block, in a part of a grid."""
        nests = [line for line in self.lines if isinstance(line, Threads)]
        return any(nest.axis is not Axis.BLOCK or nest.count.number != 1 for nest in nests)


class CallLine(Line):
    """A line of a function that calls kernels."""


@dataclass(frozen=True)
class Call(CallLine):
    """A kernel run with these arguments; what else it needs is as in its text."""

    kernel: str
    arguments: Sequence[str]
    checks: bool
    scratch: bool
    per_thread: bool
    launch: Launch | None = None


class CallAdd(Call):
    """A call in the table of a grouped kernel, to which it is added."""


@dataclass(frozen=True)
class CallGroup(CallLine):
    """A grouped kernel run with these arguments and a `table`, whose entries are calls that lines add."""

    kernel: str
    arguments: Sequence[str]
    table: str
    rows: int
    launch: Launch
    lines: tuple[CallLine, ...]


@dataclass(frozen=True)
class CallProduct(CallLine):
    """Matrix products by a library: the numbers of products, rows, columns and terms, and the matrices.

    Each matrix has its first element, and its strides along the batch, rows or terms, and terms or columns.
    An `addend` may be added, and a `bias`, of which this is the first element, to every row, before `relu`.
    """

    dtype: Dtype
    sizes: tuple[Text, ...]
    left: tuple[Text, ...]
    right: tuple[Text, ...]
    target: tuple[Text, ...]
    addend: tuple[Text, ...]
    bias: Text | None
    relu: bool


@dataclass(frozen=True)
class CallLoop(CallLine):
    """Calls repeated.

    `touched` are the arrays around them that they read or write, and whether they write these, and `sizes`
    the symbols in shapes.
    """

    variable: str
    extent: str
    backwards: bool
    lines: tuple[CallLine, ...]
    tables: tuple[AddressTable, ...] = ()
    touched: Mapping[Buffer, bool] = field(default_factory=dict, compare=False)
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AddressTable:
    """The arrays, by name, of which a loop takes another in each iteration."""

    dtype: Dtype
    name: str
    entries: tuple[str, ...]


@dataclass(frozen=True)
class CallBranch(CallLine):
    """Calls of which one part runs."""

    condition: str
    parts: tuple[tuple[CallLine, ...], tuple[CallLine, ...]]


@dataclass(frozen=True)
class LayerParameter:
    """A parameter of a layer's function: `role` says which part of the function around it is passed."""

    role: str
    name: str
    dtype: Dtype | None = None
    changes: bool = True


@dataclass(frozen=True)
class CallLayer(CallLine):
    """A call of the function that has the calls of one layer."""

    name: str
    parameters: tuple[LayerParameter, ...]
    lines: tuple[CallLine, ...]


@dataclass(frozen=True)
class Pointer:
    """A temporary array: its offset in the workspace, its length, and its shape for a comment.

    Its offset is computed from `sizes`.
    """

    dtype: Dtype
    name: str
    offset: Text
    length: Text
    shape: str
    sizes: frozenset[str]


@dataclass(frozen=True)
class Literal:
    """An array whose elements stand in the source."""

    dtype: Dtype
    name: str
    length: str
    elements: tuple[str, ...]
