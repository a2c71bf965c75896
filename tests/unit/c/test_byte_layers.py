"""Layers from int8 to int8 in C: products widen bytes, what follows is fused, and no floats are needed."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from catgrad.backends.c import cross

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.functors import Expand
from catgrad.loops.ir.nest import MatMul, Store, statements
from catgrad.loops.ir.scalar import Compute, Space
from catgrad.loops.ir.steps import kernels
from catgrad.loops.passes.vectors.pack import pack
from catgrad.loops.reference import run
from catgrad.ops.cast import Cast
from catgrad.ops.conv import Conv
from catgrad.ops.reduce import Broadcast
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.structural import Constant
from catgrad.testing import run_on
from tests.covering import some
from tests.kernels import VECTORS, compiled
from tests.targets import LONG, on

FACTORS = replace(VECTORS, multiplies_bytes=True)
ZERO, SHIFT = -3, 24
CORTEX = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=soft")
SOFT = {
    "gcc": (cross.ARM_GCC, (*cross.ARM_GCC.command(), "-Os", *CORTEX)),
    "clang": (
        cross.ZIG,
        tuple(
            "thumb-freestanding-eabi"
            if flag.startswith("thumb")
            else "-mcpu=cortex_m4"
            if flag.startswith("-mcpu")
            else flag
            for flag in cross.zig().command
        ),
    ),
}
FLOAT_CALL = re.compile(r"__aeabi_(f|d|i2f|ui2f|l2f|i2d|ui2d|l2d)\w*|__\w*[sd]f[23i]\w*")
"""Names of functions for arithmetic of floats in ARM's run-time ABI, and in compilers' libraries."""


def wide(x):
    return ops.cast(x, Dtype.int32)


def rounded(total, bias, axes):
    """Return clamp(⌊(m (total + bias) + 2ˢ⁻¹) / 2ˢ⌋ + zero) as int8."""
    sums = ops.cast(total + Broadcast(tuple(total.shape), axes)(bias), Dtype.int64)

    def number(value):
        return Constant(sums.type, value)()

    scaled = ops.shift_right(sums * number(12345) + number(2 ** (SHIFT - 1)), number(SHIFT)) + number(ZERO)
    return ops.cast(ops.minimum(ops.maximum(scaled, number(-128)), number(127)), Dtype.int8)


def dense(x, w, bias):
    return rounded(wide(x) @ wide(w), bias, (0,))


def transposed(x, w, bias):
    return rounded(wide(x) @ ops.permute(wide(w), 1, 0), bias, (0,))


def table(x, w, bias):
    """Return a function of bytes, by a table of all, of a dense layer."""
    places = wide(dense(x, w, bias))
    entries = ops.slice(ops.reshape(w, w.shape[0] * w.shape[1]), (0,), (256,))
    return ops.take(entries, places + Constant(places.type, 128)())


def convolution(strides, groups=1):
    op = Conv(strides, (0, 0), (1, 1), groups)

    def layer(x, w, bias):
        """Pad with the zero point, as where nothing is."""
        edges = [(0, 0), (0, 0), (1, 1), (1, 1)]
        within = ops.pad(x, edges)
        return rounded(op.body(wide(within), wide(w)), bias, (0, 2, 3))

    return layer


LAYERS = {
    "dense": (dense, (16, 300), (300, 100), (100,)),
    "one row": (dense, (1, 300), (300, 100), (100,)),
    "many rows": (dense, (300, 64), (64, 200), (200,)),
    "table": (table, (16, 300), (300, 100), (100,)),
    "transposed": (transposed, (16, 300), (100, 300), (100,)),
    "convolution": (convolution((1, 1)), (2, 8, 13, 14), (16, 8, 3, 3), (16,)),
    "strides": (convolution((2, 2)), (2, 8, 13, 14), (16, 8, 3, 3), (16,)),
    "depthwise": (convolution((1, 1), 16), (2, 16, 13, 14), (16, 1, 3, 3), (16,)),
    "groups": (convolution((1, 1), 2), (2, 16, 13, 14), (16, 8, 3, 3), (16,)),
}
EACH = pytest.mark.parametrize("name", LAYERS)
DENSE = ("dense", "table", "many rows", "transposed", "convolution", "strides", "groups")
"""Layers that are products of matrices."""


def arrays_of(name):
    _, x, w, bias = LAYERS[name]
    rng = np.random.default_rng(0)
    bytes = [rng.integers(-128, 128, shape).astype(np.int8) for shape in (x, w)]
    return [*bytes, rng.integers(-9999, 9999, bias).astype(np.int32)]


def term_of(name):
    return build(LAYERS[name][0], [NdArrayType(a.shape, Dtype[a.dtype.name]) for a in arrays_of(name)])


def assert_right(found, name):
    wanted = evaluate(term_of(name), *arrays_of(name))
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(wanted)) > 50


@pytest.mark.covering
@on("c", "wasm", "javascript", long=LONG)
@EACH
def test_layers_are_those_of_the_reference(target, name):
    assert_right(run_on(get_backend(target), term_of(name), *arrays_of(name)), name)


@pytest.mark.parametrize(
    "name",
    [
        name if name not in ("groups", "many rows") else pytest.param(name, marks=pytest.mark.long)
        for name in LAYERS
    ],
)
def test_kernels_are_the_layer_and_never_store_wide_factors(name):
    """No statement stores bytes as integers of 32 bits."""
    lowered = compiled(term_of(name), FACTORS)
    assert_right(run(lowered, *arrays_of(name)), name)
    products = [s for k in kernels(lowered.steps) for s in statements(k.body) if isinstance(s, MatMul)]
    assert bool(products) == (name in DENSE)
    assert {load.dtype for s in products for load in (s.left, s.right)} <= {Dtype.int8}
    stores = [s for k in kernels(lowered.steps) for s in statements(k.body) if isinstance(s, Store)]
    assert not any(isinstance(s.scalar, Compute) and _widens(s.scalar.op) for s in stores)


def _widens(op):
    return isinstance(op, Cast) and op.widens_bytes


def test_operations_after_a_product_are_computed_strip_by_strip():
    """300 rows of 200 sums have 240,000 bytes; a strip has 65,536 at most."""
    lowered = compiled(term_of("many rows"), FACTORS)
    stored = [buffer for kernel in kernels(lowered.steps) for buffer, _ in kernel.writes]
    assert not any(buffer.space is Space.WORKSPACE for buffer in stored)
    strips = [buffer for buffer in stored if buffer.type.dtype is Dtype.int32]
    assert strips and all(4 * prod(buffer.type.shape[1:]) <= 2**16 for buffer in strips)


@pytest.mark.parametrize(
    ("name", "count"), [("dense", 1), ("transposed", 1), ("one row", 0), ("convolution", 0)]
)
def test_weights_of_several_rows_are_packed_by_the_caller(name, count):
    lowered = compiled(term_of(name), FACTORS)
    assert len(pack(lowered, lowered.arguments)[1]) == count


def assembly_of(command, term, folder, options=cross.SIZE_FLAGS):
    """Compile a function for Cortex-M4 without instructions for floats."""
    backend = get_backend("c")
    function = lower(Expand(backend.has)(term), "f", doc="A layer.")
    backend.emit(Program("case", (function,))).write(folder)
    flags = [flag for flag in options if not flag.startswith("-Wl")]
    cross.said([*command, *flags, "-S", "case.c", "-o", "case.s"], folder)
    return (folder / "case.s").read_text("utf-8")


@pytest.mark.parametrize("compiler", some(SOFT, ["gcc"]))
def test_a_microcontroller_needs_no_floats(compiler, tmp_path):
    """Nothing is called of the library for floats; a layer of these calls it."""
    tool, command = SOFT[compiler]
    if reason := tool.missing():
        pytest.skip(reason)
    _, *shapes = LAYERS["convolution"]
    for name in LAYERS:
        found = assembly_of(command, term_of(name), tmp_path)
        assert not FLOAT_CALL.search(found), name
    floats = build(lambda x, w: ops.conv(x, w, padding=1), [NdArrayType(shape) for shape in shapes[:2]])
    assert FLOAT_CALL.search(assembly_of(command, floats, tmp_path))


def test_products_have_instructions_of_the_processor_without_options(tmp_path):
    tool, command = SOFT["gcc"]
    if reason := tool.missing():
        pytest.skip(reason)
    assert "smlad" in assembly_of(command, term_of("dense"), tmp_path, options=())
