"""Sums, extrema and other reductions over axes; running sums; sorting."""

from __future__ import annotations

from collections.abc import Callable

from catgrad import ops
from catgrad.frontends.onnx.operators.operands import axis_of, fixed, full, numbers_in
from catgrad.frontends.onnx.registry import onnx
from catgrad.ops.power import root
from catgrad.ops.shape import normalised
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype

Reduction = Callable[[Var, tuple[int, ...]], Var]


def reduced(function: Reduction, x: Var, axes: tuple[int, ...], keepdims: int) -> Var:
    """Reduce over axes, which keep size 1 if they are kept."""
    y = function(x, axes)
    return ops.reshape(y, *(1 if k in axes else n for k, n in enumerate(x.shape))) if keepdims else y


def _reduction(name: str, function: Reduction, since: tuple[int, ...]) -> None:
    @onnx(name, since=since, static="axes")
    def reduce(x: Var, axes: Array | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Var:
        chosen = () if axes is None else numbers_in(axes)
        if not chosen and noop_with_empty_axes:
            return function(x, ())
        return reduced(function, x, normalised(chosen or None, x.type.rank), keepdims)


def _log_sum_exp(x: Var, axes: tuple[int, ...]) -> Var:
    for axis in reversed(axes):
        x = ops.logsumexp(x, axis)
    return x


def _extremum(function: Reduction, of_truth: Reduction) -> Reduction:
    def reduce(x: Var, axes: tuple[int, ...]) -> Var:
        if not axes:
            return x
        return of_truth(x, axes) if x.dtype is Dtype.bool else function(x, axes)

    return reduce


def _mean(x: Var, axes: tuple[int, ...]) -> Var:
    if x.dtype.is_floating:
        return ops.mean(x, axes)
    return ops.cast(ops.mean(ops.cast(x, Dtype.float64), axes), x.dtype)


_BOTH, _SUM = (13, 18), (13,)
for _name, _function, _since in (
    ("ReduceSum", ops.sum, _SUM),
    ("ReduceMean", _mean, _BOTH),
    ("ReduceProd", lambda x, axes: ops.prod(x, axes) if axes else x, _BOTH),
    ("ReduceMax", _extremum(ops.max, ops.any), (13, 18, 20)),
    ("ReduceMin", _extremum(ops.min, ops.all), (13, 18, 20)),
    ("ReduceL1", lambda x, axes: ops.sum(ops.absolute(x), axes), _BOTH),
    ("ReduceL2", lambda x, axes: root(ops.sum(ops.square(x), axes)), _BOTH),
    ("ReduceSumSquare", lambda x, axes: ops.sum(ops.square(x), axes), _BOTH),
    ("ReduceLogSum", lambda x, axes: ops.log(ops.sum(x, axes)), (*_BOTH, 28)),
    ("ReduceLogSumExp", _log_sum_exp, (*_BOTH, 28)),
):
    _reduction(_name, _function, _since)


def _place(name: str, function: Callable[[Var, int], Var]) -> None:
    @onnx(name, since=13)
    def place(x: Var, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Var:
        axis = axis_of(x, axis)
        y = ops.cast(function(ops.flip(x, axis) if select_last_index else x, axis), Dtype.int64)
        if select_last_index:
            last = ops.number_of(x.shape[axis] - 1, Dtype.int64)
            y = ops.broadcast(last, y.shape) - y
        return ops.expand_dims(y, axis) if keepdims else y


_place("ArgMax", ops.argmax)
_place("ArgMin", ops.argmin)


def _running(name: str, function: Callable[[Var, int], Var], begin: float, since: tuple[int, ...]) -> None:
    @onnx(name, since=since, static="axis")
    def running(x: Var, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Var:
        (place,) = numbers_in(axis)
        place = axis_of(x, place)
        x = ops.flip(x, place) if reverse else x
        if exclusive:
            sizes = tuple(n - 1 if k == place else n for k, n in enumerate(x.shape))
            first = tuple(1 if k == place else n for k, n in enumerate(x.shape))
            zeros = (0,) * x.type.rank
            x = ops.concat([full(ops.slice(x, zeros, first), begin), ops.slice(x, zeros, sizes)], place)
        y = function(x, place)
        return ops.flip(y, place) if reverse else y


_running("CumSum", ops.cumsum, 0, (11, 14))
_running("CumProd", ops.cumprod, 1, (26,))


@onnx("TopK", since=(11, 24), static="k")
def top_k(x: Var, k: Array, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Var, Var]:
    """Return the k greatest, or least, elements along an axis in order, and their indices."""
    (count,) = fixed(numbers_in(k), "the number of elements")
    values, indices = ops.top_k(x, count, axis, bool(largest))
    return values, ops.cast(indices, Dtype.int64)
