"""Choose attention by warp groups (wgmma), where GPUs have them, in the kernels of tensor cores."""

from __future__ import annotations

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Loop, Substituted, rewritten
from catgrad.loops.ir.steps import Attend, AttentionPart
from catgrad.loops.passes.gpu.attention.exponentials import Exp2
from catgrad.loops.passes.gpu.attention.sizes import Sizes
from catgrad.loops.passes.gpu.attention.warpgroup_output import WarpgroupOutput
from catgrad.loops.passes.gpu.attention.warpgroup_reverse import OfKeys, OfQueries
from catgrad.loops.passes.gpu.products.roles import SHORT
from catgrad.loops.passes.gpu.products.thread_tiles import Side
from catgrad.types import Dtype

PARTS: dict[AttentionPart, type[WarpgroupOutput | OfQueries | OfKeys]] = {
    AttentionPart.OUTPUT: WarpgroupOutput,
    AttentionPart.QUERIES: OfQueries,
    AttentionPart.KEYS: OfKeys,
}

SHAPES = {
    (AttentionPart.OUTPUT, 64): (128, 128),
    (AttentionPart.OUTPUT, 128): (128, 128),
    (AttentionPart.QUERIES, 64): (128, 128),
    (AttentionPart.QUERIES, 128): (64, 64),
    (AttentionPart.KEYS, 64): (128, 64),
    (AttentionPart.KEYS, 128): (64, 32),
}
"""Rows of a block and columns of a tile, by the features of heads, which are those of whole boxes.

Registers hold scores, their cotangents and results: of keys with 128 features 128 a thread for results alone,
so that tiles are narrow there. Blocks of 64 rows share a multiprocessor in pairs.
"""


def warpgroup_attention(step: Attend, dtype: Dtype, exp2: Exp2, rows: Side) -> Loop | None:
    """Schedule what a block does for its rows by warp groups; None if they do not compute it."""
    width, keys = step.feature.extent, step.key.extent
    shape = SHAPES.get((step.part, width)) if isinstance(width, int) else None
    if dtype not in SHORT or shape is None or rows.width != shape[0] or step.column.extent != width:
        return None
    known = keys == step.query.extent if step.causal else isinstance(keys, int)
    if step.window is not None or not known:
        return None
    assert isinstance(width, int)
    tiles = PARTS[step.part](step, dtype, exp2, Sizes(dtype, *shape, 1, width, width))
    if not tiles.is_mapped:
        return None
    items = rewritten(tiles.items(), Substituted({tiles.rows.first: index(rows.first)}))
    return Loop(Variable(1, "tile"), items, axis=Axis.BLOCK, threads=tiles.team)
