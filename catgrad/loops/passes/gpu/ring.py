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

from catgrad.loops.ir.index import Index, Variable, index, modulo, quotient
from catgrad.loops.ir.nest import Barrier, Commit, Item, Loop
from catgrad.loops.passes.gpu.operands import Operand, Terms
from catgrad.loops.passes.gpu.thread_tiles import stepped, unrolled

STAGES = 4
"""Slices whose tiles are in shared memory at once, at most."""

RING_BYTES = 96 * 2**10
"""Bytes of their tiles at most: 99 KiB of shared memory are what a block has on every GPU from sm_80 on."""


@dataclass
class _Slice:
    """The items that bring the tiles of a slice: copies, or loads to registers and stores from there."""

    copies: list[Item] = field(default_factory=list)
    fetches: list[Item] = field(default_factory=list)
    stores: list[Item] = field(default_factory=list)


class Ring:
    """The stages of a ring, and the number of slices `ahead`, under way while another is multiplied."""

    def __init__(self, terms: Terms, bytes: int) -> None:
        self.terms = terms
        most = min(STAGES, RING_BYTES // bytes)
        slices = -(-terms.depth // terms.deep) if isinstance(terms.depth, int) else most
        self.ahead, self.stages = min(most - 1, slices), min(most, slices)

    def through(self, operands: Sequence[Operand], multiply: Callable[[Index], Item]) -> list[Item]:
        """Go through all slices; `multiply` gets the stage of one."""
        deep, ahead = self.terms.deep, self.ahead
        early, slice = Variable(ahead, "stage"), stepped(self.terms.depth, "slice", deep)
        number = quotient(index(slice), deep)
        first = _brought(operands, index(early) * deep, index(early))
        later = _brought(operands, index(slice) + ahead * deep, modulo(number + ahead, self.stages))
        later = later if self.stages > ahead else _Slice()
        end, barrier = ([Commit()], Barrier(ahead - 1)) if first.copies else ([], Barrier())
        begin = unrolled([early], [*first.copies, *end, *first.fetches, *first.stores])
        product = multiply(modulo(number, self.stages))
        return [*begin, Loop(slice, [barrier, *later.copies, *end, *later.fetches, product, *later.stores])]


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
