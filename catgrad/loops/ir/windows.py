"""Windows of images as boxes of a tensor map (im2col): pixels one after the other, channels side by side.

A factor of a convolution has pixels among its places and offsets in a window among its terms, or the other
way round. A box has pixels of a row, of the next one and of the next image, each at the same offset in its
window, with zeros beyond the ends of the image:

    x[n, step · h + k - padding, step · w + l - padding, c]     for a run of n·h·w, a k, an l, and a run of c
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catgrad.dims import Size, divided
from catgrad.loops.ir.boxes import MAP_BYTES, SLICE_BYTES, Box, Dimension, Pixels, box, is_mapped
from catgrad.loops.ir.index import (
    ZERO,
    Atom,
    Index,
    Modulo,
    Quotient,
    Read,
    Variable,
    extent,
    index,
    is_natural,
    modulo,
    quotient,
    split_below,
)
from catgrad.loops.ir.nest import Accumulate, Loop, perfect_nest
from catgrad.loops.ir.scalar import Bounds, Compute, IndexValue, Load, Scalar, unmasked
from catgrad.types import Dtype

CORNERS, OFFSETS, STEPS = range(-128, 128), 2**8, 8
"""Corners of a box of pixels that a tensor map can have, its offsets in a window, and the greatest step."""

AXES = 4
"""Axes of an image: channels, columns and rows of pixels, and images of a batch."""


def pixel_number(place: Index, count: Size, beyond: int) -> Index:
    """Number a pixel, which may be `beyond` the last one, such that the digits are not simplified."""
    return index(Read(IndexValue(place, Dtype.int64), count + beyond))


def operand_boxes(loop: Loop) -> Iterator[tuple[Box, Variable]]:
    """Yield the operands of a product of warp groups, each as boxes of places that a variable counts."""
    (row, column, term), [s] = perfect_nest([loop])
    assert isinstance(s, Accumulate)
    for operand, place in zip(s.scalar.operands, (row, column), strict=True):
        factor = operand.operands[0] if isinstance(operand, Compute) else operand
        found = box(factor, place, term) or window(factor, place, term)
        assert found
        yield found, place


def window(factor: Scalar, place: Variable, term: Variable) -> Box | None:
    """Describe a factor as boxes of an image; None if no tensor map can."""
    conditions, load = unmasked(factor)
    if not isinstance(load, Load) or not is_mapped(load.buffer) or len(load.buffer.order) != AXES:
        return None
    number, width = _number(load), SLICE_BYTES // load.dtype.itemsize
    if number is None:
        return None
    by_terms, is_whole = place in number.scalar.index.variables(), divided(term.extent, width) is not None
    channel = term if by_terms else place
    in_box = [_in_box(load.indices[axis], channel, width) for axis, _ in load.buffer.strides]
    (channels, *others), sizes = in_box, [load.buffer.type.shape[axis] for axis, _ in load.buffer.strides]
    if [stride for stride, _ in in_box] != [1, 0, 0, 0] or (by_terms and not is_whole):
        return None
    ends = _ends(conditions, load, number, channel)
    found = _digits([at for _, at in others], number, sizes[1:], ends[0].size) if ends else None
    if found is None or ends is None or divided(sizes[0], MAP_BYTES // load.dtype.itemsize) is None:
        return None
    pixels, at, count = found
    if not by_terms and not is_whole and [end.size for end in ends] != [count]:
        return None  # a slice would go on beyond the last pixel of a part
    strides = [stride for _, stride in load.buffer.strides]
    places = zip(sizes, strides, (channels[1], *at), strict=True)
    return Box(load.buffer, 0, by_terms, tuple(Dimension(*each) for each in places), pixels)


def _number(load: Load) -> Read | None:
    """Find the number of a pixel whose digits an element is at."""
    atoms = {each for at in load.indices for atom, _ in at.terms for each in _within(atom)}
    numbers = [each for each in atoms if isinstance(each, Read) and isinstance(each.scalar, IndexValue)]
    return numbers[0] if len(numbers) == 1 else None


def _within(atom: Atom) -> Iterator[Atom]:
    yield atom
    if isinstance(atom, Quotient | Modulo):
        for each, _ in atom.index.terms:
            yield from _within(each)


def _in_box(at: Index, variable: Variable, width: int) -> tuple[Size, Index]:
    """Return the stride of an index along boxes of neighbours, and what it is where they begin.

    The stride is -1 if it has none.
    """
    begin, near = Variable(variable.extent, variable.name, width), Variable(width, "near")

    def split(atom: Atom) -> Index | None:
        if atom is variable:
            return index(begin) + index(near)
        if not isinstance(atom, Quotient | Modulo):
            return None
        low, high = split_below(atom.index.replaced(split), atom.divisor)
        if isinstance(atom, Quotient):
            return quotient(high, atom.divisor)
        return modulo(high, atom.divisor) + low

    found = at.replaced(split)
    first = found - index(near) * found.coefficient(near)
    stride = -1 if near in first.variables() else found.coefficient(near)
    return stride, first.substitute({begin: index(variable)})


def _ends(conditions: Sequence[Bounds], load: Load, number: Read, channel: Variable) -> list[Bounds] | None:
    """Return the conditions that end the pixels; None if there are some but those of channels and axes."""
    axes = [(at, size) for at, size in zip(load.indices, load.buffer.type.shape, strict=True)]
    ends = [c for c in conditions if c.index == number.scalar.index and not c.below]
    others = (c for c in conditions if c not in ends and (c.index, c.size) not in axes)
    return ends if all(c.index.coefficient(channel) == 1 and not c.below for c in others) else None


def _digits(
    axes: Sequence[Index], number: Read, sizes: Sequence[Size], total: Size
) -> tuple[tuple[Pixels, ...], list[Index], Size] | None:
    """Return the pixels of both axes of an image, the indices of all three, and the number of all pixels.

    The number has as many digits as it needs for a `total` of pixels.
    """
    rest, opened = index(number), number.scalar.index
    count: Size = 1
    pixels, at = list[Pixels](), list[Index]()
    *image, (digit, step, base) = (_digit(place, number) for place in axes)
    for (own, apart, offset), size in zip(image, sizes, strict=False):
        across = _count(own, rest, divided(total, count) if isinstance(count, int) else None)
        found = across and _pixels(offset, apart, across, size)
        if not across or not found:
            return None
        pixels.append(found)
        is_last = own == rest and bool(own.terms)
        at.append((opened if is_last else modulo(opened, across)) * apart + found.lower)
        rest, opened = (ZERO, ZERO) if is_last else (quotient(rest, across), quotient(opened, across))
        count = count * across
    if digit not in (rest, ZERO) or step != 1 or not is_natural(base):
        return None
    is_all = base == ZERO and (bool(digit.terms) or sizes[-1] == 1)
    return tuple(pixels), [*at, (opened if digit.terms else ZERO) + base], count * sizes[-1] if is_all else 0


def _count(digit: Index, rest: Index, whole: Size | None) -> int | None:
    """Count the values of the last digit of the rest of a number; None if a digit is none of it."""
    if not digit.terms:
        return 1
    if digit == rest:
        return whole if isinstance(whole, int) else None
    [(atom, _)] = digit.terms
    if isinstance(atom, Modulo) and isinstance(atom.divisor, int) and digit == modulo(rest, atom.divisor):
        return atom.divisor
    return None


def _digit(place: Index, number: Read) -> tuple[Index, Size, Index]:
    """Split the index along an axis into a digit of the number of a pixel, its factor, and what is added."""
    own = [(atom, c) for atom, c in place.terms if number in _within(atom)]
    if len(own) != 1:
        return ZERO, 1, place
    [(atom, step)] = own
    digit = Index(((atom, 1),))
    return digit, step, place - digit * step


def _pixels(base: Index, step: Size, count: int, size: Size) -> Pixels | None:
    """Describe a number of pixels along an axis, a step apart, and offsets in a window from them."""
    reaches = [c * (extent(atom) - 1) for atom, c in base.terms]
    if not isinstance(step, int) or not isinstance(size, int) or not isinstance(base.constant, int):
        return None
    known = [n for n in reaches if isinstance(n, int)]
    lower = base.constant + sum(n for n in known if n < 0)
    upper = lower + step * (count - 1) + 1 - size
    greatest = sum(map(abs, known))
    are_possible = lower in CORNERS and upper in CORNERS and greatest < OFFSETS and 0 < step <= STEPS
    return Pixels(lower, upper, step, base - lower) if are_possible and known == reaches else None
