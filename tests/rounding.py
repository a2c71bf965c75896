"""Monte Carlo arithmetic: how far rounding may move each result of a program.

A program is run several times, and each rounded result is perturbed at random, within the error of another
order of additions or another library's function. Elements that hardly change are well-conditioned: every
target must return them. Others, such as the comparison of two sums that are equal up to rounding, cannot be
compared.

Source: Parker 1997, Monte Carlo arithmetic: exploiting randomness in floating-point arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from catgrad.functors import Expand
from catgrad.ops.arithmetic import Add, Multiply, Subtract
from catgrad.ops.compare import Select
from catgrad.ops.contract import Contract
from catgrad.ops.control import Cond
from catgrad.ops.cumulative import CumSum
from catgrad.ops.gather import ScatterAdd
from catgrad.ops.reduce import Broadcast, Sum
from catgrad.ops.scan import Scan
from catgrad.ops.shape import Permute, Reshape
from catgrad.ops.take import ScatterAddAlongAxis
from catgrad.ops.window import Fold
from catgrad.programs.passes.prune import prune
from catgrad.programs.program import Function, bind_symbols, straighten
from catgrad.terms.op import Op
from catgrad.terms.structural import Copy, Label
from catgrad.terms.term import Term
from catgrad.types import Array, Dtype, NdArrayType, widened

SUMS = (Sum, CumSum, Contract, ScatterAdd, ScatterAddAlongAxis, Fold)
"""Operations that sum in any order: their error is relative to the sum of absolute values."""
MOVES = (Copy, Label, Reshape, Permute, Broadcast, Select)
"""Operations between a product and a sum that compilers contract to one instruction."""
UNITS = 8
"""Units in the last place by which results of one operation may differ."""
RUNS = 4


def spread(term: Term, *arrays: Array) -> list[Array]:
    """Bound the error of each element of each result; infinite if it is ill-conditioned."""
    function = prune(straighten(Expand()(term)))
    runs = [run(function, arrays) for run in (_Exact(), *map(_Run, range(RUNS)))]
    return [_spread(np.stack(each)) for each in zip(*runs, strict=True)]


def values(term: Term, *arrays: Array) -> list[Array]:
    """Evaluate all intermediate values of a term, also in loops and branches."""
    run = _Exact()
    run(prune(straighten(Expand()(term))), arrays)
    return [*arrays, *run.seen]


def _spread(runs: Array) -> Array:
    if runs.dtype.kind not in "fV":
        return np.where((runs == runs[:1]).all(axis=0), 0.0, np.inf)
    runs = runs.astype(np.float64)
    with np.errstate(all="ignore"):
        same = ((runs == runs[:1]) | (np.isnan(runs) & np.isnan(runs[:1]))).all(axis=0)
        return np.where(same, 0.0, np.nan_to_num(np.ptp(runs, axis=0), nan=np.inf, posinf=np.inf))


def needs_what_fails(term: Term, *arrays: Array) -> bool:
    """Tell whether a result depends on operations that raise an IndexError."""
    function = straighten(term)
    zeros, ones = (_Filled(number)(function, arrays) for number in (0, 1))
    return not all(map(_are_same, zeros, ones))


def _are_same(x: Array, y: Array) -> bool:
    return np.array_equal(widened(x), widened(y), equal_nan=x.dtype.kind in "fV")


class _Run:
    """One run of a function, with roundings drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.unsure = (np.inf, -np.inf, np.nan)[seed % 3]
        self.side = (-1, 0, 1)[seed % 3]

    def __call__(self, function: Function, arrays: Sequence[Array]) -> list[Array]:
        sizes = bind_symbols(function.argument_types, [a.shape for a in arrays])
        return self._function(function.substitute(sizes), arrays)

    def _function(self, function: Function, arrays: Sequence[Array]) -> list[Array]:
        values: dict[int, Array] = dict(zip(function.arguments, map(np.asarray, arrays), strict=True))
        products: set[int] = set()
        with np.errstate(all="ignore"):
            for op, inputs, outputs in function.body:
                given = [values[v] for v in inputs]
                if isinstance(op, (Add, Subtract)):
                    given = [
                        self._unrounded(a) if v in products else a for v, a in zip(inputs, given, strict=True)
                    ]
                if isinstance(op, Multiply) or (isinstance(op, MOVES) and not products.isdisjoint(inputs)):
                    products.update(outputs)
                results = self._results(op, given)
                for value, result in zip(outputs, results, strict=True):
                    values[value] = self._rounded(np.asarray(result), function.types[value].dtype)
        return [values[value] for value in function.results]

    def _results(self, op: Op, given: list[Array]) -> Sequence[Any]:
        if isinstance(op, Scan):
            return self._scan(op, straighten(op.block.term), given)
        if isinstance(op, Cond):
            return self._function(straighten((op.then if given[0] else op.otherwise).term), given[1:])
        result = op.compute(*given)
        if isinstance(result, tuple):
            return result  # only what moves elements has several
        return [self._moved(op, given, np.asarray(result))]

    def _scan(self, op: Scan, body: Function, given: list[Array]) -> list[Array]:
        carry, rows, constants = op.parts(given)
        types = op.outputs(*(NdArrayType(a.shape, _dtype(a)) for a in given))[op.carried :]
        stacks = [np.zeros(t.shape, t.dtype.numpy) for t in types]
        for t in reversed(range(op.length)) if op.backwards else range(op.length):
            results = self._function(body, (*carry, *(row[t] for row in rows), *constants))
            carry = tuple(results[: op.carried])
            for stack, y in zip(stacks, results[op.carried :], strict=True):
                stack[t] = y
        return [*carry, *stacks]

    def _moved(self, op: Op, given: list[Array], result: Array) -> Array:
        """Perturb a result at random where it is rounded, in float64."""
        dtypes = [_dtype(a) for a in given if a.dtype.kind in "fV"]
        if result.dtype.kind in "biu" or not dtypes:
            return result
        dtype = dtypes[0]
        exact = [widened(a).astype(np.float64) if a.dtype.kind in "fV" else a for a in given]
        true = np.asarray(op.ref(*exact), np.float64)
        unit = float(dtype.limits.eps) * UNITS
        size = np.where((true == result) | np.isnan(true), 0.0, np.abs(true))
        if isinstance(op, SUMS):
            absolute = [np.abs(a) for a in exact[: 2 if isinstance(op, Contract) else 1]]
            weight = np.asarray(op.ref(*absolute, *exact[len(absolute) :]), np.float64)
            whole = all(np.all(a == np.rint(a)) for a in absolute)
            size = np.where(whole & (weight < 1 / unit), size, weight)
            # Where absolute values overflow, partial sums may, in some order.
            limit = float(dtype.wide.limits.max)
            unsure = np.isfinite(true) & (weight > limit) | _is_factored(op, exact)
            result = np.where(unsure, self.unsure, widened(result).astype(np.float64))
        wide = widened(result).astype(np.float64)
        return wide + np.nan_to_num(size * unit, posinf=0.0) * self.rng.uniform(-1, 1, result.shape)

    def _unrounded(self, product: Array) -> Array:
        """Perturb a product as a fused multiply-add may, which does not round it."""
        if product.dtype.kind not in "fV":
            return product
        dtype = _dtype(product)
        return self._rounded(widened(product) * (1 + self.side * float(dtype.limits.eps)), dtype)

    def _rounded(self, array: Array, dtype: Dtype) -> Array:
        return array.astype(dtype.numpy)


class _Exact(_Run):
    """A run without perturbation, which records every value."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.seen: list[Array] = []

    def _moved(self, op: Op, given: list[Array], result: Array) -> Array:
        return result

    def _unrounded(self, product: Array) -> Array:
        return product

    def _rounded(self, array: Array, dtype: Dtype) -> Array:
        self.seen.append(super()._rounded(array, dtype))
        return self.seen[-1]


class _Filled(_Exact):
    """A run in which operations that fail return one number everywhere."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def _results(self, op: Op, given: list[Array]) -> Sequence[Any]:
        try:
            return super()._results(op, given)
        except IndexError:
            types = op.outputs(*(NdArrayType(a.shape, _dtype(a)) for a in given))
            return [np.full(type.shape, self.number, type.dtype.numpy) for type in types]


def _is_factored(op: Op, given: Sequence[Array]) -> Array | bool:
    """Mark sums of products that are NaN unless an infinite factor is taken out: 0 · ∞ or ∞ - ∞."""
    if not isinstance(op, Contract):
        return False
    x, y = given

    def terms(left: Array, right: Array) -> Array:
        return op.ref(left.astype(np.float64), right.astype(np.float64))

    def infinite(sign: int) -> Array:
        """Mark sums with an infinite term of this sign."""
        sides = [(x == a * np.inf, sign * a * y > 0) for a in (1, -1)]
        others = [(sign * a * x > 0, y == a * np.inf) for a in (1, -1)]
        return np.sum([terms(*pair) for pair in (*sides, *others)], axis=0) > 0

    undefined = terms(np.isinf(x), y == 0) + terms(x == 0, np.isinf(y)) > 0
    return undefined | infinite(1) & infinite(-1)


def _dtype(array: Array) -> Dtype:
    return Dtype[array.dtype.name]
