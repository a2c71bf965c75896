"""Schedules for GPUs: grids, teams of threads, tiles in shared memory, and reductions in fixed trees."""

from catgrad.loops.passes.contract_arrays import contract_arrays
from catgrad.loops.passes.dead_stores import eliminate_dead_stores
from catgrad.loops.passes.gpu.fuse_rows import fuse_rows
from catgrad.loops.passes.gpu.scalars_first import scalars_first
from catgrad.loops.passes.gpu.scatters import gather_scatters
from catgrad.loops.passes.gpu.schedule import privatise, schedule_threads
from catgrad.loops.passes.gpu.sorts import rank_sorts
from catgrad.loops.passes.gpu.split_sums import split_sums
from catgrad.loops.passes.in_place import put_in_place

GPU_PASSES = (
    rank_sorts,
    gather_scatters,
    split_sums,
    scalars_first,
    fuse_rows,
    eliminate_dead_stores,
    put_in_place,
    contract_arrays,
    schedule_threads,
)
"""Passes for machines whose kernels are grids of threads."""

GPU_KERNEL_PASSES = (privatise,)
"""Passes for each of their kernels."""
