"""Count the reporter blocks of operations as the templates print them.

A law compares the counts with the blocks of assembled sprites, so a change of a macro changes its line here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catgrad.types import Dtype

from .texts import reporters

BLOCKS = {
    "Sign": (3, 2), "Round": (8, 4), "Fmod": (7, 3, 1), "Maximum": (6, 3, 3), "Minimum": (6, 3, 3),
    "FloorDivide": (7, 1, 3), "Remainder": (6, 1, 3), "Log1p": (2, 1), "Expm1": (2, 1), "Sin": (2, 1),
    "Cos": (2, 1), "Tanh": (5, 1), "Power": (11, 2, 2), "IsNan": (3, 2), "IsFinite": (6, 3),
    "GreaterEqual": (2, 1, 1), "LessEqual": (2, 1, 1), "NotEqual": (2, 1, 1), "Differs": (2, 1, 1),
    "Select": (4, 2, 1, 1), "CastToInteger": (7, 4), "ShiftLeft": (13, 1, 4), "ShiftRight": (44, 1, 15),
}  # fmt: skip
"""Reporters of each macro, and the times that it repeats each operand; others have one, and repeat none."""

LONG = {"ShiftLeft": (18, 1, 5)}
"""The same on integers of 64 bits, where that differs."""

WRAPPED = frozenset({"Add", "Subtract", "Multiply", "Negate", "FloorDivide", "ShiftLeft"})
"""Macros that wrap integers of 32 bits."""

WRAPS = {Dtype.int32: 3, Dtype.uint32: 1, Dtype.int8: 3, Dtype.uint8: 1}
"""Reporters that bring a number back into the range of a dtype; float64 holds no 64 bits."""

PRODUCTS = {"positive": (2, 2), "chosen": (1, 1, 1), "not_chosen": (2, 1, 1)}
"""The same of macros of choices between an operand and 0."""


def of_operation(op: Any, dtype: Dtype, operands: Sequence[str]) -> int:
    """Count the reporters of an operation on printed operands."""
    name = op.macro
    if name == "Literal":
        return 1 if dtype is Dtype.bool or op.digits in ("nan", "inf", "-inf") else 0
    if name == "Cast":
        own = (2 if dtype is Dtype.bool else 1) if Dtype.bool in (dtype, op.before) else WRAPS.get(dtype, 0)
        return (0 if dtype is op.before else own) + reporters(operands[0])
    wraps = name in WRAPPED or (name, dtype) == ("Abs", Dtype.int32)
    return _of(counts(name, dtype), operands) + (WRAPS.get(dtype, 0) if wraps else 0)


def of_product(macro: str, operands: Sequence[str]) -> int:
    """Count the reporters of a choice between an operand and 0."""
    return _of(PRODUCTS[macro], operands)


def of_sum(dtype: Dtype, *operands: str) -> int:
    """Count the reporters of a sum of two texts."""
    return _of((1,), operands) + WRAPS.get(dtype, 0)


def _of(counts: Sequence[int], operands: Sequence[str]) -> int:
    own, *mentions = counts
    mentions += [1] * (len(operands) - len(mentions))
    return own + sum(n * reporters(text) for n, text in zip(mentions, operands, strict=True))


def counts(name: str, dtype: Dtype) -> Sequence[int]:
    """Count the reporters of an operation of this name, and how often it mentions each operand."""
    if name == "Multiply" and dtype in WRAPS:
        return 8, 2, 2
    return LONG.get(name, BLOCKS[name]) if dtype is Dtype.int64 and name in LONG else BLOCKS.get(name, (1,))
