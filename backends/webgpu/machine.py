"""GPUs as WebGPU has them: workgroups of at most 256 threads, with 16 KiB of shared memory."""

from __future__ import annotations

from catgrad.loops.machine import BLOCK, Gpu, Machine
from catgrad.loops.passes.gpu import BLOCK_PASSES, GPU_KERNEL_PASSES
from catgrad.loops.passes.simplify.bind import RegisterCosts, binder

SHARED_BYTES = 12 * 2**10
"""Bytes of shared arrays of a kernel: three quarters of those that every device has, the rest for sums."""

MACHINE = Machine(
    BLOCK_PASSES,
    (*GPU_KERNEL_PASSES, binder(RegisterCosts())),
    gpu=Gpu(gathers=True, block_threads=BLOCK, shared_bytes=SHARED_BYTES),
    passes_rows=True,
    literals_have_addresses=False,
)
