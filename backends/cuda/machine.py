"""GPUs that CUDA C++ is compiled for: grids of threads, in blocks and warps."""

from __future__ import annotations

from dataclasses import replace

from catgrad.loops.ir.axis import Axis
from catgrad.loops.machine import LARGE_BLOCK, Gpu, GpuCosts, Machine
from catgrad.loops.passes.gpu import GPU_KERNEL_PASSES, GPU_PASSES, ONE_BLOCK_PASSES
from catgrad.loops.passes.simplify.bind import RegisterCosts, binder

ALIGNMENT = 16
"""Bytes that a thread loads at once at most, at whose multiples arrays begin."""

ROW_REGISTERS = 100
"""Registers for elements of rows: of the 128 that a thread of a block of 512 has, as many as leave room."""

ONE_BLOCK_SHARED_BYTES = 60 * 2**10
"""Bytes of shared memory of a block that has a GPU for itself: every GPU since 2018 provides 64 KiB."""

GPU = Gpu(
    gathers=True,
    factors_indices=True,
    selects=True,
    tiles_attention=True,
    outer_products=Axis.OUTER,
    warpgroups=True,
    row_registers=ROW_REGISTERS,
)

MACHINE = Machine(
    GPU_PASSES,
    (*GPU_KERNEL_PASSES, binder(RegisterCosts())),
    gpu=GPU,
    passes_rows=True,
    aligned_bytes=ALIGNMENT,
)

ONE_BLOCK = replace(
    MACHINE,
    passes=ONE_BLOCK_PASSES,
    gpu=replace(
        GPU,
        selects=False,
        tiles_attention=False,
        warpgroups=False,
        shared_bytes=ONE_BLOCK_SHARED_BYTES,
        costs=GpuCosts(busy_teams=LARGE_BLOCK, lone_launch_iterations=0),
    ),
    passes_rows=False,
)
"""A single block, which runs a small function repeatedly."""
