"""Contractions: matrix products where they are large, else sums of products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catgrad.dims import Size, product
from catgrad.loops.contract import SMALL, Form, form, joined
from catgrad.loops.index import ZERO, Index, Variable, index
from catgrad.loops.nest import Define, Item, Multiply, nested, typical
from catgrad.loops.scalar import Compute, Load, Number, Scalar
from catgrad.loops.stages import Stages, stage
from catgrad.ops.arithmetic import Add
from catgrad.ops.arithmetic import Multiply as Times
from catgrad.ops.cast import Cast
from catgrad.ops.contract import Contract
from catgrad.program import Apply
from catgrad.structural import Constant
from catgrad.types import Dtype, NdArrayType

Labels = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """A value with a label for each axis; `order` is that in which it is to be copied first, if it is."""

    value: int
    labels: Labels
    strides: Mapping[int, Size] | None
    order: Labels = ()


Plan = tuple[Operand, Operand, Labels, Form]
"""Left and right operand, the order of the result's labels, and which of them are rows and columns."""


@stage.register
def _(op: Contract, stages: Stages, apply: Apply, position: int) -> None:
    types = [stages.types[value] for value in apply.inputs]
    sizes = {
        label: size
        for type, labels in zip(types, (op.left, op.right), strict=True)
        for label, size in zip(labels, type.shape, strict=True)
    }
    kept = {label: size for label, size in sizes.items() if size != 1}
    if types[0].dtype in (Dtype.float32, Dtype.float64) and typical(product(tuple(kept.values()))) >= SMALL:
        for plan in _plans(op, stages, apply, kept):
            _multiply(stages, apply.outputs[0], op.out, sizes, *plan)
            return
    _add_products(op, stages, apply, sizes)


def _plans(op: Contract, stages: Stages, apply: Apply, sizes: Mapping[int, Size]) -> list[Plan]:
    """The best way to compute a contraction as matrix products, if there is one."""
    x, y = (
        Operand(value, labels, _strides(stages, value, labels))
        for value, labels in zip(apply.inputs, (op.left, op.right), strict=True)
    )
    out = apply.outputs[0]
    if out in stages.arrays:
        axes = stages.arrays[out].order
    else:
        axes = stages.choice.orders.get(out, tuple(range(len(op.out))))
    fixed = out in stages.arrays or out in stages.choice.orders
    order = tuple(op.out[axis] for axis in axes)
    found = []
    for left, right in ((x, y), (y, x)):
        found += _arranged(op, left, right, order, sizes)
        grouped = None if fixed else _grouped(op, left, right, sizes)
        found += _arranged(op, left, right, grouped, sizes) if grouped else []
    found = [plan for plan in found if plan[3].work(sizes) >= SMALL and _is_wide(plan[3], sizes)]
    return sorted(found, key=lambda plan: _cost(plan, order, sizes))[:1]


def _is_wide(form: Form, sizes: Mapping[int, Size]) -> bool:
    m, n, k = (typical(product(tuple(sizes[label] for label in group))) for group in (form.m, form.n, form.k))
    return m >= 4 and n >= 4 and k >= 4


def _cost(plan: Plan, logical: Labels, sizes: Mapping[int, Size]) -> float:
    """Estimated time: multiplications, more of them where sizes are small, and elements read out of order."""
    left, right, out, form = plan
    turns, *core = (_count((*group,), sizes) for group in ((*form.outer, *form.sums), form.m, form.n, form.k))
    m, n, k = core
    copies = sum(_count(o.labels, sizes) for o in (left, right) if o.order)
    strange = 0 if _kept(out, sizes) == _kept(logical, sizes) else _count(out, sizes)
    return turns * (-(-n // 16) * (m + 1) * (k + 8) + 200) + 1.5 * copies + 2 * strange


def _count(labels: Labels, sizes: Mapping[int, Size]) -> int:
    return typical(product(tuple(sizes[label] for label in labels if label in sizes)))


def _kept(labels: Labels, sizes: Mapping[int, Size]) -> Labels:
    return tuple(label for label in labels if label in sizes)


def _arranged(
    op: Contract, left: Operand, right: Operand, out: Labels, sizes: Mapping[int, Size]
) -> list[Plan]:
    """Forms with the right operand for the columns, operands as they are or copied in a better order."""
    inner = next((label for label in reversed(out) if label in sizes), None)
    if inner is None or inner not in right.labels or inner in left.labels:
        return []
    of_out = _row_major(out, sizes)
    plans = []
    for a in _ways(left, right, out, of_out, sizes, columns=False):
        for b in _ways(right, left, out, of_out, sizes, columns=True):
            strides = {
                label: (a.strides.get(label, 0), b.strides.get(label, 0), of_out.get(label, 0))  # type: ignore[union-attr]
                for label in sizes
            }
            plans.append((a, b, out, form(left.labels, right.labels, out, sizes, strides)))
    return plans


def _ways(
    operand: Operand,
    other: Operand,
    out: Labels,
    of_out: Mapping[int, Size],
    sizes: Mapping[int, Size],
    columns: bool,
) -> list[Operand]:
    """An operand as it is, if its elements lie regularly, and copied."""
    ways = [operand] if operand.strides is not None else []
    labels = [label for label in operand.labels if label in sizes]
    shared = [label for label in labels if label in other.labels and label in out]
    sums = [label for label in labels if label not in out]
    if other.strides is not None:
        sums.sort(key=lambda label: -typical(other.strides[label]))  # type: ignore[index]
    free = sorted(
        (label for label in labels if label in out and label not in shared),
        key=lambda label: -typical(of_out[label]),
    )
    core: list[int] = []
    for label in reversed(free):
        if core and of_out[label] != of_out[core[0]] * sizes[core[0]]:
            break
        core.insert(0, label)
    rest = [label for label in free if label not in core]
    order = (*shared, *rest, *(sums if columns else core), *(core if columns else sums))
    return [*ways, Operand(operand.value, operand.labels, _row_major(order, sizes), order)]


def _grouped(op: Contract, left: Operand, right: Operand, sizes: Mapping[int, Size]) -> Labels | None:
    """The order of the result in which rows and columns are those of the operands."""
    if left.strides is None or right.strides is None:
        return None
    shared = [label for label in op.out if label in left.labels and label in right.labels]
    rows, columns = (
        sorted(
            (label for label in op.out if label in o.strides and label not in shared),
            key=lambda label: -typical(o.strides[label]),
        )  # type: ignore[index, operator]
        for o in (left, right)
    )
    ones = [label for label in op.out if label not in sizes]
    return (*ones, *shared, *rows, *columns)


def _row_major(labels: Labels, sizes: Mapping[int, Size]) -> dict[int, Size]:
    strides, stride = {}, 1
    for label in reversed(labels):
        if label in sizes:
            strides[label] = stride
            stride = stride * sizes[label]  # type: ignore[assignment]
    return strides


def _strides(stages: Stages, value: int, labels: Labels) -> dict[int, Size] | None:
    """How far apart elements are along each label, if they are stored and lie regularly."""
    loops = {label: Variable(size) for label, size in zip(labels, stages.types[value].shape, strict=True)}
    scalar = stages.elements.at(value, tuple(index(loops[label]) for label in labels))
    if not isinstance(scalar, Load):
        return None
    place = scalar.array.flat(scalar.indices)
    if any(atom not in loops.values() for atom, _ in place.terms):
        return None
    return {label: place.coefficient(v) for label, v in loops.items() if v.extent != 1}


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
    variables = []
    for group, name in ((form.m, "m"), (form.n, "n"), (form.k, "k")):
        variable, indices = joined(group, kept, name)
        variables.append(variable)
        places |= indices
    loads = [_load(stages, operand, places) for operand in (left, right)]
    indices = tuple(places[label] for label in out)
    statement = Multiply(array, indices, *loads, *variables, add=bool(form.sums))
    body: list[Item] = nested([outer[label] for label in form.sums], [statement])
    if form.sums:
        inner = {label: Variable(kept[label]) for label in (*form.m, *form.n)}
        zero = Number(Constant(NdArrayType((), array.type.dtype), 0))
        at = tuple(index(inner[label]) if label in inner else places[label] for label in out)
        body = [
            *nested([inner[label] for label in order if label in inner], [Define(array, at, zero)]),
            *body,
        ]
    stages.add(nested([outer[label] for label in form.outer], body), value)


def _load(stages: Stages, operand: Operand, places: Mapping[int, Index]) -> Load:
    indices = tuple(places[label] for label in operand.labels)
    if operand.order:
        axes = tuple(operand.labels.index(label) for label in operand.order)
        ones = tuple(axis for axis in range(len(operand.labels)) if axis not in axes)
        array = stages.materialised(operand.value, (*ones, *axes))
        return Load(array, indices)
    found = stages.elements.at(operand.value, indices)
    return found  # type: ignore[return-value]


def _add_products(op: Contract, stages: Stages, apply: Apply, sizes: Mapping[int, Size]) -> None:
    loops = {label: Variable(size) for label, size in sizes.items()}
    value, dtype = apply.outputs[0], stages.types[apply.outputs[0]].dtype
    operands: list[Scalar] = [
        stages.elements.at(v, tuple(index(loops[label]) for label in labels))
        for v, labels in zip(apply.inputs, (op.left, op.right), strict=True)
    ]
    if dtype.wide is not dtype:
        operands = [Compute(Cast(dtype, dtype.wide), dtype.wide, (o,)) for o in operands]
    scalar = Compute(Times(), dtype.wide, tuple(operands))
    free = [loops[label] for label in op.out]
    summed = [v for label, v in loops.items() if label not in op.out]
    stages.accumulate(value, tuple(map(index, free)), free, summed, Add(), 0, scalar)
