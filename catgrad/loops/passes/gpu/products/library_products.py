"""Strided batches of matrix products, as libraries compute them: rows or columns are contiguous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from catgrad.dims import Size, coefficients, product
from catgrad.loops.ir.index import ZERO, Index, Variable, index
from catgrad.loops.ir.nest import MatMul, Substituted, size_hint
from catgrad.loops.ir.scalar import Compute, Load, Scalar
from catgrad.loops.ir.steps import Epilogue, For, Product, Step
from catgrad.loops.lowering.contract import Form, Strides, form, joined
from catgrad.loops.passes.gpu.products.epilogues import Tail
from catgrad.loops.passes.gpu.products.roles import MIN_TILED_EXTENT, MatrixProduct
from catgrad.ops.cast import Cast

MIN_LIBRARY_WORK = 2**20
"""Multiplications of products, over a batch, that are worth a call."""

MAX_LOOPED_AXES = 1
"""Axes of a batch that calls are repeated for, beside the one that a call takes."""


def library_product(found: MatrixProduct, tail: Tail | None = None) -> Step | None:
    """Return a matrix product, with the nest after it, as a step for a library; None if it cannot be one.

    Both factors must be arrays of the dtype of the product, whose elements are adjacent along one axis. A
    product that overwrites an argument is none: after an error, no argument changes.
    """
    if tail:
        target = tail.target
        found = replace(found, reduce=replace(found.reduce, buffer=target.buffer, indices=target.indices))
    left, right, buffer = _factor(found.left), _factor(found.right), found.reduce.buffer
    if left is None or right is None or {left.dtype, right.dtype} != {buffer.type.dtype}:
        return None
    if buffer.alias is not None:
        return None
    matrices = _Matrices.of(found, (left, right, Load(buffer, found.reduce.indices)))
    return matrices.step(tail) if matrices and matrices.is_regular() and matrices.is_worth_a_call() else None


def _factor(scalar: Scalar) -> Load | None:
    """Return the element that a factor is, but for a cast to a wider dtype."""
    if isinstance(scalar, Compute) and isinstance(scalar.op, Cast):
        [scalar] = scalar.operands if scalar.operands[0].dtype.wide is scalar.dtype else [scalar]
    return scalar if isinstance(scalar, Load) else None


@dataclass(frozen=True)
class _Matrices:
    """The elements of both factors and of the product, and the variables of these as axes of matrices."""

    loads: tuple[Load, Load, Load]
    variables: Mapping[int, Variable]
    sizes: Mapping[int, Size]
    strides: Mapping[int, Strides]
    form: Form

    @staticmethod
    def of(found: MatrixProduct, loads: tuple[Load, Load, Load]) -> _Matrices | None:
        """Group the axes of a product; None if its strides are not regular."""
        places = [load.buffer.flat(load.indices) for load in loads]
        if not all(map(_is_strided, places)):
            return None
        variables = dict(enumerate((*found.batch, *found.rows, *found.columns, *found.sums)))
        sizes = {label: v.extent for label, v in variables.items() if v.extent != 1}
        strides: dict[int, Strides] = {}
        for label, v in variables.items():
            a, b, c = (place.coefficient(v) for place in places)
            strides[label] = a, b, c
        batch, rows, columns, sums = (
            tuple(label for label, v in variables.items() if v in group)
            for group in (found.batch, found.rows, found.columns, found.sums)
        )
        axes = ((*batch, *rows, *sums), (*batch, *sums, *columns), (*batch, *rows, *columns))
        return _Matrices(loads, variables, sizes, strides, form(*axes, sizes, strides))

    def is_regular(self) -> bool:
        """Tell whether each matrix has adjacent elements along one axis, and no element twice."""
        f, strides = self.form, self.strides
        if f.sums or not (f.m and f.n and f.k):
            return False
        m, n, k = ((group[-1], self._extent(group)) for group in (f.m, f.n, f.k))
        matrices = ((0, m, k), (0, k, m), (1, k, n), (1, n, k), (2, m, n))
        fits = [
            strides[near[0]][side] == 1 and _at_most(near[1], strides[far[0]][side])
            for side, far, near in matrices
        ]
        return (fits[0] or fits[1]) and (fits[2] or fits[3]) and fits[4]

    def is_worth_a_call(self) -> bool:
        """Tell whether there are multiplications enough."""
        f = self.form
        extents = [size_hint(self._extent(group)) for group in (f.m, f.n, f.k, f.outer)]
        work = reduce(lambda x, y: x * y, extents)
        return (
            min(extents[:3]) >= MIN_TILED_EXTENT
            and work >= MIN_LIBRARY_WORK
            and len(f.outer) <= 1 + MAX_LOOPED_AXES
        )

    def _extent(self, group: Sequence[int]) -> Size:
        return product(tuple(self.sizes[label] for label in group))

    def step(self, tail: Tail | None) -> Step | None:
        """Return the product of matrices, within loops over all axes of a batch but the longest."""
        outer = {label: Variable(self.sizes[label], self.variables[label].name) for label in self.form.outer}
        places: dict[int, Index] = {label: ZERO for label in self.variables if label not in self.sizes}
        places |= {label: index(v) for label, v in outer.items()}
        groups = ((self.form.m, "m"), (self.form.n, "n"), (self.form.k, "k"))
        (m, of_m), (n, of_n), (k, of_k) = (joined(group, self.sizes, name) for group, name in groups)
        places |= of_m | of_n | of_k
        change = Substituted({self.variables[label]: place for label, place in places.items()})
        left, right, target = map(change.load, self.loads)
        matmul = MatMul(target.buffer, target.indices, left, right, (m,), (n,), (k,))
        by_length = sorted(outer.values(), key=lambda v: size_hint(v.extent))
        batch = tuple(by_length[-1:])
        epilogue = _epilogue(tail, change, matmul, batch) if tail else Epilogue()
        if epilogue is None:
            return None
        step: Step = Product(batch, (), matmul, epilogue)
        for v in by_length[:-1]:
            step = For(v, False, [step])
        return step


def _epilogue(tail: Tail, change: Substituted, s: MatMul, batch: Sequence[Variable]) -> Epilogue | None:
    """Return what follows a product, if at most one matrix and one vector for all rows are added."""
    addends, biases = list[Load](), list[Load]()
    [m], [n] = s.rows, s.columns
    for load in map(change.load, tail.terms):
        place = load.buffer.flat(load.indices)
        if not _is_strided(place) or place.coefficient(n) != 1:
            return None
        if all(place.coefficient(v) == 0 for v in (m, *batch)):
            biases.append(load)
        elif _at_most(n.extent, place.coefficient(m)):
            addends.append(load)
        else:
            return None
    if len(addends) > 1 or len(biases) > 1:
        return None
    return Epilogue(next(iter(addends), None), next(iter(biases), None), tail.relu)


def _is_strided(place: Index) -> bool:
    return all(isinstance(atom, Variable) for atom, _ in place.terms)


def _at_most(a: Size, b: Size) -> bool:
    """Prove that a size is at most another, whatever the symbols are."""
    first, second = coefficients(a), coefficients(b)
    return all(first.get(monomial, 0) <= second.get(monomial, 0) for monomial in first | second)
