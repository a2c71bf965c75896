"""Choice of matrix products for contractions by a cost model: which axes are rows, columns and sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catgrad.dims import Size, product
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import size_hint
from catgrad.loops.ir.scalar import Load
from catgrad.loops.lowering.contract import MAX_NESTED_AXES, MIN_PRODUCT_WORK, Form, form
from catgrad.loops.lowering.rules import Stages
from catgrad.ops.contract import Contract
from catgrad.programs.program import Apply

Labels = tuple[int, ...]

VECTOR = 16
"""Elements of a vector in estimates of costs."""

REORDERED_COST = 16
"""Cost of an element of a result in another order of axes than its reader prefers: it is read across rows."""

IN_PLACE = 0.3
"""Cost of an element of a window that is read where it lies."""

MOST_CACHED = 2**17
"""Elements of a matrix that a second-level cache keeps until they are used."""


@dataclass(frozen=True)
class Operand:
    """A value with a label for each axis; `order` is that of the labels if it is copied first.

    A copy serves so many `turns`, those of loops that the value is the same in.
    """

    value: int
    labels: Labels
    strides: Mapping[int, Size] | None
    turns: int = 1
    order: Labels = ()
    copying: float = 0


Plan = tuple[Operand, Operand, Labels, Form]
"""Left and right operand, the order of the result's labels, and which of them are rows and columns."""


def best_plan(op: Contract, stages: Stages, apply: Apply, sizes: Mapping[int, Size]) -> Plan | None:
    """Find the best way to compute a contraction as matrix products, if there is one."""
    x, y = (
        Operand(value, labels, _strides(op, stages, value, labels), _turns(stages, value))
        for value, labels in zip(apply.inputs, (op.left, op.right), strict=True)
    )
    out = apply.outputs[0]
    logical = tuple(range(len(op.out)))
    fixed = out in stages.arrays or out in stages.function.results
    wanted = logical if fixed else stages.choice.orders.get(out, logical)
    liked = tuple(op.out[axis] for axis in (stages.arrays[out].order if out in stages.arrays else wanted))
    found = []
    for left, right in ((x, y), (y, x)):
        orders = [liked] if fixed else [liked, op.out, _grouped(op, left, right, sizes)]
        for order in dict.fromkeys(orders):
            found += _arranged(op, left, right, order, sizes)
    found = [plan for plan in found if plan[3].work(sizes) >= MIN_PRODUCT_WORK and _is_wide(plan[3], sizes)]
    return min(found, key=lambda plan: _cost(plan, liked, sizes), default=None)


def _is_wide(form: Form, sizes: Mapping[int, Size]) -> bool:
    m, n, k = (
        size_hint(product(tuple(sizes[label] for label in group))) for group in (form.m, form.n, form.k)
    )
    return m >= 4 and n >= 4 and k >= 4


def _cost(plan: Plan, liked: Labels, sizes: Mapping[int, Size]) -> float:
    """Estimated time, in multiplications of vectors: more where sizes are small, and for elements moved."""
    left, right, out, form = plan
    turns, *core = (_count((*group,), sizes) for group in ((*form.outer, *form.sums), form.m, form.n, form.k))
    m, n, k = core
    if form.nested:
        moved = m * k * _in_strips(left, form.k, sizes) + k * n * _in_pieces(right, form.n, form.k, sizes)
    else:
        moved = m * k * _apart(left, form.k, form.m) / 4 + k * n * _apart(right, form.n, form.k)
    strange = 0 if _kept(out, sizes) == _kept(liked, sizes) else _count(out, sizes)
    spilled = sum(count for x, count in ((left, m * k), (right, k * n)) if x.order and count > MOST_CACHED)
    return (
        turns * (-(-n // VECTOR) * (m + 1) * (k + 8) + moved + 3 * spilled + 500)
        + left.copying
        + right.copying
        + REORDERED_COST * strange
    )


def _apart(operand: Operand, near: Labels, far: Labels) -> float:
    """Estimate the cost of moving an element, by the labels along which elements are contiguous."""
    strides = operand.strides or {}
    beside = [label for label, stride in strides.items() if stride == 1]
    if beside and beside[0] in near:
        return 1
    return 2 if beside and beside[0] in far else 16


def _in_strips(operand: Operand, near: Labels, sizes: Mapping[int, Size]) -> float:
    """Estimate the same for rows that are nested axes: a strip of them is always copied."""
    return 4 if _run(operand, near, sizes) >= VECTOR // 2 else 12


def _in_pieces(operand: Operand, near: Labels, far: Labels, sizes: Mapping[int, Size]) -> float:
    """Estimate the same for columns that are nested axes: whole vectors are read in place, others moved.

    Pieces of half vectors, side by side or every second element, fill a panel exactly, so that a few
    instructions move each.
    """
    if _run(operand, near, sizes) % VECTOR == 0:
        return IN_PLACE
    runs = [(step, _run(operand, near, sizes, step)) for step in (1, 2)]
    pieces = [(60 if run % (VECTOR // 2) else 8) * step / min(run, 2 * VECTOR) for step, run in runs]
    return max(IN_PLACE, min(*pieces, 8 if _run(operand, far, sizes) >= VECTOR else 20))


def _run(operand: Operand, labels: Labels, sizes: Mapping[int, Size], step: int = 1) -> int:
    """Count the elements that are `step` apart along the innermost of some labels."""
    run: Size = 1
    for label in reversed(labels):
        if (operand.strides or {}).get(label) != run * step:
            break
        run = run * sizes[label]
    return size_hint(run)


def _count(labels: Labels, sizes: Mapping[int, Size]) -> int:
    return size_hint(product(tuple(sizes[label] for label in labels if label in sizes)))


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
            forms = {form(left.labels, right.labels, out, sizes, strides, nested) for nested in (False, True)}
            plans += [(a, b, out, each) for each in sorted(forms, key=lambda f: f.nested)]
    return [plan for plan in plans if not plan[3].nested or _is_shallow(plan[3])]


def _is_shallow(form: Form) -> bool:
    return max(map(len, (form.m, form.n, form.k))) <= MAX_NESTED_AXES


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
    turns, sums = _tail([label for label in labels if label not in out], other.strides, sizes)
    rest, core = _tail([label for label in labels if label in out and label not in shared], of_out, sizes)
    if columns:
        orders = {(*shared, *rest, *turns, *sums, *core): None}
    else:
        orders = {(*shared, *rest, *turns, *core, *sums): None, (*shared, *rest, *core, *turns, *sums): None}
    return [*ways, *(_copied(operand, order, sizes) for order in orders)]


def _copied(operand: Operand, order: Labels, sizes: Mapping[int, Size]) -> Operand:
    """Return an operand whose elements are copied in an order of their labels."""
    copying = _count(operand.labels, sizes) * _moving(operand, order, sizes) / operand.turns
    return Operand(operand.value, operand.labels, _row_major(order, sizes), operand.turns, order, copying)


def _moving(operand: Operand, order: Labels, sizes: Mapping[int, Size]) -> float:
    """Estimate the cost of copying an element: little, if runs are long before and after."""
    strides = operand.strides or {order[-1]: 1}
    run, stride = 1, 1
    for label in reversed(order):
        if strides.get(label) != stride:
            break
        run, stride = run * size_hint(sizes[label]), stride * sizes[label]  # type: ignore[assignment]
    return 1 + 30 / run if run > 1 else 16


def _tail(
    labels: Sequence[int], strides: Mapping[int, Size] | None, sizes: Mapping[int, Size]
) -> tuple[list[int], list[int]]:
    """Labels in the order of an array's axes, split where the last of them begin to be one axis."""
    if strides is None:
        return [], list(labels)
    rest = sorted(labels, key=lambda label: -size_hint(strides[label]))
    core = [rest.pop()] if rest else []
    while rest and strides[rest[-1]] == strides[core[0]] * sizes[core[0]]:
        core.insert(0, rest.pop())
    return rest, core


def _grouped(op: Contract, left: Operand, right: Operand, sizes: Mapping[int, Size]) -> Labels:
    """Order a result so that its rows are before its columns, and what operands share before both."""

    def place(label: int) -> tuple[bool, ...]:
        return label in sizes, not (label in left.labels and label in right.labels), label in right.labels

    return tuple(sorted(op.out, key=place))


def _row_major(labels: Labels, sizes: Mapping[int, Size]) -> dict[int, Size]:
    strides: dict[int, Size] = {}
    stride: Size = 1
    for label in reversed(labels):
        if label in sizes:
            strides[label] = stride
            stride = stride * sizes[label]
    return strides


def _turns(stages: Stages, value: int) -> int:
    """Count the products that one copy of a value serves."""
    if value not in stages.invariant:
        return 1
    around, outer, turns = stages.invariant[value]
    return turns * _turns(around, outer)


def _strides(op: Contract, stages: Stages, value: int, labels: Labels) -> dict[int, Size] | None:
    """Return the stride along each label, if the value is stored and its elements lie regularly.

    Those that are summed must lie forwards, as the axes of a flipped window do not.
    """
    loops = {label: Variable(size) for label, size in zip(labels, stages.types[value].shape, strict=True)}
    scalar = stages.factor(value, tuple(index(loops[label]) for label in labels))
    if not isinstance(scalar, Load):
        return None
    place = scalar.buffer.flat(scalar.indices)
    if any(atom not in loops.values() for atom, _ in place.terms):
        return None
    strides = {label: place.coefficient(v) for label, v in loops.items() if v.extent != 1}
    is_forwards = all(size_hint(stride) >= 0 for label, stride in strides.items() if label not in op.out)
    return strides if is_forwards else None
