"""Assignment by index: of several elements with one index, the last is kept."""

from __future__ import annotations

from catgrad.ops.cast import cast
from catgrad.ops.compare import select
from catgrad.ops.gather import gather, scatter_add
from catgrad.ops.reduce import broadcast
from catgrad.ops.shape import Shape
from catgrad.ops.slices import concat, slice
from catgrad.ops.sort import argsort
from catgrad.ops.take import scatter_add_along_axis, take_along_axis
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

__all__ = ["put", "put_along_axis"]


def put(x: Var, index: Var, rows: Var) -> Var:
    """Replace rows of x: y[index[i]] = rows[i], for the last i of each index; other rows are those of x.

    Type:     (T[n, …], I[m], T[m, …]) -> T[n, …] for numeric T and integer I
    Gradient: dx is 0 in the rows that are replaced; a row that is kept gets that of y
    """
    order = argsort(index, 0)
    places = gather(index, order)
    kept = _ends_of_runs(places, 0)
    zero = zeros_like(rows)
    chosen = select(_wide(kept, rows.shape), gather(rows, order), zero)
    size = x.shape[0]
    replaced = scatter_add(cast(kept, Dtype.int32), places, size) > 0
    return select(_wide(replaced, x.shape), scatter_add(chosen, places, size), x)


def put_along_axis(x: Var, index: Var, values: Var, axis: int) -> Var:
    """Replace elements of x: y[…, index[…, i, …], …] = values[…, i, …], for the last i of each index.

    Type:     (T[…, n, …], I[…, m, …], T[…, m, …]) -> T[…, n, …] for numeric T and integer I
    Gradient: dx is 0 where an element is replaced; a value that is kept gets the element of dy
    """
    order = argsort(index, axis)
    places = take_along_axis(index, order, axis)
    kept = _ends_of_runs(places, axis)
    chosen = select(kept, take_along_axis(values, order, axis), zeros_like(values))
    size = x.shape[axis]
    replaced = scatter_add_along_axis(cast(kept, Dtype.int32), places, size, axis) > 0
    return select(replaced, scatter_add_along_axis(chosen, places, size, axis), x)


def _ends_of_runs(places: Var, axis: int) -> Var:
    """Return, for sorted indices, whether the next one is another."""
    count = places.shape[axis]
    if count == 0:
        return cast(places, Dtype.bool)
    starts = [int(k == axis) for k in range(places.type.rank)]
    later = slice(places, starts, (*places.shape[:axis], count - 1, *places.shape[axis + 1 :]))
    end = NdArrayType((*places.shape[:axis], 1, *places.shape[axis + 1 :]), places.dtype)
    return places != concat([later, Constant(end, -1)()], axis)


def _wide(condition: Var, shape: Shape) -> Var:
    """Broadcast a condition on rows to all elements."""
    return broadcast(condition, shape, range(1, len(shape)))
