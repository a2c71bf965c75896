"""Data of the emitted training program: arrays whose rows are examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catgrad.dims import Dim, Size
from catgrad.errors import OptionError
from catgrad.formats.elements import FORMAT_NAMES
from catgrad.programs.ports import Kind, Port, Role
from catgrad.programs.program import Program, symbol_sources
from catgrad.terms.state import LEARNING_RATE
from catgrad.types import Dtype, symbols

from ..kernels.signatures import Signature, separate

PRINTED = (Dtype.float32, Dtype.float64)
"""The dtypes of losses that C prints."""


@dataclass(frozen=True)
class Column:
    """An array of the data: its dtype in files, and the sizes of its axes but the first."""

    name: str
    dtype: str
    rest: tuple[str, ...]

    @property
    def quoted(self) -> str:
        """Quote the array as an entry of a Python table, in a C string."""
        return f"'{self.name}': {self.name}"


@dataclass(frozen=True)
class Data:
    """The arrays of a step; the symbol that is the size of a batch, or its number of examples; the other
    sizes that the data determine, each with an array and an axis; the dtype of the loss; and that of the
    learning rate, if it is in the state.
    """

    arrays: tuple[Column, ...]
    free: str
    batch: int
    told: tuple[tuple[str, int, int], ...]
    loss: str
    rate: str

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes that the data determine, without the number of examples."""
        return tuple(size for size, _, _ in self.told)


def training(program: Program, functions: Mapping[str, Signature]) -> Data | None:
    """Describe the program's data; none if a step is not on rows of examples, or its loss has 16 bits."""
    step = program.kinds.get(Kind.STEP)
    if step is None or Role.PARAMETER not in step.tables:
        return None
    printed = functions[step.name]
    types = [port.type for port in separate(step.inputs)]
    [loss] = [port.type.dtype for port in separate(step.outputs)]
    first = {type.shape[0] if type.rank else None for type in types}
    [batch] = first if len(first) == 1 else [None]
    is_symbol = isinstance(batch, Dim) and batch == Dim(min(batch.symbols))
    if loss not in PRINTED or not (isinstance(batch, int) or is_symbol):
        return None
    free = "" if isinstance(batch, int) else str(batch)
    if free and any(isinstance(n, Dim) and free in n.symbols for type in types for n in type.shape[1:]):
        return None
    identifiers = dict(zip(symbols(step.argument_types), printed.sizes, strict=True))
    arrays = [_column(port, identifiers) for port in separate(step.inputs)]
    told = [(identifiers[s], *place) for s, place in symbol_sources(types).items() if s != free]
    state = {slot.name: slot.type.dtype.value for slot in program.tables.get(Role.STATE, ())}
    count = 0 if free else int(str(batch))
    rate = state.get(LEARNING_RATE, "")
    return Data(tuple(arrays), identifiers.get(free, ""), count, tuple(told), loss.value, rate)


def require_shared(program: Program) -> None:
    """Raise OptionError unless processes can share the rows of a batch, and add up gradients and losses."""
    step = program.kinds.get(Kind.STEP)
    ports = separate((*step.inputs, *step.outputs)) if step else []
    summed = {port.type.dtype for port in ports if port.role is Role.LOSS}
    summed |= {slot.type.dtype for slot in program.tables.get(Role.PARAMETER, ())}
    rows = [port.type for port in ports if port.role is not Role.LOSS]
    is_free = all(type.rank and isinstance(type.shape[0], Dim) for type in rows)
    if len(summed) != 1 or not summed <= {*PRINTED} or not is_free:
        dtypes = ", ".join(sorted(dtype.name for dtype in summed)) or "none"
        raise OptionError(
            "a program of several processes must have a symbolic batch, and parameters and a loss of "
            "one dtype, float32 or float64",
            f"its arrays are {', '.join(map(str, rows)) or 'none'}, and these dtypes {dtypes}",
            "leave out mpi, or write Dim('batch')",
        )


def _column(port: Port, identifiers: Mapping[str, str]) -> Column:
    sizes = tuple(_text(size, identifiers) for size in port.type.shape[1:])
    return Column(port.name, FORMAT_NAMES[port.type.dtype.name], sizes)


def _text(size: Size, identifiers: Mapping[str, str]) -> str:
    """Print a size as a sum of products, which C and a reader understand alike."""
    if not isinstance(size, Dim):
        return str(size)
    products = [
        " * ".join([*([] if c == 1 and m else [str(c)]), *(identifiers[s] for s in m)]) for m, c in size.terms
    ]
    return " + ".join(products)
