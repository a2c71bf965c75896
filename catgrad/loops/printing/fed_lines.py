"""Lines of attention by warp groups, and of the producer that brings them tiles."""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.loops.printing.lines import Line
from catgrad.printing.dialect import Text
from catgrad.types import Dtype


@dataclass(frozen=True)
class Heads:
    """The features of heads, the rows of a block, the columns of a tile, and operands whose rows are kept."""

    features: int
    rows: int
    columns: int
    kept: int


@dataclass(frozen=True)
class KeptRows(Line):
    """A copy of the rows of a block, a box of an operand from an element on, to a place of those kept."""

    operand: str
    first: tuple[Text, ...]
    place: int


@dataclass(frozen=True)
class BroughtTile(Line):
    """A copy of the tile of an operand, a box from an element on, to the next stage of a ring."""

    operand: str
    first: tuple[Text, ...]


@dataclass(frozen=True)
class KeptProduct(Line):
    """The product of rows that are kept and the next tile."""

    dtype: Dtype
    heads: Heads
    sums: str
    place: int


@dataclass(frozen=True)
class WeightedProduct(Line):
    """A tile multiplied by weights in registers, which is added to sums: the next one, or one before."""

    dtype: Dtype
    heads: Heads
    sums: str
    weights: str
    ago: int


@dataclass(frozen=True)
class RoundedWeights(Line):
    """Numbers that are rounded to a dtype, two in a register."""

    dtype: Dtype
    weights: str
    scores: str


@dataclass(frozen=True)
class AwaitedProduct(Line):
    """A wait for all products but the pending ones; the first tiles that are held are done with then."""

    pending: int
    done: int


@dataclass(frozen=True)
class FedAttention(Line):
    """The lines of the warp groups of a block, and those by which a producer brings what they multiply."""

    heads: Heads
    tiles: tuple[Line, ...]
    lines: tuple[Line, ...]
