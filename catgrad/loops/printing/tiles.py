"""Print tiles: asynchronous copies to shared memory, and products of such tiles, as one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.boxes import SLICE_BYTES, Box, box
from catgrad.loops.ir.index import ZERO, Index, Variable, index
from catgrad.loops.ir.nest import (
    Accumulate,
    Item,
    Loop,
    Store,
    bound_variables,
    loops,
    perfect_nest,
    size_hint,
    statements,
)
from catgrad.loops.ir.scalar import Load, Masked, Space
from catgrad.loops.ir.windows import operand_boxes
from catgrad.loops.printing.attention import Attention, fed_attention
from catgrad.loops.printing.calls import AttentionFeed, Feed, TensorMap
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.printing.lines import (
    AsynchronousCopy,
    BoxCopies,
    Feeding,
    JoinedRuns,
    Line,
    Move,
    OuterProducts,
    Places,
    RowProduct,
    StoredTile,
    Tile,
    TileProduct,
    WarpgroupProduct,
)
from catgrad.loops.printing.products import pairwise_sum
from catgrad.types import Dtype

MANY_SUMS = 64
"""Sums of a thread that are half of its registers, if two blocks of 256 threads share a multiprocessor."""

STORED_ROWS = 16
"""Rows of a result that a warp stores at once."""

ROW_AXES = 3
"""Axes of threads of registers if warps lie side by side along rows: warps, rows, and columns of a warp."""


def outer_products(here: Expressions, loop: Loop) -> OuterProducts:
    """Print the loop over the terms of a thread's own outer products."""
    [s] = statements(loop.body)
    assert isinstance(s, Accumulate)
    loads = [load for operand in s.scalar.operands for load in operand.loads()]
    left, right = (_places(here, loop, load) for load in loads)
    return OuterProducts(size_hint(loop.variable.extent), here.name_of(s.buffer), left, right)


def _places(here: Expressions, loop: Loop, load: Load) -> Places:
    """Print a thread's own places, which have one stride, or are groups of runs of four."""
    own, at = bound_variables([loop]), load.buffer.flat(load.indices)
    strides = {v: size_hint(at.coefficient(v)) for v in own}
    term = strides.pop(loop.variable)
    places = {v: stride for v, stride in strides.items() if stride}
    stride, *group = sorted(places.values()) or [0]
    count = prod(size_hint(v.extent) for v in places)
    return Places(here.address(load.buffer, at, own), count, term, stride, *group)


def has_large_patches(items: Sequence[Item]) -> bool:
    """Tell whether a thread adds outer products to many registers."""
    added = (statements(loop.body) for loop in loops(items) if loop.axis is Axis.OUTER)
    return any(size_hint(buffer.size) >= MANY_SUMS for each in added for s in each for buffer, _ in s.writes)


def tile_product(here: Expressions, loop: Loop) -> TileProduct | RowProduct:
    """Print the loop over the terms of a product by tensor cores."""
    [s] = statements(loop.body)
    assert isinstance(s, Accumulate)
    *threads, rows, _, columns, _ = map(size_hint, s.buffer.type.shape)
    loads = [load for operand in s.scalar.operands for load in operand.loads()]
    if len(threads) == ROW_AXES:
        sums, first, second = here.name_of(s.buffer), *(_begin(here, load) for load in loads)
        terms, in_registers = size_hint(loop.variable.extent), loads[0].buffer.space is Space.LOCAL
        return RowProduct(loads[1].dtype, sums, first, second, rows, columns, terms, in_registers)
    left, right = (_tile(here, load, loop.variable) for load in loads)
    return TileProduct(loads[0].dtype, here.name_of(s.buffer), left, right, rows, columns)


def joined_runs(here: Expressions, loop: Loop) -> JoinedRuns:
    """Print the loops of an exchange of sums between neighbouring threads."""
    [s] = statements(loop.body)
    assert isinstance(s, Store)
    [(sums, _)] = s.reads
    return JoinedRuns(here.name_of(s.buffer), here.name_of(sums), _rounded(s))


def move(here: Expressions, loop: Loop) -> Move:
    """Print the loop over neighbouring elements that one instruction loads or stores."""
    [s] = statements(loop.body)
    assert isinstance(s, Store)
    [load] = [s.scalar] if isinstance(s.scalar, Load) else s.scalar.operands
    assert isinstance(load, Load)
    is_load = s.buffer.space is Space.LOCAL
    registers, memory = (s, load) if is_load else (load, s)
    name = here.name_of(registers.buffer)
    address = here.address(memory.buffer, memory.buffer.flat(memory.indices), (loop.variable,))
    return Move(*((name, address) if is_load else (address, name)), is_load, _rounded(s))


def _rounded(s: Store) -> Dtype | None:
    """Return the dtype to which an element is rounded, if it is."""
    return None if isinstance(s.scalar, Load) else s.buffer.type.dtype


def _tile(here: Expressions, load: Load, term: Variable) -> Tile:
    return Tile(_begin(here, load), load.indices[-1].coefficient(term) == 1)


def _begin(here: Expressions, load: Load) -> str:
    """Print the address of a stage of tiles, or of registers."""
    if load.buffer.space is Space.LOCAL:
        return here.name_of(load.buffer)
    return here.address(load.buffer, load.buffer.flat((load.indices[0], ZERO, ZERO)))


def warpgroup_product(here: Expressions, loop: Loop, stays: bool) -> WarpgroupProduct:
    """Print the loops of a product of warp groups, which a block may compute several of."""
    (_, column, term), [s] = perfect_nest([loop])
    assert isinstance(s, Accumulate)
    left, right = (each for each, _ in operand_boxes(loop))
    dtype = left.buffer.type.dtype
    sizes, terms = (size_hint(column.extent), SLICE_BYTES // dtype.itemsize), here.size(term.extent)
    by_terms = left.by_terms, right.by_terms
    return WarpgroupProduct(dtype, here.name_of(s.buffer), *sizes, by_terms, terms, stays)


def feeding(
    here: Expressions, fresh: Callable[[str], str], tile: Loop, product: Loop, stays: bool
) -> Feeding:
    """Print what a producer does for a tile of the grid."""
    conditions = tuple(map(here.condition, tile.conditions))
    line, (*_, term) = warpgroup_product(here, product, stays), perfect_nest([product])[0]
    begin = Variable(term.extent, "begin", line.slice)
    here.variables[begin] = fresh(begin.name)
    several = [not each.by_terms and place.extent > line.slice for each, place in operand_boxes(product)]
    box = fresh("box") if any(several) else ""
    copies = (
        _copies(here, each, place, {term: index(begin)}, line.slice, box if is_several else "")
        for (each, place), is_several in zip(operand_boxes(product), several, strict=True)
    )
    return Feeding(line, conditions, here.variables[begin], *copies)


def _copies(
    here: Expressions, each: Box, place: Variable, begin: Mapping[Variable, Index], slice: int, box: str
) -> BoxCopies:
    """Print the copies of a slice of an operand: of all places, or of as many as a box has, one by one."""
    at = Variable(place.extent, "box", slice)
    here.variables[at] = box
    values = {**begin, place: index(at) if box else ZERO}
    first = tuple(here.index(d.index.substitute(values)) for d in each.dimensions)
    offsets = tuple(here.index(p.offset.substitute(values)) for p in each.pixels)
    return BoxCopies(first, offsets, box, size_hint(place.extent))


def fed_lines(here: Expressions, loop: Loop, stays: bool) -> tuple[Line, ...]:
    """Print what warp groups do: a product, and perhaps its store."""
    product, *stores = [loop] if loop.axis is Axis.WARPGROUP else loop.body
    assert isinstance(product, Loop)
    lines: list[Line] = [line := warpgroup_product(here, product, stays)]
    for places, [s] in map(perfect_nest, [[store] for store in stores]):
        assert isinstance(s, Store)
        begin = dict.fromkeys(places, ZERO)
        first = tuple(here.index(d.index.substitute(begin)) for d in _stored_box(places, s).dimensions)
        lines.append(StoredTile(s.buffer.type.dtype, line, first))
    return tuple(lines)


def fed_product(items: Sequence[Item]) -> Loop | None:
    """Find the loops of a product of warp groups, but not of attention."""
    found = (loop for loop in loops(items) if loop.axis is Axis.WARPGROUP)
    return None if fed_attention(items) else next(found, None)


def feed(here: Expressions, items: Sequence[Item]) -> Feed | AttentionFeed | None:
    """Print the maps of the operands that the warp groups of a kernel multiply, if they do."""
    attention, product = fed_attention(items), fed_product(items)
    if attention:
        fed = Attention(attention)
        maps = tuple(_tensor_map(here, each.tile, each.place) for each in fed.operands)
        return AttentionFeed(fed.heads, maps)
    if product is None:
        return None
    left, right = operand_boxes(product)
    maps = _tensor_map(here, *left), _tensor_map(here, *right)
    nests = (perfect_nest([loop]) for loop in loops(items) if loop.axis is Axis.WARPGROUP)
    stored = next((_stored_box(v, s) for v, [s] in nests if len(v) == 2 and isinstance(s, Store)), None)
    result = _tensor_map(here, stored, Variable(STORED_ROWS)) if stored else None
    return Feed(size_hint(right[1].extent), maps, result)


def _stored_box(places: Sequence[Variable], s: Store) -> Box:
    """Return the box of the result that a tile is stored to."""
    assert isinstance(s.scalar, Masked)
    scalar = replace(s.scalar, inside=Load(s.buffer, s.indices))
    found = box(scalar, *places)
    assert found
    return found


def _tensor_map(here: Expressions, each: Box, place: Variable) -> TensorMap:
    sizes, strides = (
        tuple(map(here.size, all)) for all in zip(*((d.size, d.stride) for d in each.dimensions), strict=True)
    )
    dtype = each.buffer.type.dtype
    places = size_hint(place.extent) if each.by_terms else SLICE_BYTES // dtype.itemsize
    first = here.address(each.buffer, Index((), each.offset))
    corners = zip(*((p.lower, p.upper, p.step) for p in each.pixels), strict=True)
    return TensorMap(dtype, first, sizes, strides[1:], places, *corners)


def asynchronous_copy(here: Expressions, loop: Loop) -> AsynchronousCopy:
    """Print the loop over neighbouring elements that one instruction copies."""
    [s] = statements(loop.body)
    assert isinstance(s, Store)
    every = s.scalar.conditions if isinstance(s.scalar, Masked) else ()
    load = s.scalar.inside if isinstance(s.scalar, Masked) else s.scalar
    assert isinstance(load, Load)
    own, bytes = (loop.variable,), size_hint(loop.variable.extent) * load.dtype.itemsize
    target = here.address(s.buffer, s.buffer.flat(s.indices), own)
    source = here.address(load.buffer, load.buffer.flat(load.indices), own)
    partial = [c for c in every if loop.variable in c.index.variables()]
    conditions = tuple(here.condition(c) for c in every if c not in partial)
    places = [here.index(c.index.substitute({loop.variable: ZERO})) for c in partial]
    within = (places[0], here.size(partial[0].size)) if partial else None
    return AsynchronousCopy(load.dtype, bytes, target, source, conditions, within)


WHOLE: Mapping[Axis, Callable[[Expressions, Loop], Line]] = {
    Axis.OUTER: outer_products,
    Axis.TENSOR: tile_product,
    Axis.LANES: joined_runs,
    Axis.PAIRWISE: pairwise_sum,
    Axis.COPY: asynchronous_copy,
    Axis.MOVE: move,
}
"""Prints loops of these kinds as one line."""
