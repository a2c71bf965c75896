"""Implicit broadcasting: leave broadcasts of terms to the operators of array libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catgrad.ops.random import Draw
from catgrad.ops.reduce import Broadcast
from catgrad.printing.dialect import Literal
from catgrad.programs.passes.prune import prune
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.types import Dtype


class NewAxis(Op, register=False):
    """Insert axes of size 1 where `index` is True; the next operator broadcasts them."""

    index: tuple[bool, ...]
    rearranges = True


@dataclass(frozen=True)
class BroadcastByOperators:
    """The pass: constants become literals, and broadcasts are left to the operator that reads them.

    An operator returns the full shape only if one of its operands has it, so that one stays. The pass runs
    once: an array that is broadcast later does not have the shape of its type.
    """

    takes_numbers: Callable[[Op, Dtype], bool]
    scalars_keep_dtype: bool = False

    def __call__(self, function: Function) -> Function:
        """Replace constants by literals, and remove Broadcasts that operators do."""
        return prune(Rewriter(function).sweep(self._implicit))

    def _implicit(self, rewriter: Rewriter, apply: Apply) -> Values | None:
        op, inputs, outputs = apply
        if isinstance(op, Constant) and op.array_type.rank == 0:
            return (rewriter.apply_as(op.array_type, Literal(op, weak=False)),)
        if isinstance(op, Broadcast):
            return _aligned(rewriter, op, inputs[0], outputs[0])
        if isinstance(op, Draw):  # functions of the dialect, which take Python numbers after the seed
            plain = (inputs[0], *(_weak(rewriter, value) for value in inputs[1:]))
            return None if plain == inputs else (rewriter.apply_as(rewriter.types[outputs[0]], op, *plain),)
        if not op.elementwise:
            return None
        full = _full_operand(rewriter, inputs)
        if full is None:
            return self._among_scalars(rewriter, apply)
        shrunk = [v if v == full else _shrunk(rewriter, v) for v in inputs]
        instead = tuple(self._literal(rewriter, op, v, shrunk) for v in shrunk)
        return None if instead == inputs else (rewriter.apply_as(rewriter.types[outputs[0]], op, *instead),)

    def _literal(self, rewriter: Rewriter, reader: Op, value: int, operands: Sequence[int]) -> int:
        """Return a constant as a literal, weak if another operand determines the dtype."""
        op = rewriter.op(value)
        if not isinstance(op, Constant):
            return value
        dtype = op.array_type.dtype
        others = [rewriter.types[v] for v in operands if not isinstance(rewriter.op(v), (Constant, Literal))]
        decided = any(type.rank and type.dtype is dtype for type in others)
        # NumPy 1 widens an array for a scalar near the end of its range, which is thus not weak.
        weak = decided and self.takes_numbers(reader, dtype) and _is_far_from_overflow(op)
        return rewriter.apply_as(op.array_type, Literal(op, weak))

    def _among_scalars(self, rewriter: Rewriter, apply: Apply) -> Values | None:
        """Make numbers weak next to a scalar, if the library keeps its dtype."""
        op, inputs, outputs = apply
        literal = [isinstance(rewriter.op(value), Literal) for value in inputs]
        dtypes = {rewriter.types[v].dtype for v, is_one in zip(inputs, literal, strict=True) if not is_one}
        if not (self.scalars_keep_dtype and any(literal) and len(dtypes) == 1):
            return None
        (dtype,) = dtypes
        if not self.takes_numbers(op, dtype):
            return None
        instead = tuple(_weak(rewriter, v) if rewriter.types[v].dtype is dtype else v for v in inputs)
        return None if instead == inputs else (rewriter.apply_as(rewriter.types[outputs[0]], op, *instead),)


def _weak(rewriter: Rewriter, value: int) -> int:
    op = rewriter.op(value)
    if not isinstance(op, Literal) or op.weak:
        return value
    return rewriter.apply_as(op.constant.array_type, Literal(op.constant, weak=True))


def _aligned(rewriter: Rewriter, op: Broadcast, source: int, output: int) -> Values | None:
    """Print a Broadcast explicitly: libraries align the last axes, so insert new axes first."""
    placed = _with_new_axes(rewriter, op, source)
    if placed == source:
        return None
    return (rewriter.apply_as(rewriter.types[output], op, placed),)


def _full_operand(rewriter: Rewriter, inputs: Values) -> int | None:
    """Return the operand that keeps the full shape: an ordinary array if there is one, else a broadcast."""
    arrays = [v for v in inputs if rewriter.types[v].rank and not isinstance(rewriter.op(v), Constant)]
    proper = [v for v in arrays if not isinstance(rewriter.op(v), Broadcast)]
    return next(iter(proper + arrays), None)


def _shrunk(rewriter: Rewriter, value: int) -> int:
    op = rewriter.op(value)
    if not isinstance(op, Broadcast):
        return value
    (source,) = rewriter.producer[value].inputs
    return _with_new_axes(rewriter, op, source)


def _is_far_from_overflow(op: Constant) -> bool:
    dtype = op.array_type.dtype
    return not dtype.is_floating or not abs(op.value) > float(dtype.limits.max) / 2


def _with_new_axes(rewriter: Rewriter, op: Broadcast, source: int) -> int:
    """Insert axes of size 1 into `source`, except leading ones, which libraries add themselves."""
    source_type = rewriter.types[source]
    index = tuple(axis in op.axes for axis in range(len(op.shape)))
    index = index[index.index(False) :] if source_type.rank else ()
    if not any(index) or isinstance(rewriter.op(source), NewAxis):
        return source
    # The new axes have size 1, so from here on types of operands need not agree.
    last = op.shape[len(op.shape) - len(index) :]
    shape = tuple(1 if new else size for new, size in zip(index, last, strict=True))
    return rewriter.apply_as(source_type.with_shape(shape), NewAxis(index), source)
