"""Processors that C is compiled for: vectors, threads, and matrix products by a runtime function."""

from __future__ import annotations

from catgrad.loops.machine import Machine
from catgrad.loops.passes import KERNEL_PASSES, PASSES
from catgrad.loops.passes.bind import RegisterCosts, binder
from catgrad.types import Dtype

# GCC masks the loads in the branches of a choice, and before 12.4 it mixes these up (PR 114375).
BIND = binder(RegisterCosts(loads_before_choices=True))

MACHINE = Machine(PASSES, (*KERNEL_PASSES, BIND), lanes=16, threads=True, multiplies_matrices=True)


def companion(dtype: Dtype, is_sum: bool) -> str:
    """Name the companion register of a sum, or else of a maximum: signed sums must not overflow in C."""
    if is_sum:
        return "bits" if dtype in (Dtype.int32, Dtype.int64) else ""
    return "is_nan" if dtype.is_floating else ""
