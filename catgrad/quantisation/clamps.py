"""Pattern matching: `select(x < c, c, x)` and the like, as PyTorch's hardtanh is, become `clamp`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite

from catgrad.ops.bounds import Clamp
from catgrad.ops.compare import Greater, GreaterEqual, Less, LessEqual, Select
from catgrad.ops.reduce import Broadcast
from catgrad.programs.program import Apply
from catgrad.terms.structural import Constant

Root = Callable[[int], int]

LOWER, UPPER = (Less, LessEqual), (Greater, GreaterEqual)


def with_clamps(body: Sequence[Apply], results: Sequence[int], root: Root) -> list[Apply]:
    """Replace each selection between x and a bound, and remove what is then not read."""
    makers = {root(wire): apply for apply in body for wire in apply.outputs}
    clamped = [_clamp(apply, makers, root) or apply for apply in body]
    read, kept = set(map(root, results)), list[Apply]()
    for apply in reversed(clamped):
        if not apply.outputs or not read.isdisjoint(map(root, apply.outputs)):
            kept.append(apply)
            read.update(map(root, apply.inputs))
    return kept[::-1]


def _clamp(apply: Apply, makers: dict[int, Apply], root: Root) -> Apply | None:
    """Return a selection as a bound, if it is one."""
    if not isinstance(apply.op, Select):
        return None
    condition, bound, x = map(root, apply.inputs)
    compare, limit = makers.get(condition), number(bound, makers, root)
    if compare is None or limit is None or not isinstance(compare.op, (*LOWER, *UPPER)):
        return None
    left, right = map(root, compare.inputs)
    if number(right, makers, root) != limit:
        return None
    # The other bound may be applied to what is within the first.
    inner = makers.get(x)
    within = _clamp(inner, makers, root) if inner is not None and left != x else None
    if left != x and (within is None or root(within.inputs[0]) != left):
        return None
    low, high = (limit, None) if isinstance(compare.op, LOWER) else (None, limit)
    if within is not None and isinstance(within.op, Clamp):
        low = within.op.low if low is None else low
        high = within.op.high if high is None else high
    if low is not None and high is not None and low > high:
        return None
    return Apply(Clamp(low, high), (left,), apply.outputs)


def number(wire: int, makers: Mapping[int, Apply], root: Root) -> float | None:
    """Return the floating-point number that fills an array, if one does."""
    apply = makers.get(wire)
    if apply is not None and isinstance(apply.op, Broadcast):
        return number(root(apply.inputs[0]), makers, root)
    value = apply.op.value if apply is not None and isinstance(apply.op, Constant) else None
    return value if isinstance(value, float) and isfinite(value) else None
