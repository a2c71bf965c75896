"""Passes: transformations of kernels that keep their meaning."""

from catgrad.loops.passes.schedule.accumulate_products import accumulate_products
from catgrad.loops.passes.schedule.fuse import fuse
from catgrad.loops.passes.schedule.in_place import put_in_place
from catgrad.loops.passes.schedule.inline_products import inline_products
from catgrad.loops.passes.schedule.one_hot_sums import gather_one_hot_sums
from catgrad.loops.passes.schedule.parallelise import parallelise
from catgrad.loops.passes.schedule.reductions import name_accumulators, schedule_reductions
from catgrad.loops.passes.schedule.sparse_updates import update_sparsely
from catgrad.loops.passes.schedule.strip_mine import strip_miner
from catgrad.loops.passes.schedule.unroll import unroll
from catgrad.loops.passes.simplify.contract_arrays import contract_arrays
from catgrad.loops.passes.simplify.dead_stores import eliminate_dead_stores, eliminate_self_copies
from catgrad.loops.passes.simplify.narrow import narrow
from catgrad.loops.passes.simplify.scalars import scalars_first, scalars_last
from catgrad.loops.passes.vectors.copy_transposed import transposed_copier
from catgrad.loops.passes.vectors.lanes_of_sums import expand_sums
from catgrad.loops.passes.vectors.overlap import overlap
from catgrad.loops.passes.vectors.pairwise_sums import pairwise_sums
from catgrad.loops.passes.vectors.vectorise import vectorise
from catgrad.loops.passes.vectors.vectorise_rows import vectorise_rows

STRIP_MINE = strip_miner()

PASSES = (
    gather_one_hot_sums,
    schedule_reductions,
    narrow,
    inline_products,
    scalars_first,
    fuse,
    scalars_last,
    eliminate_dead_stores,
    STRIP_MINE,
    put_in_place,
    accumulate_products,
    eliminate_self_copies,
    update_sparsely,
    contract_arrays,
    vectorise_rows,
    transposed_copier(),
    expand_sums,
    pairwise_sums,
    contract_arrays,
    name_accumulators,
)
"""Passes for machines whose kernels are functions of loops."""

KERNEL_PASSES = (unroll, parallelise, vectorise, overlap)
"""Passes for each of their kernels."""
