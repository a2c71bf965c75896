"""Machines: the targets of scheduling, each with its passes and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

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
class Vectors:
    """Vectors of a processor, which has none of them by default."""

    lanes: int = 1
    """Width of vectors in elements of 32 bits; 1 if there are none."""

    keeps_sums: bool = True
    """Lanes of a sum are kept apart until its end, which is no faster where they run one after the other."""

    near: tuple[type[Op], ...] = ()
    """Operations that are vectors only near 0: their loops have a version for such arguments."""


@dataclass(frozen=True)
class GpuCosts:
    """Cost model of a GPU: the numbers of an H200, rounded.

    Another GPU computes the same sums in the same order.
    """

    multiprocessors: int = 132
    """Multiprocessors, among which blocks are distributed."""

    multiplications: int = 128
    """Multiplications of a multiprocessor in a cycle."""

    tensor_multiplications: int = 1024
    """Multiplications of its tensor cores in a cycle."""

    loaded_bytes: int = 64
    """Bytes that a multiprocessor loads in a cycle."""

    term_cycles: int = 12
    """Cycles of a term of a product for shared memory and barriers."""

    tensor_term_cycles: int = 4
    """Cycles of such a term on tensor cores, whose operands are copied while others are multiplied."""

    warpgroup_bytes: int = 4096
    """Bytes of the factors that its warp groups multiply in a cycle: 2048 pairs of 16 bits."""

    warpgroup_term_cycles: int = 2
    """Cycles of such a term of warp groups."""

    sharing: float = 9 / 8
    """Factor of the time of two blocks of warp groups that share a multiprocessor."""

    split_elements: int = 9
    """Elements of a term of factors that warp groups split into parts in a cycle."""

    ended_elements: int = 7
    """Elements of a tile that a multiprocessor stores in a cycle, after their sums."""

    launch_cycles: int = 2000
    """Cycles of a launch."""

    addition_cycles: int = 150
    """Cycles in which a thread loads a partial sum and adds it: several loads are under way at once."""

    memory_bytes: int = 2048
    """Bytes of memory that all multiprocessors write or read in a cycle."""

    split_gain: float = 7 / 8
    """Factor of the time of a sum that is worth the memory for partial sums."""

    masked_part: float = 9 / 8
    """Factor of the time of partial sums of which the last is shorter."""

    combine_iterations: int = 32
    """Iterations of a thread that take as long as to combine the results of a team."""

    barrier_iterations: int = 16
    """Iterations of a thread that take as long as to wait for all of a block."""

    busy_threads: int = 2**17
    """Threads that keep a GPU busy with sums."""

    busy_rows: int = 2**12
    """Rows that occupy a GPU with one thread each."""

    busy_teams: int = 64
    """Iterations of shared loops that are worth a team of threads each."""

    lone_launch_iterations: int = 2**13
    """Iterations of nests that are faster as one launch than as several."""


@dataclass(frozen=True)
class Gpu:
    """A GPU, with its limits and units."""

    gathers: bool = False
    """Each element has a thread: folds, pads and concatenations compute each where it lies."""

    factors_indices: bool = False
    """The compiler finds elements side by side only if an index is a sum of few terms."""

    tensor_floats: int = 0
    """Products of tensor cores that a product of float32 takes; 0 if it is computed by other units."""

    selects: bool = False
    """The threads of a block find together the iterations of a loop that meet its conditions."""

    tiles_attention: bool = False
    """Attention is a step, whose scores are not stored."""

    outer_products: Axis = Axis.UNROLLED
    """The kind of loops by which threads add outer products of tiles."""

    warpgroups: bool = False
    """There may be warp groups, which multiply large tiles."""

    block_threads: int = LARGE_BLOCK
    """Threads of a block of a GPU, at most."""

    shared_bytes: int = SHARED_BYTES
    """Bytes of shared memory of a block, at most."""

    row_registers: int = 0
    """Elements of the rows of its team that a thread keeps, at most."""

    costs: GpuCosts = GpuCosts()
    """Cost model by which schedules choose."""


@dataclass(frozen=True)
class Machine:
    """A machine that kernels are scheduled for, and the passes that fit kernels to it."""

    passes: tuple[Pass, ...]
    """Passes over whole functions, in this order."""

    kernel_passes: tuple[KernelPass, ...] = ()
    """Passes over each kernel that differs from all others, as equal kernels are printed once."""

    vectors: Vectors = Vectors()
    """Vectors, if the machine has some."""

    gpu: Gpu = Gpu()
    """Limits and units of the machine, if it is a GPU."""

    threads: bool = False
    """Threads share parallel loops."""

    multiplies_matrices: bool = False
    """Contractions of enough work are matrix products rather than reductions."""

    multiplies_bytes: bool = False
    """Contractions of signed bytes, whose sums have 32 bits, are products, too."""

    float64_sums: bool = False
    """Sums of floats are formed in float64, in languages whose numbers are float64 anyway."""

    locals_once: bool = False
    """A kernel declares its own arrays at its beginning, where each declaration costs."""

    packing: Packing = packs_nothing
    """Scratch memory that products need."""

    overlaps_scratch: bool = False
    """Scratch memory of a kernel lies where temporary arrays do that are not alive then."""

    local_bytes: int | None = None
    """Bytes of an array that a kernel may declare itself, where that differs from other machines."""

    passes_rows: bool = False
    """Kernels in loops get the addresses of rows."""

    literals_have_addresses: bool = True
    """Rows of literals have addresses, too."""

    aligned_bytes: int = 8
    """Temporary arrays begin at multiples of it, whatever the sizes are."""

    def finish(self, kernel: Kernel) -> Kernel:
        """Apply the passes for single kernels, once to each."""
        done = self._finished.get(kernel)
        if done is None:
            done = kernel
            for each in self.kernel_passes:
                done = each(done, self)
            self._finished[kernel] = done
        return done

    @cached_property
    def _finished(self) -> WeakKeyDictionary[Kernel, Kernel]:
        """The kernels that have been finished."""
        return WeakKeyDictionary()
