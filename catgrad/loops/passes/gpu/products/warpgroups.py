"""Products of warp groups (wgmma): where a GPU has them, they multiply what tensor maps (TMA) bring.

A loop of the kind EITHER has the product of two parts of arrays as its last item, and before it the ring of
tiles for other GPUs. Both leave sums in registers, but of other elements: 16 rows of a tile lie in four
warps side by side with `mma.sync`, each with a strip of columns, and in one warp with `wgmma`, which has all
four strips. So the numbers of a warp and of a strip change places in the epilogue, which is common to both.
A product that nothing follows is stored by a tensor map, too, in rows of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.boxes import SLICE_BYTES, box
from catgrad.loops.ir.index import Atom, Either, Index, Variable, index, modulo, quotient
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Reduce, Rewriter, Store, Substituted, rewritten
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Scalar, converted, number, unmasked
from catgrad.loops.ir.windows import pixel_number, window
from catgrad.loops.passes.gpu.products.operands import Terms
from catgrad.loops.passes.gpu.products.roles import SHORT
from catgrad.loops.passes.gpu.products.thread_tiles import Side, unflat
from catgrad.loops.passes.gpu.products.tilings import FED_COLUMNS, FED_ROWS
from catgrad.ops.arithmetic import Add, Multiply
from catgrad.types import Dtype

STORED = (Dtype.float32, *SHORT)
"""Dtypes of results whose tiles are stored by tensor maps."""


def warpgroup_product(
    sums: Buffer, axes: Sequence[Variable], factors: Sequence[Scalar], sides: Sequence[Side], terms: Terms
) -> Loop | None:
    """Add the product of all terms to sums with axes for these digits; None if warp groups cannot."""
    rows, columns = sides
    if rows.width != FED_ROWS or columns.width not in FED_COLUMNS:
        return None
    term, places = Variable(terms.depth, "term"), [Variable(side.width, side.name) for side in sides]
    parts = [_part(*each, terms, term) for each in zip(factors, sides, places, strict=True)]
    if None in parts:
        return None
    digits = _own_digits(sides, places)
    both = tuple(converted(part, sums.type.dtype) for part in parts if part)
    product = Compute(Multiply(), sums.type.dtype, both)
    body: list[Item] = [Accumulate(sums, tuple(digits[v] for v in axes), Add(), product)]
    for variable in (term, *reversed(places)):
        body = [Loop(variable, body, axis=Axis.WARPGROUP)]
    [loop] = body
    assert isinstance(loop, Loop)
    return loop


def warpgroup_store(sums: Buffer, axes: Sequence[Variable], r: Reduce, sides: Sequence[Side]) -> Loop | None:
    """Store the sums of a tile by boxes of the result; None if no tensor map can describe it."""
    places = [Variable(side.width, side.name) for side in sides]
    row, column = places
    pairs = [*zip(sides, places, strict=True)]
    values = {v: i for side, place in pairs for v, i in side.values(index(place)).items()}
    load = Load(r.buffer, Substituted(values).indices(r.indices))
    ends = tuple(Bounds(index(s.first) + index(place), s.extent, False, True) for s, place in pairs)
    found = box(Masked(ends, load, number(0, load.dtype)), row, column)
    if found is None or not found.by_terms or load.dtype not in STORED:
        return None
    digits = _own_digits(sides, places)
    value = converted(Load(sums, tuple(digits[v] for v in axes)), load.dtype)
    store = Store(load.buffer, load.indices, Masked(ends, value, number(0, load.dtype)))
    return Loop(row, [Loop(column, [store], axis=Axis.WARPGROUP)], axis=Axis.WARPGROUP)


def either(product: Loop, others: Sequence[Item], store: Loop | None = None) -> Loop:
    """Choose between a product of warp groups, perhaps with its store, and the items for other machines."""
    own = Loop(Variable(1, "tile"), [product, store]) if store else product
    return Loop(Variable(1, "machine"), [*others, own], axis=Axis.EITHER)


def elsewhere(items: Sequence[Item]) -> list[Item]:
    """Leave out the versions for warp groups."""
    return rewritten(_without_products(items), _Elsewhere())


def _without_products(items: Sequence[Item]) -> list[Item]:
    done: list[Item] = []
    for item in items:
        if isinstance(item, Loop) and item.axis is Axis.EITHER:
            done += item.body[:-1]
        else:
            done.append(replace(item, body=_without_products(item.body)) if isinstance(item, Loop) else item)
    return done


class _Elsewhere(Rewriter):
    """Choose indices for machines without warp groups."""

    def _atom(self, atom: Atom) -> Index | None:
        return atom.second if isinstance(atom, Either) else super()._atom(atom)


def exchange(sides: Sequence[Side]) -> Mapping[Variable, Index]:
    """Exchange the numbers of a warp and of a strip where warp groups multiply."""
    warp, strip = _exchanged(sides)
    numbers = index(warp), index(strip)
    return {warp: index(Either(*reversed(numbers))), strip: index(Either(*numbers))}


def _exchanged(sides: Sequence[Side]) -> tuple[Variable, Variable]:
    """Return the digit of 16 rows that a thread has one after the other, and that of its warp's columns."""
    rows, columns = sides
    return rows.own[0], columns.threads[0]


def _part(factor: Scalar, side: Side, place: Variable, terms: Terms, term: Variable) -> Scalar | None:
    """Return a factor by its place in a tile and its term, 0 beyond the ends; None if no map describes it.

    Of an image, either places or terms are pixels.
    """
    at, k = index(side.first) + index(place), index(term)
    pixels = pixel_number(at, side.extent, side.width), pixel_number(k, terms.depth, side.width)
    for first, each in ((at, k), (pixels[0], k), (at, pixels[1])):
        values = unflat(side.variables, first) | unflat(terms.variables, each)
        scalar = Substituted(values).scalar(factor)
        ends = [c for c in unmasked(scalar)[0] if term in {*c.index.variables()}]
        is_image = (first, each) != (at, k)
        if ends and not is_image and not _is_whole(terms, scalar):
            continue  # a slice would go on into the next part of the terms
        own = [] if ends and not is_image else [Bounds(k, terms.depth, False, True)]
        part = Masked((Bounds(at, side.extent, False, True), *own), scalar, number(0, scalar.dtype))
        if (window if is_image else box)(part, place, term):
            return part
    return None


def _is_whole(terms: Terms, factor: Scalar) -> bool:
    return isinstance(terms.depth, int) and terms.depth * factor.dtype.itemsize % SLICE_BYTES == 0


def _own_digits(sides: Sequence[Side], places: Sequence[Variable]) -> dict[Variable, Index]:
    """Compute the digits of places in a tile, where warp groups have it."""
    digits = {
        v: modulo(quotient(index(place), weight), v.extent)
        for side, place in zip(sides, places, strict=True)
        for v, weight in side.digits
    }
    warp, strip = _exchanged(sides)
    return digits | {warp: digits[strip], strip: digits[warp]}
