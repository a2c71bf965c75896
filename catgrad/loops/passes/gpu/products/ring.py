"""Rings of tiles in shared memory: while those of a slice are multiplied, those of later slices arrive.

    for each slice but the first ones, which are under way:
        wait until the slice has arrived; barrier      whose tiles were those of an earlier slice
        copy a later slice                             asynchronously, as a group of copies
        fetch a later slice to registers               factors that are computed
        multiply
        store what was fetched

One barrier for each slice suffices: behind it, all threads have multiplied the slice before, whose
tiles are free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from catgrad.dims import Size
from catgrad.loops.ir.index import ZERO, Index, Variable, index, modulo, quotient
from catgrad.loops.ir.nest import Barrier, Commit, Item, Loop
from catgrad.loops.ir.scalar import Bounds
from catgrad.loops.passes.gpu.products.operands import Operand
from catgrad.loops.passes.gpu.products.thread_tiles import stepped, unrolled

STAGES = 4
"""Slices of a product whose tiles are in shared memory at once, at most."""

RING_BYTES = 96 * 2**10
"""Bytes of their tiles at most: 99 KiB of shared memory are what a block has on every GPU from sm_80 on."""

Multiply = Callable[[Index, Index], list[Item]]
"""Process a slice, by its first term and its stage."""


@dataclass
class _Slice:
    """The items that bring the tiles of a slice: copies, or loads to registers and stores from there."""

    copies: list[Item] = field(default_factory=list)
    fetches: list[Item] = field(default_factory=list)
    stores: list[Item] = field(default_factory=list)


@dataclass(frozen=True)
class Slices:
    """The slices of `length` terms from the `first` on, of which those are left out that are not `needed`.

    The first ones are needed, even if they may be `before` the operands begin.
    """

    length: Size
    first: Index = ZERO
    needed: Callable[[Index], tuple[Bounds, ...]] = lambda term: ()
    before: bool = False


class Ring:
    """The stages of a ring, and the number of slices `ahead`, under way while another is multiplied."""

    def __init__(self, slices: Slices, deep: int, most: int) -> None:
        self.slices, self.deep = slices, deep
        count = -(-slices.length // deep) if isinstance(slices.length, int) else most
        self.ahead, self.stages = min(most - 1, count), min(most, count)

    def through(
        self, operands: Sequence[Operand], multiply: Multiply, whole: Sequence[tuple[Operand, Index]] = ()
    ) -> list[Item]:
        """Go through all slices; `whole` are operands of all of them, with their first terms."""
        deep, ahead, begin = self.deep, self.ahead, self.slices.first
        early, slice = Variable(ahead, "stage"), stepped(self.slices.length, "slice", deep)
        number, term = quotient(index(slice), deep), begin + index(slice)
        once = [_brought([operand], at, ZERO) for operand, at in whole]
        first = _brought(operands, begin + index(early) * deep, index(early))
        later = _brought(operands, term + ahead * deep, modulo(number + ahead, self.stages))
        later = later if self.stages > ahead else _Slice()
        is_copied = any(each.copies for each in (first, *once))
        end, barrier = ([Commit()], Barrier(ahead - 1)) if is_copied else ([], Barrier())
        items = [item for each in once for item in (*each.copies, *each.fetches, *each.stores)]
        items += unrolled([early], [*first.copies, *end, *first.fetches, *first.stores])
        products, needed = multiply(term, modulo(number, self.stages)), self.slices.needed(term)
        later.copies = self._needed(later.copies, term + ahead * deep, operands)
        if slice.extent == 1 and not needed:
            return [*items, barrier, *products]
        body = [barrier, *later.copies, *end, *later.fetches, *products, *later.stores]
        return [*items, Loop(slice, body, conditions=needed)]

    def _needed(self, copies: list[Item], first: Index, operands: Sequence[Operand]) -> list[Item]:
        """Copy a slice if it is needed; one beyond the end of the operands is zeros, and costs no more."""
        ends = [Bounds(first, operand.terms.depth, False, True) for operand in operands]
        needed = tuple(each for each in self.slices.needed(first) if each not in ends)
        return [Loop(Variable(1, "later"), copies, conditions=needed)] if needed and copies else copies


def _brought(operands: Sequence[Operand], first: Index, stage: Index) -> _Slice:
    """Bring the tiles of the slice that begins at a term to a stage."""
    slice = _Slice()
    for operand in operands:
        copies = operand.copies(first, stage)
        if copies is None:
            fetch, store = operand.fetches(first, stage)
            slice.fetches.append(fetch)
            slice.stores.append(store)
        else:
            slice.copies.append(copies)
    return slice
