"""Library calls: large matrix products with regular strides become steps, which a library computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from catgrad.dims import Size, coefficients, product
from catgrad.loops.ir.index import ZERO, Index, Variable, index
from catgrad.loops.ir.nest import Kernel, MatMul, Substituted, size_hint
from catgrad.loops.ir.scalar import Compute, Load, Scalar
from catgrad.loops.ir.steps import For, Lowered, Step
from catgrad.loops.ir.steps import Product as ProductStep
from catgrad.loops.lowering.contract import Form, Strides, form, joined
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products import MIN_TILED_EXTENT, MatrixProduct, product_nest
from catgrad.ops.cast import Cast

MIN_LIBRARY_WORK = 2**20
"""Multiplications of products, over a batch, that are worth a call."""

MAX_LOOPED_AXES = 1
"""Axes of a batch that calls are repeated for, beside the one that a call takes."""


def call_library(lowered: Lowered, machine: Machine) -> Lowered:
    """Replace kernels of matrix products by steps, where a library can compute them.

    Both factors must be arrays of the dtype of the product, whose elements are adjacent along one axis. A
    product that overwrites an argument remains a kernel: after an error, no kernel changes an argument.
    """
    return lowered.map(lambda steps: list(map(_called, steps)))


def _called(step: Step) -> Step:
    item = step.body[0] if isinstance(step, Kernel) and len(step.body) == 1 else None
    found = None if item is None else product_nest(item)
    if found is None or found.reduce.buffer.alias is not None:
        return step
    left, right, dtype = _factor(found.left), _factor(found.right), found.reduce.buffer.type.dtype
    if left is None or right is None or {left.dtype, right.dtype} != {dtype}:
        return step
    return _as_step(found, left, right) or step


def _factor(scalar: Scalar) -> Load | None:
    """Return the element that a factor is, but for a cast to a wider dtype."""
    if isinstance(scalar, Compute) and isinstance(scalar.op, Cast):
        [scalar] = scalar.operands if scalar.operands[0].dtype.wide is scalar.dtype else [scalar]
    return scalar if isinstance(scalar, Load) else None


def _as_step(found: MatrixProduct, left: Load, right: Load) -> Step | None:
    r = found.reduce
    places = [left.buffer.flat(left.indices), right.buffer.flat(right.indices), r.buffer.flat(r.indices)]
    if not all(isinstance(atom, Variable) for place in places for atom, _ in place.terms):
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
    of = form((*batch, *rows, *sums), (*batch, *sums, *columns), (*batch, *rows, *columns), sizes, strides)
    if not _is_regular(of, sizes, strides) or not _is_worth_a_call(of, sizes):
        return None
    return _built(found, left, right, variables, sizes, of)


def _is_regular(of: Form, sizes: Mapping[int, Size], strides: Mapping[int, Strides]) -> bool:
    """Tell whether each matrix has adjacent elements along one axis, and no element twice."""
    if of.sums or not (of.m and of.n and of.k):
        return False
    m, n, k = ((group[-1], product(tuple(sizes[label] for label in group))) for group in (of.m, of.n, of.k))
    matrices = ((0, m, k), (0, k, m), (1, k, n), (1, n, k), (2, m, n))
    fits = [
        strides[near[0]][side] == 1 and _at_most(near[1], strides[far[0]][side])
        for side, far, near in matrices
    ]
    return (fits[0] or fits[1]) and (fits[2] or fits[3]) and fits[4]


def _at_most(a: Size, b: Size) -> bool:
    """Prove that a size is at most another, whatever the symbols are."""
    first, second = coefficients(a), coefficients(b)
    return all(first.get(monomial, 0) <= second.get(monomial, 0) for monomial in first | second)


def _is_worth_a_call(of: Form, sizes: Mapping[int, Size]) -> bool:
    extents = [
        size_hint(product(tuple(sizes[label] for label in group))) for group in (of.m, of.n, of.k, of.outer)
    ]
    work = reduce(lambda x, y: x * y, extents)
    return (
        min(extents[:3]) >= MIN_TILED_EXTENT
        and work >= MIN_LIBRARY_WORK
        and len(of.outer) <= 1 + MAX_LOOPED_AXES
    )


def _built(
    found: MatrixProduct,
    left: Load,
    right: Load,
    variables: Mapping[int, Variable],
    sizes: Mapping[int, Size],
    of: Form,
) -> Step:
    """Return the product of matrices, within loops over all axes of a batch but the longest."""
    outer = {label: Variable(sizes[label], variables[label].name) for label in of.outer}
    places: dict[int, Index] = {label: ZERO for label in variables if label not in sizes}
    places |= {label: index(v) for label, v in outer.items()}
    groups = ((of.m, "m"), (of.n, "n"), (of.k, "k"))
    (m, of_m), (n, of_n), (k, of_k) = (joined(group, sizes, name) for group, name in groups)
    places |= of_m | of_n | of_k
    change = Substituted({variables[label]: place for label, place in places.items()})
    buffer, indices = found.reduce.buffer, change.indices(found.reduce.indices)
    matmul = MatMul(buffer, indices, change.load(left), change.load(right), m, n, k)
    by_length = _by_length(list(outer.values()))
    step: Step = ProductStep(tuple(by_length[-1:]), (), matmul)
    for v in by_length[:-1]:
        step = For(v, False, [step])
    return step


def _by_length(variables: Sequence[Variable]) -> list[Variable]:
    return sorted(variables, key=lambda v: size_hint(v.extent))
