"""Contractions: matrix products where they are large, else sums of products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catgrad.dims import Size, product
from catgrad.loops.ir.index import ZERO, Index, Variable, index
from catgrad.loops.ir.nest import MatMul, size_hint
from catgrad.loops.ir.scalar import Compute, Load, Scalar
from catgrad.loops.ir.steps import Product
from catgrad.loops.lowering.contract import MIN_PRODUCT_WORK, Form
from catgrad.loops.lowering.index_maps import Indices, Source
from catgrad.loops.lowering.product_plans import Labels, Operand, best_plan
from catgrad.loops.lowering.rules import Stages, stage
from catgrad.ops.arithmetic import Add
from catgrad.ops.arithmetic import Multiply as Times
from catgrad.ops.cast import Cast
from catgrad.ops.contract import Contract
from catgrad.programs.program import Apply
from catgrad.types import Dtype, NdArrayType


@stage.register
def _(op: Contract, stages: Stages, apply: Apply, position: int) -> None:
    types = [stages.types[value] for value in apply.inputs]
    sizes = {
        label: size
        for type, labels in zip(types, (op.left, op.right), strict=True)
        for label, size in zip(labels, type.shape, strict=True)
    }
    kept = {label: size for label, size in sizes.items() if size != 1}
    if (
        stages.machine.multiplies_matrices
        and _has_function(stages, apply)
        and size_hint(product(tuple(kept.values()))) >= MIN_PRODUCT_WORK
    ):
        plan = best_plan(op, stages, apply, kept)
        if plan is not None:
            _multiply(stages, apply.outputs[0], op.out, sizes, *plan)
            return
    _add_products(op, stages, apply, sizes)


def _has_function(stages: Stages, apply: Apply) -> bool:
    """Tell whether a machine has a function for the factors: floats, or bytes whose sums have 32 bits."""
    types = [stages.types[value] for value in apply.inputs]
    places = [tuple(index(Variable(size)) for size in type.shape) for type in types]
    dtypes = {stages.factor(*each).dtype for each in zip(apply.inputs, places, strict=True)}
    return dtypes <= {Dtype.float32, Dtype.float64} or (
        stages.machine.multiplies_bytes and dtypes == {Dtype.int8}
    )


def _multiply(
    stages: Stages,
    value: int,
    out: Labels,
    sizes: Mapping[int, Size],
    left: Operand,
    right: Operand,
    order: Labels,
    form: Form,
) -> None:
    kept = {label: size for label, size in sizes.items() if size != 1}
    array = stages.array(value, tuple(out.index(label) for label in order))
    outer = {label: Variable(kept[label]) for label in (*form.outer, *form.sums)}
    places: dict[int, Index] = {label: index(v) for label, v in outer.items()}
    places |= {label: ZERO for label in sizes if label not in kept}
    own = {
        label: Variable(kept[label], name)
        for group, name in ((form.m, "m"), (form.n, "n"), (form.k, "k"))
        for label in group
    }
    places |= {label: index(v) for label, v in own.items()}
    rows, columns, depth = (tuple(own[label] for label in group) for group in (form.m, form.n, form.k))
    x, y = _load(stages, left, places), _load(stages, right, places)
    indices = tuple(places[label] for label in out)
    batch, sums = (tuple(outer[label] for label in group) for group in (form.outer, form.sums))
    matmul = MatMul(array, indices, x, y, rows, columns, depth, add=bool(sums))
    stages.steps.append(Product(batch, sums, matmul))
    stages.elements.store(value, array)


def _load(stages: Stages, operand: Operand, places: Mapping[int, Index]) -> Load:
    indices = tuple(places[label] for label in operand.labels)
    if operand.order:
        axes = tuple(operand.labels.index(label) for label in operand.order)
        ones = tuple(axis for axis in range(len(operand.labels)) if axis not in axes)
        array = stages.materialised(operand.value, (*ones, *axes), is_factor=True)
        return Load(array, indices)
    return stages.factor(operand.value, indices)  # type: ignore[return-value]  # its strides are known


def _add_products(op: Contract, stages: Stages, apply: Apply, sizes: Mapping[int, Size]) -> None:
    loops = {label: Variable(size) for label, size in sizes.items()}
    at = tuple(index(loops[label]) for label in op.out)
    summed = {label: v for label, v in loops.items() if label not in op.out}
    free = [loops[label] for label in op.out]
    product = terms(stages, apply, summed)(at)
    stages.reduce(apply.outputs[0], at, free, [*summed.values()], Add(), product)


def summed_variables(op: Contract, types: Sequence[NdArrayType]) -> dict[int, Variable]:
    """Make variables for the labels that a contraction sums over."""
    pairs = zip((*op.left, *op.right), (*types[0].shape, *types[1].shape), strict=True)
    return {label: Variable(size) for label, size in dict(pairs).items() if label not in op.out}


def terms(stages: Stages, apply: Apply, summed: Mapping[int, Variable]) -> Source:
    """Return the product that an element of a contraction sums over these variables."""
    op, dtype = apply.op, stages.types[apply.inputs[0]].dtype
    assert isinstance(op, Contract)
    labels = (op.left, op.right)

    def at(indices: Indices) -> Scalar:
        places = {label: index(v) for label, v in summed.items()} | dict(zip(op.out, indices, strict=True))
        factors = [
            stages.elements.at(value, tuple(places[label] for label in own))
            for value, own in zip(apply.inputs, labels, strict=True)
        ]
        if dtype.wide is not dtype:
            factors = [Compute(Cast(dtype, dtype.wide), dtype.wide, (f,)) for f in factors]
        return Compute(Times(), dtype.wide, tuple(factors))

    return at
