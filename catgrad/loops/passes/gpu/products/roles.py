"""Matrix products among reductions: which variables count rows, columns, products and sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.dims import product
from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Item, Loop, Reduce, size_hint
from catgrad.loops.ir.scalar import Compute, Masked, Scalar, number
from catgrad.loops.machine import Machine
from catgrad.ops.arithmetic import Add, Multiply
from catgrad.ops.cast import Cast
from catgrad.types import Dtype

MIN_TILED_WORK = 2**15
"""Multiplications of a product that is worth tiles in shared memory."""

MIN_TILED_EXTENT = 8
"""Rows, columns and terms that are worth tiles."""

SHORT = (Dtype.bfloat16, Dtype.float16)
"""Dtypes of factors that tensor cores multiply exactly, and add up in float32."""


@dataclass(frozen=True)
class MatrixProduct:
    """target[batch, rows, columns] = Σ left[batch, rows, sums] · right[batch, sums, columns]."""

    reduce: Reduce
    batch: tuple[Variable, ...]
    rows: tuple[Variable, ...]
    columns: tuple[Variable, ...]
    left: Scalar
    right: Scalar

    @property
    def turned(self) -> MatrixProduct:
        """The transposed product: columns are its rows."""
        return MatrixProduct(
            self.reduce, self.batch, self.columns, self.rows, left=self.right, right=self.left
        )

    @property
    def sums(self) -> tuple[Variable, ...]:
        """The variables that are summed over."""
        return self.reduce.axes

    @property
    def factor_dtype(self) -> Dtype:
        """The dtype of the factors: a short one, if both were converted from it."""
        short = (d for d in SHORT if all(narrowed(f, d) for f in (self.left, self.right)))
        return next(short, self.reduce.scalar.dtype)

    def tensor_products(self, machine: Machine) -> int:
        """Count the products of tensor cores for each of the sum; 0 if they do not multiply the factors."""
        dtype = self.factor_dtype
        return 1 if dtype in SHORT else machine.gpu.tensor_floats if dtype is Dtype.float32 else 0

    def is_by_terms(self, factor: Scalar, places: Sequence[Variable]) -> bool:
        """Tell whether neighbouring terms of a factor lie side by side, and none of its places."""
        return _is_contiguous(factor, self.sums) and not _is_contiguous(factor, places)

    def is_on_tensor_cores(self, machine: Machine) -> bool:
        """Tell whether tensor cores multiply the factors."""
        return self.tensor_products(machine) > 0


def matrix_product(free: Sequence[Variable], reduce: Reduce) -> MatrixProduct | None:
    """Recognise a sum of products whose factors depend on different free variables, if it is large."""
    s = reduce.scalar
    if not isinstance(reduce.op, Add) or not isinstance(s, Compute) or not isinstance(s.op, Multiply):
        return None
    if s.dtype not in (Dtype.float32, Dtype.float64) or any(v.step != 1 for v in reduce.axes):
        return None
    left, right = s.operands
    rows = tuple(v for v in free if v in left.variables and v not in right.variables)
    columns = tuple(v for v in free if v in right.variables and v not in left.variables)
    if columns and rows and max(map(free.index, rows)) > max(map(free.index, columns)):
        left, right, rows, columns = right, left, columns, rows  # the innermost variable counts columns
    batch = tuple(v for v in free if v not in rows and v not in columns)
    sizes = [count(group) for group in (rows, columns, reduce.axes)]
    if min(sizes) < MIN_TILED_EXTENT or count((*free, *reduce.axes)) < MIN_TILED_WORK:
        return None
    return MatrixProduct(reduce, batch, rows, columns, left, right)


def product_nest(item: Item) -> MatrixProduct | None:
    """Recognise a perfect nest around a matrix product, and perhaps statements after it."""
    free: list[Variable] = []
    while isinstance(item, Loop):
        free.append(item.variable)
        first, *rest = item.body
        if rest and (isinstance(first, Loop) or any(isinstance(each, (Loop, Reduce)) for each in rest)):
            return None
        item = first
    return matrix_product(free, item) if isinstance(item, Reduce) else None


def count(variables: Sequence[Variable]) -> int:
    """Estimate the number of iterations of loops over variables."""
    return size_hint(product(tuple(v.extent for v in variables)))


def narrowed(scalar: Scalar, dtype: Dtype) -> Scalar | None:
    """Return a scalar in the shorter dtype that it was converted from, if it was."""
    if isinstance(scalar, Masked):
        inside = narrowed(scalar.inside, dtype)
        return Masked(scalar.conditions, inside, number(0, dtype)) if inside else None
    if isinstance(scalar, Compute) and isinstance(scalar.op, Cast) and scalar.operands[0].dtype is dtype:
        return scalar.operands[0]
    return None


def _is_contiguous(factor: Scalar, variables: Sequence[Variable]) -> bool:
    """Tell whether neighbours along some variable lie side by side."""
    places = [load.buffer.flat(load.indices) for load in factor.loads()]
    return any(place.coefficient(v) == 1 for place in places for v in variables)
