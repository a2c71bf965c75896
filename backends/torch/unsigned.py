"""Legalisation of uint32, on which PyTorch computes almost nothing: int64 modulo 2³² in its place."""

from __future__ import annotations

from dataclasses import replace

from catgrad.ops.arithmetic import Maximum, Minimum
from catgrad.ops.bits import BitAnd, BitOr, BitXor, ShiftRight
from catgrad.ops.cast import Cast
from catgrad.ops.compare import Select
from catgrad.ops.extrema import Iota, Max
from catgrad.ops.gather import Gather
from catgrad.ops.literal import ArrayLiteral
from catgrad.ops.random import RandomBits
from catgrad.ops.scan import Scan
from catgrad.ops.slices import Concat, Pad, Split
from catgrad.ops.take import TakeAlongAxis
from catgrad.ops.whole import FloorDivide, Remainder
from catgrad.ops.window import Window
from catgrad.programs.program import Apply, Function, Nested
from catgrad.terms.block import retyped
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant, NumberOf
from catgrad.types import Dtype

U32, I64 = Dtype.uint32, Dtype.int64
GREATEST = 2**32 - 1

WITHIN_RANGE = (
    ArrayLiteral, BitAnd, BitOr, BitXor, Concat, Constant, FloorDivide, Gather, Iota, Max, Maximum, Minimum,
    NumberOf, Pad, RandomBits, Remainder, Select, ShiftRight, Split, TakeAlongAxis, Window,
)  # fmt: skip
"""Operations whose results fit 32 bits if their operands do."""


def uint32_in_int64(function: Function) -> Function:
    """Compute uint32 in int64 modulo 2³²; arguments and results, of loops too, stay uint32."""
    return _Legaliser(function).run() if any(t.dtype is U32 for t in function.types) else function


class _Legaliser:
    def __init__(self, function: Function) -> None:
        self.function, self.types, self.names = function, list(function.types), dict(function.names)
        self.body: list[Apply] = []
        self.wide: dict[int, int] = {}
        self.narrow = {v: v for v in function.arguments if self._is_narrow(v)}

    def run(self) -> Function:
        """Replace every operation on uint32."""
        for apply in self.function.body:
            if not any(map(self._is_narrow, (*apply.inputs, *apply.outputs))):
                self.body.append(apply)
            elif isinstance(apply.op, Nested):
                self.body.append(self._nested(apply.op, apply))
                self.narrow |= {v: v for v in apply.outputs if self._is_narrow(v)}
            else:
                self._replace(apply)
        results = tuple(map(self._narrowed, self.function.results))
        types, body = tuple(self.types), tuple(self.body)
        return replace(self.function, body=body, results=results, types=types, names=self.names)

    def _nested(self, op: Nested, apply: Apply) -> Apply:
        """Give a loop as int64 what its body only widens, and other blocks what they take."""
        inputs, functions = list(apply.inputs), op.functions
        for k in range(op.op.carried, len(inputs)) if isinstance(op.op, Scan) else ():
            if self._is_narrow(inputs[k]) and (wide := _with_wide(functions[0], k)):
                inputs[k], functions = self._widened(inputs[k]), (wide,)
        return apply._replace(op=Nested(op.op, functions), inputs=tuple(map(self._narrowed, inputs)))

    def _replace(self, apply: Apply) -> None:
        inputs = tuple(map(self._widened, apply.inputs))
        outputs = tuple(self._new(v) if self._is_narrow(v) else v for v in apply.outputs)
        op = retyped(apply.op, U32, I64)
        self.body.append(Apply(op, inputs, outputs))
        for old, new in zip(apply.outputs, outputs, strict=True):
            if self._is_narrow(old):
                self.wide[old] = self._cut(op, new)
                if old in self.names:
                    self.names[self.wide[old]] = self.names[old]

    def _cut(self, op: Op, value: int) -> int:
        if op.rearranges or isinstance(op, WITHIN_RANGE):
            return value
        if isinstance(op, Cast) and op.before.is_floating:
            return self._with_number(Minimum(), self._with_number(Maximum(), value, 0), GREATEST)
        return self._with_number(BitAnd(), value, GREATEST)

    def _with_number(self, op: Op, value: int, number: int) -> int:
        """Apply an operation to a value and a number."""
        constant = self._new(value)
        self.body.append(Apply(Constant(self.types[constant], number), (), (constant,)))
        return self._apply(op, value, constant)

    def _apply(self, op: Op, *inputs: int) -> int:
        (type,) = op.outputs(*(self.types[v] for v in inputs))
        self.types.append(type)
        self.body.append(Apply(op, inputs, (len(self.types) - 1,)))
        return len(self.types) - 1

    def _new(self, value: int) -> int:
        self.types.append(retyped(self.types[value], U32, I64))
        return len(self.types) - 1

    def _is_narrow(self, value: int) -> bool:
        return self.types[value].dtype is U32

    def _widened(self, value: int) -> int:
        if self._is_narrow(value) and value not in self.wide:
            self.wide[value] = self._apply(Cast(U32, I64), self.narrow[value])
        return self.wide.get(value, value)

    def _narrowed(self, value: int) -> int:
        if self._is_narrow(value) and value not in self.narrow:
            self.narrow[value] = self._apply(Cast(I64, U32), self.wide[value])
        return self.narrow.get(value, value)


def _with_wide(body: Function, place: int) -> Function | None:
    """Return the body with this argument as int64, if it is only widened there."""
    value = body.arguments[place]
    readers = [apply for apply in body.body if value in apply.inputs]
    if value in body.results or any(apply.op != Cast(U32, I64) for apply in readers):
        return None
    wide = {apply.outputs[0]: value for apply in readers}
    rest = (a._replace(inputs=tuple(wide.get(v, v) for v in a.inputs)) for a in body.body if a not in readers)
    types = tuple(retyped(t, U32, I64) if v == value else t for v, t in enumerate(body.types))
    results = tuple(wide.get(v, v) for v in body.results)
    return replace(body, body=tuple(rest), types=types, results=results)
