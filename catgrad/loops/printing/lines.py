"""Lines of kernels as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from catgrad.loops.ir.axis import Axis
from catgrad.printing.dialect import Text
from catgrad.types import Dtype

NestedAxes = tuple[tuple[Text, Text], ...]
"""Sizes and strides of the axes of an array that are one axis of a product, the outermost first."""


class Line:
    """A line, perhaps with others in it, which a macro prints: that with the name of its class, or `kind`."""

    kind: ClassVar[str]

    def __init_subclass__(cls, kind: str = "") -> None:
        cls.kind = kind or cls.__dict__.get("kind", cls.__name__)


@dataclass(frozen=True)
class Reduction:
    """A register that a vectorised loop reduces to, by a sum or else by the greatest.

    Beside it, some languages keep `other`: an unsigned sum that wraps around, or a flag for NaN.
    """

    name: str
    dtype: Dtype
    is_sum: bool
    other: str = ""


@dataclass(frozen=True)
class For(Line):
    """A loop of lines; a vectorised one reduces to registers."""

    variable: str
    extent: str
    lines: tuple[Line, ...]
    axis: Axis = Axis.SERIAL
    reductions: tuple[Reduction, ...] = ()
    step: int = 1


@dataclass(frozen=True)
class PairwiseSum(Line):
    """The sum of neighbouring elements of a dtype from an address, added to a register or an element."""

    total: str
    dtype: Dtype
    address: str


@dataclass(frozen=True)
class Selected(Line):
    """A loop over numbers that meet conditions: `threads` test as many at once, and store them in order."""

    variable: str
    extent: str
    conditions: tuple[tuple[Text, Text, bool, bool], ...]
    lines: tuple[Line, ...]
    threads: int
    first: str
    selected: str
    count: str
    place: str


@dataclass(frozen=True)
class Greatest(Line):
    """The magnitude of an argument, in a register, as the new `farthest` if it is greater."""

    name: str
    argument: str
    farthest: str


@dataclass(frozen=True)
class Versions(Line):
    """A loop, or the one that is `near` if no argument is far from 0; a check finds the farthest."""

    farthest: str
    check: tuple[Line, ...]
    loop: For
    near: For


@dataclass(frozen=True)
class Digit:
    """A variable whose value is a digit of the number of an iteration."""

    name: str
    value: Text


@dataclass(frozen=True)
class Threads(Line):
    """Lines for a `count` of iterations, which a grid, or the `threads` of a team, runs at once.

    The `number` of an iteration is a variable, or else variables are its `digits`. Of a grid, the lines may
    be a part: that of the blocks from `first` to `end`, without it. In a part that is a function of its own,
    the number of the `block` is a parameter. Blocks that a producer feeds may stay for several.
    """

    axis: Axis
    number: str
    count: Text
    digits: tuple[Digit, ...]
    lines: tuple[Line, ...]
    team: Axis
    threads: int
    first: int = 0
    end: int | None = None
    block: bool = False
    feeding: Feeding | None = None


@dataclass(frozen=True)
class Numbered(Line):
    """Variables that are the digits of the number of a thread in its team."""

    digits: tuple[Digit, ...]
    team: Axis


@dataclass(frozen=True)
class CallEntry(Line):
    """A block of a grouped kernel as a call of its function, some of whose arguments are those of its entry.

    Each argument has its name, whether it is common to all entries, and whether it is an aligned array.
    """

    part: str
    takes_block: bool
    arguments: tuple[tuple[str, bool, bool], ...]
    is_wide: bool


@dataclass(frozen=True)
class CallPart(Line):
    """The blocks of a grid from `first` to `end`, without it, or to the last, as a call of a function.

    The function may take the number of the block among these.
    """

    part: str
    takes_block: bool
    first: int
    end: int | None
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class When(Line):
    """Lines that run where conditions hold: index, size, and which sides are tested."""

    conditions: tuple[tuple[Text, Text, bool, bool], ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Simple(Line):
    """A statement that the macro named after its class prints: what it writes and takes, and its team.

    It has an operation or not; the `size` is that of a bounds check, and `pending` copies those of a barrier.
    """

    statement: str
    dtype: Dtype | None
    target: str
    operands: tuple[str, ...]
    op: str
    size: Text | None
    pending: int | None
    team: Axis
    threads: int

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The name of the macro."""
        return f"{self.statement}Line"


@dataclass(frozen=True)
class Places:
    """A thread's own places of a tile in shared memory: the first, their number, and strides.

    With a `group`, which is a stride, they are groups of four.
    """

    first: str
    count: int
    term: int
    place: int
    group: int = 0


@dataclass(frozen=True)
class OuterProducts(Line):
    """Outer products of a tile's rows and another's columns, for each of the terms, added to registers."""

    terms: int
    sums: str
    left: Places
    right: Places


@dataclass(frozen=True)
class Tile:
    """A tile of a factor in shared memory: its address, and whether rows are `by_terms` or by places."""

    address: str
    by_terms: bool


@dataclass(frozen=True)
class TileProduct(Line):
    """A product of two tiles by tensor cores, added to the registers of a warp, which hold rows and columns
    of so many fragments.
    """

    dtype: Dtype
    sums: str
    left: Tile
    right: Tile
    rows: int
    columns: int


@dataclass(frozen=True)
class JoinedRuns(Line):
    """An exchange of sums, perhaps rounded, between neighbouring threads, which have runs of columns then."""

    runs: str
    sums: str
    rounded: Dtype | None


@dataclass(frozen=True)
class Move(Line):
    """A load of neighbouring elements to registers, or a store from there, which perhaps rounds them."""

    target: str
    source: str
    is_load: bool
    rounded: Dtype | None = None


@dataclass(frozen=True)
class RowProduct(Line):
    """A product added to the registers of warps side by side along its rows, which go through all columns.

    The left factor is a tile in shared memory, or registers like those of the sums, `in_registers`.
    """

    dtype: Dtype
    sums: str
    left: str
    right: str
    rows: int
    columns: int
    terms: int
    in_registers: bool


@dataclass(frozen=True)
class BoxCopies:
    """Copies of the boxes of a factor: where they begin, and of an image at which offsets in windows.

    There is one, or one for each value of the variable `box`, which counts so many places.
    """

    first: tuple[Text, ...]
    offsets: tuple[Text, ...]
    box: str = ""
    places: int = 0


@dataclass(frozen=True)
class WarpgroupProduct(Line):
    """A product of warp groups, of tiles with so many columns, in slices, as the sums of a block.

    Terms of each factor lie side by side, or places do. The block stays for several, or has one only.
    """

    dtype: Dtype
    sums: str
    columns: int
    slice: int
    by_terms: tuple[bool, bool]
    terms: Text
    stays: bool


@dataclass(frozen=True)
class StoredTile(Line):
    """The sums of a block, which are stored by a tensor map from the first element of a box on."""

    dtype: Dtype
    product: WarpgroupProduct
    first: tuple[Text, ...]


@dataclass(frozen=True)
class Feeding(Line):
    """The lines by which a producer brings the operands of a product, whose tile it is if conditions hold.

    The slices of its terms begin at the values of a variable.
    """

    product: WarpgroupProduct
    conditions: tuple[tuple[Text, Text, bool, bool], ...]
    begin: str
    left: BoxCopies
    right: BoxCopies

    @property
    def stays(self) -> bool:
        """Tell whether the block stays for several products."""
        return self.product.stays


@dataclass(frozen=True)
class Either(Line):
    """A product of warp groups, perhaps with its store, or lines for GPUs without them."""

    fed: tuple[Line, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class AsynchronousCopy(Line):
    """Neighbouring elements that are copied to shared memory, or zeros unless the conditions hold.

    The first one has a place `within` a size, beyond which others are zeros too.
    """

    dtype: Dtype
    bytes: int
    target: str
    source: str
    conditions: tuple[tuple[Text, Text, bool, bool], ...]
    within: tuple[Text, Text] | None = None


@dataclass(frozen=True)
class Local(Line):
    """A register and its first value; one that is not assigned again is constant."""

    dtype: Dtype
    name: str
    expression: str
    changes: bool = False


@dataclass(frozen=True)
class LocalArray(Line):
    """An array of a kernel's own: declared on the spot, or at an `offset` in the scratch memory passed to it.

    In a `parallel` loop each thread has its own. One that `is_zero` has zeros at first. One that `is_shared`
    belongs to a team of threads, of which a block has `teams`; an `offset` is one in memory of the launch.
    """

    dtype: Dtype
    name: str
    length: str
    offset: str = ""
    parallel: bool = False
    is_zero: bool = False
    is_shared: bool = False
    teams: int = 1


@dataclass(frozen=True)
class Assign(Line):
    """A new value of a register or an element; `update` names the operation that combines it with the old.

    In a vectorised loop that reduces to it, there is its `reduction`; elsewhere `combined` is the operation
    on the old value and the expression, for languages that do not spell this as an assignment. An expression
    that `is_stored` has the form of an element in memory.
    """

    dtype: Dtype
    target: str
    expression: str
    update: str = ""
    is_element: bool = True
    reduction: Reduction | None = None
    combined: str = ""
    is_stored: bool = False


@dataclass(frozen=True)
class Copy(Line):
    """A copy of contiguous elements to contiguous elements."""

    dtype: Dtype
    target: str
    source: str
    length: Text


@dataclass(frozen=True)
class Product(Line):
    """A matrix product, perhaps in a `parallel` loop: m, n and k, and the address of each operand.

    Addresses of factors are followed by their two axes, each as sizes and strides of nested axes, the
    outermost first; that of the result by the stride of its rows. It packs
    operands at an `offset` in the scratch memory; the right one may be at `packed`.
    """

    dtype: Dtype
    sizes: tuple[str, ...]
    left: tuple[str, NestedAxes, NestedAxes]
    right: tuple[str, NestedAxes, NestedAxes]
    target: tuple[str, str]
    add: bool
    offset: Text
    parallel: bool = False
    packed: str = ""

    @property
    def is_nested(self) -> bool:
        """Tell whether an axis of a factor is several nested axes of an array."""
        return any(len(axes) > 1 for axes in (*self.left[1:], *self.right[1:]))


@dataclass(frozen=True)
class Sorting(Line):
    """An argsort: the addresses of the keys and of the positions, and their strides."""

    dtype: Dtype
    length: str
    keys: tuple[str, str]
    places: tuple[str, str]
    descending: bool
