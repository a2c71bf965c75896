"""Products of few tiles are split over their sums: they fill a GPU, in bounded memory, with the same bits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from catgrad.backends.cuda.machine import MACHINE
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.functors import Expand, reverse
from catgrad.loops.compile import canonical, compile_kernels
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.nest import loops, size_hint
from catgrad.loops.ir.scalar import Space
from catgrad.loops.ir.steps import kernels
from catgrad.loops.machine import GpuCosts
from catgrad.loops.memory_plan import byte_size
from catgrad.loops.passes.gpu.products.split_products import MAX_BYTES, split_products
from catgrad.loops.passes.gpu.products.tilings import Tiling, columns_of_group
from catgrad.ops.contract import Contract
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.testing import draw_arrays
from catgrad.types import widened
from tests.kernels import prepared
from tests.unit.cuda.build import NEEDS_CXX
from tests.unit.cuda.test_attention import ORDERS

CUDA = get_backend("cuda")
EXPAND = Expand(CUDA.has)
N = Dim("n")


def term(op, *types):
    return EXPAND(
        build(op, [NdArrayType(*each) if isinstance(each[0], tuple) else NdArrayType(each) for each in types])
    )


def dense(rows, columns, *batch, dtype=Dtype.float32):
    """Return the gradient of a dense layer's weight: a sum over the batch."""
    labels = tuple(range(2, 2 + len(batch)))
    return term(
        Contract((*labels, 0), (*labels, 1), (0, 1)), ((*batch, rows), dtype), ((*batch, columns), dtype)
    )


def convolution(batch, channels, side, out, size=3):
    """Return a convolution and its reverse."""
    x, w = (batch, channels, side, side), (out, channels, size, size)
    return EXPAND(
        reverse(build(lambda x, w: ops.conv(x, w, padding=size // 2), [NdArrayType(x), NdArrayType(w)]))
    )


def product(rows, terms, columns):
    """Return a product of matrices."""
    return term(lambda x, w: x @ w, (rows, terms), (terms, columns))


def compiled(each):
    return compile_kernels(prepared(lower(each)), MACHINE)


def tiled(lowered):
    """Yield the tiled nests of a function, the variables of their grid, and the terms of a block."""
    for kernel in kernels(lowered.steps):
        for nest in kernel.body:
            slices = [loop.variable for loop in loops([nest]) if loop.variable.name == "slice"]
            grid = [loop.variable for loop in loops([nest]) if loop.axis is Axis.BLOCK]
            if any(buffer.space is Space.SHARED for buffer, _ in nest.writes) and grid:
                yield nest, grid, size_hint(slices[0].extent) if slices else 1


def blocks(grid):
    return int(np.prod([-(-size_hint(v.extent) // v.step) for v in grid]))


FEW_TILES = {
    "a layer of GPT-2": lambda: dense(768, 768, 8, 1024, dtype=Dtype.bfloat16),
    "a projection of GPT-2": lambda: dense(768, 2304, 8192, dtype=Dtype.bfloat16),
    "a layer of a small GPT": lambda: dense(128, 512, 64, 64),
    "a layer of a small GPT, any batch": lambda: dense(128, 512, N, 64),
    "a product of MNIST": lambda: product(128, 784, 128),
    "a convolution of 16 channels": lambda: convolution(128, 16, 32, 16),
    "a convolution of 16 channels, any batch": lambda: convolution(N, 16, 32, 16),
    "a convolution of 64 channels": lambda: convolution(32, 64, 56, 64),
}


@pytest.mark.parametrize("name", FEW_TILES)
def test_products_of_few_tiles_fill_a_gpu(name):
    """Parts are the slow index of the grid, and their sums take bounded memory."""
    lowered = compiled(FEW_TILES[name]())
    grids = [(grid, terms) for _, grid, terms in tiled(lowered)]
    least = MACHINE.gpu.costs.multiprocessors * (1 / 2 if N in lowered.arguments[0].type.shape else 7 / 10)
    assert grids and all(blocks(grid) >= least for grid, _ in grids)
    split = [(grid, terms) for grid, terms in grids if any(v.name == "part" for v in grid)]
    assert split and all(grid[0].name == "part" and terms >= 64 for grid, terms in split)
    partial = {b for k in kernels(lowered.steps) for b, _ in k.writes if b.name.endswith("_parts")}
    assert partial and all(byte_size(buffer) <= MAX_BYTES for buffer in partial)


WHOLE = {
    "a forward product of GPT-2": lambda: product(8192, 768, 3072),
    "a square": lambda: product(4096, 4096, 4096),
    "few terms": lambda: product(128, 64, 128),
    "a gradient of 96 tiles": lambda: dense(768, 3072, 8192, dtype=Dtype.bfloat16),
}


@pytest.mark.parametrize("name", WHOLE)
def test_products_of_many_tiles_or_few_terms_stay_whole(name):
    [kernel] = kernels(compiled(WHOLE[name]()).steps)
    assert not any(loop.variable.name == "part" for loop in loops(kernel.body))


def test_parts_are_added_up_where_the_sum_is_read():
    """Store no gradient in a loop over layers, where another product comes between it and the update."""

    def step(w, x, dy):
        gradient = Contract((2, 0), (2, 1), (0, 1))(x, dy)
        dx = ops.tanh(dy @ ops.transpose(w))
        return w - 0.1 * gradient, dx

    function = prepared(lower(term(step, (128, 96), (4096, 128), (4096, 96))))
    split = split_products(canonical(function, MACHINE), MACHINE)
    written = [{buffer.name for buffer, _ in step.writes} for step in split.steps]
    place = next(n for n, step in enumerate(split.steps) if any("_parts" in b.name for b, _ in step.reads))
    assert place > 1 + written.index({"x1.product_parts"})
    assert any(buffer.name in written[place] for buffer, _ in split.steps[place + 1].reads)


RUN = {
    "whole ranges": lambda: product(128, 784, 128),
    "a shorter range": lambda: dense(96, 80, 1000),
    "two axes": lambda: dense(48, 40, 37, 64),
    "16 bits": lambda: dense(96, 80, 1000, dtype=Dtype.bfloat16),
    "an image": lambda: convolution(9, 12, 16, 16),
    "any batch": lambda: dense(96, 80, N, 64),
    "any batch of images": lambda: convolution(N, 12, 16, 16),
}


@cache
def loaded():
    functions = [lower(each(), f"f{n}", doc=name) for n, (name, each) in enumerate(RUN.items())]
    model = CUDA.emit(Program("products", tuple(functions))).load()()
    return {name: getattr(model, f"f{n}") for n, name in enumerate(RUN)}


@NEEDS_CXX
@pytest.mark.parametrize("name", RUN)
def test_parts_agree_with_the_whole_in_any_order_of_threads(name, monkeypatch):
    each = RUN[name]()
    assert any(grid[0].name == "part" for _, grid, _ in tiled(compiled(each)))
    arrays = draw_arrays([t.substitute({"n": 21}) for t in each.source.table], (-1.0, 1.0), 0)
    wanted, runs = evaluate(each, *arrays), []
    for order in ORDERS:
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        found = loaded()[name](*arrays)
        runs.append([np.asarray(x).tobytes() for x in found])
        for x, y in zip(found, wanted, strict=True):
            short = np.asarray(x).dtype != np.float32
            np.testing.assert_allclose(
                widened(np.asarray(x)), widened(y), rtol=1e-2 if short else 1e-4, atol=1e-4
            )
    assert all(bits == runs[0] for bits in runs)


sizes = st.integers(1, 5000)


@given(matrices=st.integers(1, 9), rows=sizes, columns=sizes, terms=sizes, tensor=st.booleans())
def test_the_best_tiles_are_among_the_fastest(matrices, rows, columns, terms, tensor):
    """Sums in parts are computed with the tiles that the parts were chosen for."""
    tiling = Tiling(matrices, rows, columns, terms, 2 if tensor else 4, tensor, GpuCosts())
    patch = tiling.best_patch()
    assert all(tiling.cycles(patch) <= tiling.cycles(other) for other in tiling.patches)
    height, width = tiling.sides(patch)
    assert tiling.blocks(patch) * height * width >= matrices * rows * columns
    for parts in tiling.numbers_of_parts(3):
        assert any(parts * tiling.blocks(each) <= 3 * tiling.costs.multiprocessors for each in tiling.patches)


@given(tiles=st.integers(17, 1000))
def test_few_blocks_of_groups_of_columns_have_no_tile(tiles):
    """A block that stays takes every so many tiles: the same ones might get all that are none."""
    group = columns_of_group(tiles)
    assert 8 < group <= 16 and -(-tiles // group) * group <= 1.06 * tiles


@pytest.mark.parametrize(("rows", "terms", "columns"), [(768, 8192, 2304), (4096, 256, 6400)])
@pytest.mark.parametrize("math", [0, 6])
def test_a_product_of_many_columns_has_as_many_blocks_as_tiles(rows, terms, columns, math):
    machine = replace(MACHINE, gpu=replace(MACHINE.gpu, tensor_floats=math))
    [(_, grid, _), *_] = tiled(compile_kernels(prepared(lower(product(rows, terms, columns))), machine))
    height, width = (v.step for v in grid[-2:])
    tiles = -(-rows // height) * -(-columns // width)
    parts = grid[0].extent if grid[0].name == "part" else 1
    assert blocks(grid) <= 1.06 * parts * tiles
