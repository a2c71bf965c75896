"""What the templates of the target c spell: the lines of kernels as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.dims import Size
from catgrad.types import Dtype


@dataclass(frozen=True)
class For:
    """A loop of lines. If its turns may be taken at once, `sums` names what is added up in it.

    `wrapping` are pairs of a sum of signed whole numbers and the unsigned one that is added up in its place.
    `greatest` names that of which it is the greatest, with the flag that says whether one was NaN.
    """

    variable: str
    extent: str
    lines: tuple[Line, ...]
    at_once: bool = False
    sums: tuple[str, ...] = ()
    wrapping: tuple[tuple[str, str, Dtype], ...] = ()
    greatest: tuple[tuple[str, str, Dtype], ...] = ()
    shared: bool = False
    kind: str = "For"


@dataclass(frozen=True)
class Local:
    """A number with a name; one that changes is not const."""

    dtype: Dtype
    name: str
    expression: str
    changes: bool = False
    kind: str = "Local"


@dataclass(frozen=True)
class Room:
    """An array of a kernel's own: its elements declared on the spot, or in scratch memory.

    In a loop that is shared by threads, each of them has such memory for itself.
    """

    dtype: Dtype
    name: str
    length: str
    offset: str = ""
    is_shared: bool = False
    kind: str = "Room"


@dataclass(frozen=True)
class Assign:
    """A new value of a number or an element; `update` names the operation it is combined with the old by.

    With a `flag` the greatest of a loop whose turns are taken at once is told of NaN by that. With `bits`,
    a sum is added up there.
    """

    dtype: Dtype
    target: str
    expression: str
    update: str = ""
    is_element: bool = True
    flag: str = ""
    bits: str = ""
    kind: str = "Assign"


@dataclass(frozen=True)
class Copying:
    """Elements that lie side by side copied to where they lie side by side."""

    dtype: Dtype
    target: str
    source: str
    length: str
    kind: str = "Copying"


@dataclass(frozen=True)
class Product:
    """A matrix product: sizes, and each operand with its strides; in a loop that is shared, by one thread."""

    dtype: Dtype
    sizes: tuple[str, str, str]
    left: tuple[str, str, str]
    right: tuple[str, str, str]
    target: tuple[str, str]
    add: bool
    is_shared: bool = False
    kind: str = "Product"


@dataclass(frozen=True)
class Sorting:
    """The places of elements in order: of keys and of places, where they begin and how far apart they lie."""

    dtype: Dtype
    length: str
    keys: tuple[str, str]
    places: tuple[str, str]
    descending: bool
    kind: str = "Sorting"


@dataclass(frozen=True)
class Require:
    """The kernel ends, and says so, unless a number lies within."""

    expression: str
    size: str
    kind: str = "Require"


Line = For | Local | Room | Assign | Copying | Product | Sorting | Require


@dataclass(frozen=True)
class Parameter:
    """An array a kernel is given, and whether it changes it."""

    dtype: Dtype
    name: str
    changes: bool


@dataclass(frozen=True)
class KernelText:
    """A kernel as a function: sizes and indices it is given, arrays, and whether it needs `scratch` memory,
    perhaps `per_thread`.

    `helpers` names the functions of the runtime that its expressions call, and `reach` bounds the sizes and
    indices in them.
    """

    name: str
    comments: tuple[str, ...]
    sizes: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    lines: tuple[Line, ...]
    scratch: bool
    per_thread: bool
    checks: bool
    helpers: frozenset[str]
    reach: Size


@dataclass(frozen=True)
class Call:
    """A kernel run with these arguments, and the code the function returns if it fails."""

    kernel: str
    arguments: Sequence[str]
    checks: bool
    failure: str
    kind: str = "Call"


@dataclass(frozen=True)
class Turns:
    """Calls repeated."""

    variable: str
    extent: str
    backwards: bool
    lines: tuple[CallLine, ...]
    kind: str = "Turns"


@dataclass(frozen=True)
class Branches:
    """Calls of which one part runs, as an element of an array says."""

    array: str
    condition: str
    parts: tuple[tuple[CallLine, ...], tuple[CallLine, ...]]
    kind: str = "Branches"


CallLine = Call | Turns | Branches


@dataclass(frozen=True)
class Pointer:
    """A temporary array of a function: where in the workspace it lies, and what it holds."""

    dtype: Dtype
    name: str
    offset: str
    shape: str


@dataclass(frozen=True)
class Literal:
    """An array whose elements stand in the source."""

    dtype: Dtype
    name: str
    length: str
    elements: tuple[str, ...]
