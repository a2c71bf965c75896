"""Products of warp groups: which products have a version for them, and which boxes of arrays it takes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from catgrad.backends.cuda.machine import MACHINE

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.functors import Expand
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.boxes import box
from catgrad.loops.ir.nest import loops, perfect_nest
from catgrad.loops.ir.steps import kernels
from catgrad.loops.machine import GpuCosts
from catgrad.loops.passes.gpu.products import tilings
from catgrad.ops.contract import Contract
from catgrad.programs.program import lower
from tests.kernels import has, prepared


def product(left, right, x, w):
    x, w = (ops.transpose(a) if t else a for a, t in ((x, left), (w, right)))
    return ops.relu(x @ w)


def compiled(function, shapes, dtype=Dtype.bfloat16, most=1, tensor_floats=0):
    """Compile a function with tiles of 128 rows, for a GPU with this number of multiprocessors.

    Tensor cores multiply float32 by so many products, or not.
    """
    term = Expand(has)(build(function, [NdArrayType(shape, dtype) for shape in shapes]))
    costs = GpuCosts(multiprocessors=most, tensor_term_cycles=100)
    machine = replace(MACHINE, gpu=replace(MACHINE.gpu, tensor_floats=tensor_floats, costs=costs))
    return compile_kernels(prepared(lower(term)), machine)


def versions(lowered):
    """Count the products that have two versions."""
    return sum(loop.axis is Axis.EITHER for k in kernels(lowered.steps) for loop in loops(k.body))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_a_large_product_has_two_versions(left, right):
    shapes = (72, 16), (16, 40)
    given = [s[::-1] if t else s for s, t in zip(shapes, (left, right), strict=True)]
    assert versions(compiled(partial(product, left, right), given)) == 1


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("tensor_floats", [0, 1, 6])
def test_a_product_of_float32_has_two_versions_if_it_is_one_of_tensor_cores(left, right, tensor_floats):
    shapes = (72, 16), (16, 40)
    given = [s[::-1] if t else s for s, t in zip(shapes, (left, right), strict=True)]
    function = partial(product, left, right)
    lowered = compiled(function, given, Dtype.float32, tensor_floats=tensor_floats)
    assert versions(lowered) == (tensor_floats > 0)


@pytest.mark.parametrize(
    ("batch", "dimensions"),
    [((8, 1024), [(256, 1), (512, 256), (16, 512 * 256)]), ((24, 1000), [(256, 1), (24000, 256)])],
)
def test_parts_of_a_sum_over_the_axes_of_a_batch_are_of_one_map(batch, dimensions):
    """Equal parts are a dimension of their own; the last one may be shorter."""
    lowered = compiled(Contract((2, 3, 0), (2, 3, 1), (0, 1)), [(*batch, 256)] * 2, most=132)
    [part, *_] = kernels(lowered.steps)
    assert versions(lowered) == 1 and len(lowered.steps) == 2
    whole = next(loop for loop in loops(part.body) if loop.axis is Axis.WARPGROUP)
    (row, _, term), [s] = perfect_nest([whole])
    found = box(s.scalar.operands[0].operands[0], row, term)
    assert not found.by_terms
    assert [(d.size, d.stride) for d in found.dimensions] == dimensions


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: ops.flip(x, 0) @ w,  # a negative stride
        lambda x, w: ops.sin(x) @ ops.slice(w, (0, 4), (64, 68)),  # an offset of no multiple of 16 bytes
    ],
)
def test_operands_that_no_map_describes_have_one_version(function):
    assert versions(compiled(function, [(128, 64), (64, 72)])) == 0


def test_parts_of_a_grid_have_one_version():
    def both(x, w, y, v):
        return x @ w, y @ v

    lowered = compiled(both, [(128, 16), (16, 64)] * 2)
    assert len(lowered.steps) == 1 and versions(lowered) == 0


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [
        (((128, 33), (33, 64)), Dtype.bfloat16),  # rows of no multiple of 16 bytes
        (((128, 64), (64, 37)), Dtype.bfloat16),
        (((128, 64), (64, 64)), Dtype.float32),
        (((32, 64), (64, 64)), Dtype.bfloat16),  # too few rows for a tile of two warp groups
    ],
)
def test_other_products_have_one_version(shapes, dtype):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tilings, "WIDE_PATCHES", ())
        assert versions(compiled(partial(product, False, False), shapes, dtype)) == 0
