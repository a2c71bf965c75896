"""Processors that C is compiled for: vectors, threads, and matrix products by a function of the runtime."""

from __future__ import annotations

from catgrad.loops.machine import Machine
from catgrad.loops.passes import KERNEL_PASSES, PASSES

MACHINE = Machine(PASSES, KERNEL_PASSES, lanes=16, threads=True, multiplies_matrices=True)
