"""Schedules for GPUs: grids, teams of threads, tiles in shared memory, and reductions in fixed trees."""

from catgrad.loops.machine import Pass
from catgrad.loops.passes.gpu.grids.fuse_rows import fuse_rows
from catgrad.loops.passes.gpu.grids.groups import group_launches
from catgrad.loops.passes.gpu.grids.one_block import repeat_in_one_block
from catgrad.loops.passes.gpu.grids.side_by_side import launch_side_by_side
from catgrad.loops.passes.gpu.grids.wide import mark_unaligned
from catgrad.loops.passes.gpu.products.call_library import call_library
from catgrad.loops.passes.gpu.products.channels_last import store_channels_last
from catgrad.loops.passes.gpu.products.pad_rows import pad_rows
from catgrad.loops.passes.gpu.products.split_products import split_products
from catgrad.loops.passes.gpu.products.turn_factors import turn_factors
from catgrad.loops.passes.gpu.schedule import privatise, schedule_threads, separate_warps
from catgrad.loops.passes.gpu.sums.block_sums import split_block_sums
from catgrad.loops.passes.gpu.sums.columns_of_rows import fuse_columns
from catgrad.loops.passes.gpu.sums.scatters import gather_scatters
from catgrad.loops.passes.gpu.sums.sorts import rank_sorts
from catgrad.loops.passes.gpu.sums.split_sums import split_sums
from catgrad.loops.passes.schedule.in_place import put_in_place
from catgrad.loops.passes.schedule.one_hot_sums import gather_one_hot_sums
from catgrad.loops.passes.simplify.contract_arrays import contract_arrays
from catgrad.loops.passes.simplify.dead_stores import eliminate_dead_stores, eliminate_self_copies
from catgrad.loops.passes.simplify.propagate_copies import propagate_copies
from catgrad.loops.passes.simplify.scalars import scalars_first


def _passes(*first: Pass) -> tuple[Pass, ...]:
    return (
        mark_unaligned,
        rank_sorts,
        gather_scatters,
        *first,
        gather_one_hot_sums,
        scalars_first,
        split_sums,
        fuse_rows,
        eliminate_dead_stores,
        put_in_place,
        eliminate_self_copies,
        contract_arrays,
        propagate_copies,
        fuse_columns,
    )


GPU_PASSES = (
    *_passes(split_products),
    store_channels_last,
    turn_factors,
    pad_rows,
    schedule_threads,
    group_launches,
    launch_side_by_side,
)
"""Passes for machines whose kernels are grids of threads."""

BLOCK_PASSES = (
    *_passes(split_products),
    schedule_threads,
    separate_warps,
)
"""The same passes for machines on which only whole blocks wait for each other, one kernel in each grid."""

LIBRARY_PASSES = (call_library, *GPU_PASSES)
"""The same passes, after large matrix products have become steps for a library."""

ONE_BLOCK_PASSES = (*_passes(split_block_sums), repeat_in_one_block)
"""Passes that make of a small function one kernel, which repeats it."""

GPU_KERNEL_PASSES = (privatise,)
"""Passes for each of their kernels."""
