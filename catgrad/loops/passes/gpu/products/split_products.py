"""Split-K: matrix products of few tiles are sums of partial products over ranges of their terms.

A part is a range of one axis of the terms, and the outermost loop of the grid, so that blocks that run
together read one range. Another kernel adds up the partial sums in their order, and ends with what follows
the product: the optimiser's update of a weight, for one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from catgrad.dims import Dim, product
from catgrad.loops.ir.boxes import SLICE_BYTES
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Kernel, Reduce, Substituted, perfect_nest
from catgrad.loops.ir.scalar import Bounds, Buffer
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products.roles import MatrixProduct, count, matrix_product
from catgrad.loops.passes.gpu.products.thread_tiles import unflat
from catgrad.loops.passes.gpu.products.tilings import Tiling
from catgrad.loops.passes.gpu.sums.split_sums import in_two_stages, masked

MAX_WAVES = 12
"""Blocks of each multiprocessor, at most, in the grid of partial products."""

MAX_BYTES = 3 * 2**24
"""Bytes of the partial sums of a product, at most: the cache of a GPU holds them."""

MIN_TERMS = 2**7
"""Terms of a part, where symbols decide how many elements a product has, and how many partial sums."""

SHORT_PART, GRAIN, SHORT_GRAIN = 2**8, 64, 16
"""Terms of a short part, and those that a part's terms along the innermost axis are a multiple of."""


@dataclass(frozen=True)
class Split:
    """An axis of a sum in ranges of this length, the last of which may be shorter."""

    axis: Variable
    length: int
    parts: int

    @property
    def is_exact(self) -> bool:
        """Tell whether all ranges are alike."""
        return self.axis.extent == self.parts * self.length

    def stages(self, r: Reduce, free: Sequence[Variable]) -> list[Step]:
        """Sum over each range, then add up these sums."""
        part, within = Variable(self.parts, "part"), Variable(self.length, self.axis.name)
        place = index(part) * self.length + index(within)
        axes = tuple(within if v is self.axis else v for v in r.axes)
        scalar = Substituted({self.axis: place}).scalar(r.scalar)
        if not self.is_exact:
            scalar = masked(scalar, r, Bounds(place, self.axis.extent, False, True))
        return in_two_stages(r, free, part, axes, scalar)


def split_products(lowered: Lowered, machine: Machine) -> Lowered:
    """Split sums of products where more blocks are faster."""
    return lowered.map(lambda steps: put_off(steps, lambda step: _in_parts(step, machine)))


def put_off(steps: Sequence[Step], split: Callable[[Step], list[Step]]) -> list[Step]:
    """Split steps; partial sums are added up before the first step that touches their sum."""
    done, waiting = list[Step](), list[list[Step]]()
    for step in steps:
        ready = [sums for sums in waiting if not _homes([step]).isdisjoint(_homes(sums))]
        waiting = [sums for sums in waiting if sums not in ready]
        done += [each for sums in ready for each in sums]
        first, *sums = split(step)
        done.append(first)
        waiting += [sums] if sums else []
    return [*done, *(each for sums in waiting for each in sums)]


def _homes(steps: Sequence[Step]) -> set[Buffer]:
    return {buffer.home for step in steps for buffer, _ in (*step.reads, *step.writes)}


def _in_parts(step: Step, machine: Machine) -> list[Step]:
    """Split the product of a step, if it is one, into partial sums and their sum."""
    match perfect_nest(step.body) if isinstance(step, Kernel) else None:
        case free, [Reduce() as r]:
            r = _joined(r)
            found = matrix_product(free, r)
            split = _best(found, free, machine) if found else None
            if split:
                return split.stages(r, free)
    return [step]


def _joined(r: Reduce) -> Reduce:
    """Join the axes of a sum, of which a range has any length, if what it reads lies as along one axis."""
    sizes = [v.extent for v in r.axes]
    if len(sizes) < 2 or not all(isinstance(size, int) for size in sizes):
        return r
    whole = Variable(product(tuple(sizes)), r.axes[0].name)
    scalar = Substituted(unflat(r.axes, index(whole))).scalar(r.scalar)
    places = (load.buffer.flat(load.indices) for load in scalar.loads())
    rests = (place - index(whole) * place.coefficient(whole) for place in places)
    is_one = all(whole not in {*rest.variables()} for rest in rests)
    return replace(r, scalar=scalar, axes=(whole,)) if is_one else r


def _best(found: MatrixProduct, free: Sequence[Variable], machine: Machine) -> Split | None:
    """Choose the fastest split of a product; None if it is faster whole."""
    whole, costs = Tiling.of(found, machine), machine.gpu.costs
    most = MAX_BYTES // whole.bytes_of_parts(1)
    if any(isinstance(v.extent, Dim) for v in free):
        most = min(most, whole.terms // MIN_TERMS)
    best, least = None, costs.split_gain * whole.cycles(whole.best_patch())
    for split in _splits(found, {min(n, most) for n in whole.numbers_of_parts(MAX_WAVES)}, machine):
        parts = whole.in_parts(split.parts, split.length * whole.terms // count([split.axis]))
        cycles = parts.cycles(parts.best_patch()) * (1 if split.is_exact else costs.masked_part)
        cycles += whole.cycles_of_adding(split.parts)
        if cycles < least:
            best, least = split, cycles
    return best


def _splits(found: MatrixProduct, numbers: Collection[int], machine: Machine) -> Iterator[Split]:
    """Yield the splits of axes in about as many parts as one of some numbers."""
    for axis in found.sums:
        if not isinstance(axis.extent, int):
            continue  # ranges of a symbolic axis have no length
        grain = _copied_at_once(found, axis, machine)
        grains = (GRAIN, SHORT_GRAIN) if axis is found.sums[-1] else (grain, grain)
        for length in sorted({_length(axis.extent, n, *grains) for n in numbers if n > 1}):
            parts = -(-axis.extent // length)
            if parts > 1:
                yield Split(axis, length, parts)


def _copied_at_once(found: MatrixProduct, axis: Variable, machine: Machine) -> int:
    """Count the elements that are copied at once along an axis: of channels, but not of images or pixels.

    They are those of a slice of warp groups, where channels are of whole slices.
    """
    loads = [load for factor in (found.left, found.right) for load in factor.loads()]
    places = [place for load in loads for place in load.indices if axis in {*place.variables()}]
    is_alone = all(place.variable is axis for place in places)
    is_channel = is_alone and any(place in load.indices[1:] for load in loads for place in places)
    widths = [bytes // found.factor_dtype.itemsize for bytes in (SLICE_BYTES, machine.aligned_bytes)]
    slice, width = widths
    width = slice if machine.gpu.warpgroups and count([axis]) % slice == 0 else width
    return width if is_channel and found.is_on_tensor_cores(machine) else 1


def _length(extent: int, parts: int, grain: int, short_grain: int) -> int:
    """Choose the length of ranges."""
    length = -(-extent // parts)
    grain = short_grain if length < SHORT_PART else grain
    return -(-length // grain) * grain
