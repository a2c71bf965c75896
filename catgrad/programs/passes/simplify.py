"""Algebraic simplification, mostly by properties that operations declare.

Results are equal up to the sign of a zero (x + 0 and 0 - x) and the last digit (scaling).
"""

from __future__ import annotations

from catgrad.ops.arithmetic import Add, Divide, Multiply, Negate, Subtract
from catgrad.ops.compare import Select
from catgrad.ops.reduce import Broadcast
from catgrad.ops.shape import without
from catgrad.ops.table import Stack, Unstack
from catgrad.programs.passes.rewrite import Rewriter, Values, by_rule
from catgrad.programs.program import Apply
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.types import NdArrayType


@by_rule
def simplify(rewriter: Rewriter, apply: Apply) -> Values | None:
    """Remove identities, fuse adjacent data movement, and move broadcasts after elementwise operations."""
    op, inputs, _ = apply
    for rule in (_identity, _stacked, _unit, _choice, _inverse, _fuse, _subtract, _scale, _broadcast_late):
        instead = rule(rewriter, op, inputs)
        if instead is not None:
            return (instead,)
    return None


def _identity(rewriter: Rewriter, op: Op, inputs: Values) -> int | None:
    """f(x) = x, where f is the identity at this type."""
    return inputs[0] if len(inputs) == 1 and op.is_identity(rewriter.types[inputs[0]]) else None


def _stacked(rewriter: Rewriter, op: Op, inputs: Values) -> int | None:
    """stack(unstack x) = x."""
    if not isinstance(op, Stack):
        return None
    parts = rewriter.producer.get(inputs[0])
    return parts.inputs[0] if parts and isinstance(parts.op, Unstack) and parts.outputs == inputs else None


def _unit(rewriter: Rewriter, op: Op, inputs: Values) -> int | None:
    """f(unit, x) = x and f(x, unit) = x."""
    if len(inputs) != 2 or (op.left_unit is None and op.right_unit is None):
        return None
    left, right = (rewriter.constant(value) for value in inputs)
    if right is not None and right == op.right_unit:
        return inputs[0]
    if left is not None and left == op.left_unit:
        return inputs[1]
    return None


def _choice(rewriter: Rewriter, op: Op, inputs: Values) -> int | None:
    """select(true, x, y) = x and select(false, x, y) = y."""
    if not isinstance(op, Select):
        return None
    condition, x, y = inputs
    holds = rewriter.constant(condition)
    return None if holds is None else x if holds else y


def _inverse(rewriter: Rewriter, op: Op, inputs: Values) -> int | None:
    """f(f(x)) = x, for an involution."""
    if op.involution and rewriter.op(inputs[0]) == op:
        return rewriter.producer[inputs[0]].inputs[0]
    return None


def _fuse(rewriter: Rewriter, op: Op, inputs: Values) -> int | None:
    """g(f(x)) = h(x), where the two fuse to one operation h."""
    inner = rewriter.producer.get(inputs[0]) if len(inputs) == 1 else None
    fused = op.fuse(inner.op) if inner is not None else None
    return rewriter.apply(fused, *inner.inputs) if fused is not None and inner is not None else None


def _subtract(rewriter: Rewriter, op: Op, inputs: Values) -> int | None:
    """Rewrite x + -y to x - y, x - -y to x + y, and 0 - x to -x."""
    if isinstance(op, Add):
        for kept, other in (inputs, inputs[::-1]):
            if isinstance(rewriter.op(other), Negate):
                return rewriter.apply(Subtract(), kept, rewriter.producer[other].inputs[0])
    if isinstance(op, Subtract):
        if isinstance(rewriter.op(inputs[1]), Negate):
            return rewriter.apply(Add(), inputs[0], rewriter.producer[inputs[1]].inputs[0])
        if rewriter.constant(inputs[0]) == 0:
            return rewriter.apply(Negate(), inputs[1])
    return None


def _scale(rewriter: Rewriter, op: Op, inputs: Values) -> int | None:
    """c · (a / x) = (c·a) / x, for constants a and c whose product neither over- nor underflows."""
    if not isinstance(op, Multiply):
        return None
    for scale, other in (inputs, inputs[::-1]):
        c, quotient = rewriter.op(scale), rewriter.producer.get(other)
        if isinstance(c, Constant) and quotient is not None and isinstance(quotient.op, Divide):
            a = rewriter.constant(quotient.inputs[0])
            if a is not None and _is_normal(c.value * a, c.array_type):
                numerator = rewriter.apply(Constant(c.array_type, c.value * a))
                return rewriter.apply(Divide(), numerator, quotient.inputs[1])
    return None


def _is_normal(value: float, type: NdArrayType) -> bool:
    limits = type.dtype.limits
    return float(limits.tiny) <= abs(value) <= float(limits.max)


def _broadcast_late(rewriter: Rewriter, op: Op, inputs: Values) -> int | None:
    """f(broadcast x, broadcast y) = broadcast f(x, y), with fewer elements to compute."""
    if not op.elementwise:
        return None
    copies = {o for o in map(rewriter.op, inputs) if not isinstance(o, Constant)}
    if len(copies) != 1:
        return None
    (copy,) = copies
    if not isinstance(copy, Broadcast):
        return None
    return rewriter.apply(copy, rewriter.apply(op, *(_before(copy, v, rewriter) for v in inputs)))


def _before(copy: Broadcast, value: int, rewriter: Rewriter) -> int:
    """Return a value that `copy` broadcasts to `value`; a constant is made smaller."""
    op = rewriter.op(value)
    if isinstance(op, Constant):
        shape = without(copy.shape, copy.axes)
        return rewriter.apply(Constant(op.array_type.with_shape(shape), op.value))
    return rewriter.producer[value].inputs[0]
