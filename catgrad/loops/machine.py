"""Machines: the targets of scheduling, each with its passes and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.nest import Kernel, MatMul
from catgrad.loops.ir.steps import Lowered
from catgrad.terms.op import Op

Pass = Callable[[Lowered, "Machine"], Lowered]
"""A transformation of a function's kernels that keeps its meaning."""

KernelPass = Callable[[Kernel, "Machine"], Kernel]
"""A transformation of one kernel that keeps its meaning."""

Packing = Callable[[MatMul], int]
"""Counts the bytes of scratch memory, at most, to which a product copies parts of its operands."""

BLOCK = 256
"""Threads of a block of a GPU, where a schedule has no reason for more."""

LARGE_BLOCK = 512
"""Threads of a block that has most of the work of a kernel."""

BLOCK_REGISTERS, THREAD_REGISTERS = 2**16, 255
"""Registers of 32 bits that a block of a GPU has at most, and each of its threads."""

STATIC_SHARED_BYTES = 48 * 2**10
"""Bytes of shared memory that a kernel can declare; its launch can provide more."""

SHARED_BYTES = 40 * 2**10
"""Bytes of shared memory that a block may have without asking for more, with room for reductions."""

WARP = 32
"""Threads of a warp of a GPU, which run together."""


def packs_nothing(product: MatMul) -> int:
    """Count no bytes: products read their operands in place."""
    return 0


@dataclass(frozen=True)
class Machine:
    """A machine that kernels are scheduled for, and the passes that fit kernels to it.

    `passes` run on whole functions, in this order; `kernel_passes` on each kernel that differs from all
    others, as equal kernels are printed once. `lanes` is the width of vectors in elements of 32 bits,
    1 if there are none. `threads` share parallel loops. If a machine `multiplies_matrices`, contractions of
    enough work are matrix products rather than reductions. With `float64_sums`, a sum of floats is formed in
    float64 and rounded at its end, as suits languages whose numbers are float64 anyway. With `locals_once`,
    a kernel declares its own arrays at its beginning, because each declaration costs. A machine that
    `gathers` has a thread for each element: folds, pads and concatenations compute each where it lies, rather
    than add or copy parts one after the other. With `tensor_floats`, factors of products of float32 are
    rounded to 11 bits, for tensor cores to multiply. If a machine `tiles_attention`, attention is a step,
    and its scores are not stored. Temporary arrays begin at multiples of `aligned_bytes`, whatever the sizes
    are; products need scratch memory for their `packing`. Loops of operations that a machine has as vectors
    only `near` 0 have a version for such arguments. If a machine `factors_indices`, its compiler finds
    elements side by side if an index is a sum of few terms. If it `passes_rows`, kernels in loops get the
    addresses of rows, also of literals if `literals_have_addresses`. Threads add `outer_products` of tiles by
    loops of this kind. Where there may be `warpgroups`, these multiply large tiles. A block of a GPU has at
    most `block_threads` threads, and `shared_bytes` of shared memory. Each of its threads keeps up to
    `row_registers` elements of the rows of its team.
    """

    passes: tuple[Pass, ...]
    kernel_passes: tuple[KernelPass, ...] = ()
    lanes: int = 1
    threads: bool = False
    multiplies_matrices: bool = False
    float64_sums: bool = False
    locals_once: bool = False
    gathers: bool = False
    tensor_floats: bool = False
    tiles_attention: bool = False
    factors_indices: bool = False
    passes_rows: bool = False
    literals_have_addresses: bool = True
    outer_products: Axis = Axis.UNROLLED
    warpgroups: bool = False
    aligned_bytes: int = 8
    packing: Packing = packs_nothing
    near: tuple[type[Op], ...] = ()
    block_threads: int = LARGE_BLOCK
    shared_bytes: int = SHARED_BYTES
    row_registers: int = 0

    def finish(self, kernel: Kernel) -> Kernel:
        """Apply the passes for single kernels."""
        for each in self.kernel_passes:
            kernel = each(kernel, self)
        return kernel
