"""Print statements over whole axes: matrix products, whose operands have nested axes, sums, sorts, copies."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.dims import Size, product
from catgrad.loops.ir.index import Index, Variable, nested_axes, stride
from catgrad.loops.ir.nest import Accumulate, Loop, MatMul, Sort, Store, own_variables, statements
from catgrad.loops.ir.scalar import Load
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.printing.lines import Copy, Line, NestedAxes, PairwiseSum, Product, Sorting
from catgrad.printing.dialect import Text


def matrix_product(here: Expressions, s: MatMul, packed: Size, parallel: bool) -> Product:
    """Print a matrix product, which packs operands at an offset in the scratch memory."""
    left, right, target = (x.buffer.flat(x.indices) for x in (s.left, s.right, s))
    own = own_variables(s)
    return Product(
        s.left.dtype,
        tuple(_extent(here, group) for group in (s.rows, s.columns, s.depth)),
        (here.address(s.left.buffer, left, own), _axes(here, left, s.rows), _axes(here, left, s.depth)),
        (
            here.address(s.right.buffer, right, own),
            _axes(here, right, s.depth),
            _axes(here, right, s.columns),
        ),
        (here.address(s.buffer, target, own), here.size(target.coefficient(s.rows[-1]))),
        s.add,
        here.size(packed),
        parallel,
        here.name_of(s.packed.buffer) if s.packed else "",
    )


def equation(here: Expressions, s: MatMul) -> str:
    """Print a matrix product as an equation, for a comment."""
    names = [here.name_of(buffer) for buffer in (s.buffer, s.left.buffer, s.right.buffer)]
    sizes = [_extent(here, group) for group in (s.rows, s.depth, s.columns)]
    return here.dialect.macros["equation"](names, sizes, s.add)


def sorting(here: Expressions, s: Sort) -> Sorting:
    """Print an argsort."""
    own, keys, places = (s.along,), s.keys.buffer.flat(s.keys.indices), s.buffer.flat(s.indices)
    return Sorting(
        s.keys.dtype,
        here.size(s.along.extent),
        (here.address(s.keys.buffer, keys, own), here.size(keys.coefficient(s.along))),
        (here.address(s.buffer, places, own), here.size(places.coefficient(s.along))),
        s.descending,
    )


def pairwise_sum(here: Expressions, loop: Loop) -> PairwiseSum:
    """Print a loop that adds up the elements of a vector in pairs."""
    [s] = statements(loop.body)
    assert isinstance(s, Accumulate) and isinstance(s.scalar, Load)
    array, at = s.scalar.buffer, s.scalar.buffer.flat(s.scalar.indices)
    total, address = here.target(s.buffer, s.indices), here.address(array, at, (loop.variable,))
    return PairwiseSum(total, s.scalar.dtype, address)


def copied(here: Expressions, loop: Loop) -> list[Line] | None:
    """Print a loop that only copies contiguous elements."""
    copies: list[Line] = []
    length = here.size(loop.variable.extent)
    for s in loop.body:
        if not (isinstance(s, Store) and isinstance(s.scalar, Load)):
            return None
        source, own = s.scalar.buffer, (loop.variable,)
        if s.buffer.is_register or source.is_register or s.buffer.home is source.home:
            return None
        to, at = s.buffer.flat(s.indices), source.flat(s.scalar.indices)
        if stride(to, loop.variable) != 1 or stride(at, loop.variable) != 1:
            return None
        begins = here.address(s.buffer, to, own), here.address(source, at, own)
        copies.append(Copy(s.buffer.type.dtype, *begins, length))
    return copies


def _extent(here: Expressions, group: Sequence[Variable]) -> Text:
    """Count the values of an axis that is nested axes."""
    return here.size(product(tuple(v.extent for v in group)))


def _axes(here: Expressions, place: Index, group: Sequence[Variable]) -> NestedAxes:
    """Print the sizes and strides of nested axes."""
    return tuple((here.size(extent), here.size(stride)) for extent, stride in nested_axes(place, group))
