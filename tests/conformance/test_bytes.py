"""Integers of 8 bits on every target: they are stored, moved, compared and cast, and have no arithmetic."""

from __future__ import annotations

import operator
import re

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, Task, build, emit, layers, mse, ops, optimisers
from catgrad.errors import DtypeError
from catgrad.formats import safetensors
from catgrad.functors import reverse
from catgrad.initialisers import Filled, Stored
from catgrad.learn.fit import checkpoint
from catgrad.ops.literal import array
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.terms.structural import Constant
from catgrad.testing import run_on
from tests.targets import LONG, on, on_all_targets

BYTES = [dtype for dtype in Dtype if dtype.is_integer and not dtype.is_numeric]
WIDE = [Dtype.float32, Dtype.int32, Dtype.uint32, Dtype.bool]
ORDERS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
EACH = pytest.mark.parametrize("dtype", BYTES, ids=str)


def types_of(arrays):
    return [NdArrayType(x.shape, Dtype[x.dtype.name]) for x in arrays]


def given(dtype):
    """Return two arrays with all extremes, and numbers within and outside the range."""
    limits, rng = dtype.limits, np.random.default_rng(0)
    x, y = (rng.integers(limits.min, limits.max + 1, (3, 4)).astype(dtype.numpy) for _ in "xy")
    x[0], y[0] = (limits.max, limits.min, 1, 0), (limits.min, limits.max, 1, 0)
    whole = np.array([0, -1, 127, 128, 255, 256, 2**31 - 1, -(2**31)], np.int32)
    real = np.array([0, -0.5, 127.9, 128, 255.5, 1e9, -1e9, np.nan, np.inf, -np.inf], np.float32)
    return x, y, whole, real


def everything(dtype):
    """Return a function of all that programs do with elements of 8 bits."""
    least, most = dtype.limits.min, dtype.limits.max

    def function(x, y, whole, real):
        column, row = ops.slice(y, (0, 0), (3, 1)), ops.slice(y, (0, 0), (1, 4))
        moved = ops.concat([ops.flip(ops.permute(x, 1, 0), 1), ops.pad(column, [(0, 0), (0, 2)])])
        rows = ops.gather(moved, array([3, 0, 5], Dtype.int32))
        edges = ops.concat([array([[least, most]], dtype), row], 1)
        chosen = ops.select(x > y, x, Constant(x.type, most)())
        casts = [ops.cast(x, after) for after in (*WIDE, *BYTES)]
        back = [ops.cast(value, dtype) for value in (whole, real, x < y)]
        return [moved, rows, edges, chosen, *(order(x, y) for order in ORDERS), *casts, *back]

    return function


@EACH
def test_the_reference_is_that_of_numpy(dtype):
    x, y, whole, real = given(dtype)
    found = evaluate(build(everything(dtype), types_of(given(dtype))), x, y, whole, real)
    moved = np.concatenate([x.T[:, ::-1], np.pad(y[:, :1], [(0, 0), (0, 2)])])
    limits = dtype.limits
    edges = np.concatenate([[[limits.min, limits.max]], y[:1]], 1)
    casts = [x.astype(after.numpy) for after in (*WIDE, *BYTES)]
    clipped = np.trunc(np.clip(np.nan_to_num(real), limits.min, limits.max))
    back = [x.astype(dtype.numpy) for x in (whole, clipped, x < y)]
    wanted = [moved, moved[[3, 0, 5]], edges, np.where(x > y, x, limits.max)]
    for a, b in zip(found, [*wanted, *(order(x, y) for order in ORDERS), *casts, *back], strict=True):
        np.testing.assert_array_equal(a, b)


@on_all_targets
@EACH
def test_programs_agree_with_the_reference(target, dtype):
    term = build(everything(dtype), types_of(given(dtype)))
    wanted = evaluate(term, *given(dtype))
    for a, b in zip(run_on(get_backend(target), term, *given(dtype)), wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


ARITHMETIC = {
    "+": lambda x: x + x, "*": lambda x: x * 3, "-": operator.neg, "//": lambda x: x // x,
    "**": lambda x: x**2, "&": lambda x: x & x, "@": lambda x: x @ x, "sum": ops.sum, "max": ops.max,
    "argmax": ops.argmax, "cumsum": lambda x: ops.cumsum(x, 0), "sort": lambda x: ops.sort(x, 0),
    "scatter": lambda x: ops.scatter_add(x, array([0, 1], Dtype.int32), 2),
    "iota": lambda x: ops.iota(2, x.dtype),
}  # fmt: skip


@pytest.mark.parametrize("name", ARITHMETIC)
@EACH
def test_arithmetic_is_refused(name, dtype):
    kind = re.escape(f"{dtype.value}[")
    with pytest.raises(DtypeError, match=f"but they are {kind}.*; cast (one of )?them") as raised:
        build(ARITHMETIC[name], [NdArrayType((2, 2), dtype)])
    assert "\n" not in str(raised.value)


@EACH
def test_reverse_derivatives_have_no_cotangents_of_bytes(dtype):
    term = reverse(
        build(lambda x, w: ops.cast(x, Dtype.float32) * w, [NdArrayType((2,), dtype), NdArrayType((2,))])
    )
    assert len(term.source.table) == 3
    assert [str(t) for t in term.target.table] == ["f32[2]", "f32[2]"]


def images(dtype, first):
    """Return a task on images of bytes or floats, scaled to 1."""
    X, batch = NdArrayType((16, 1, 8, 8), dtype), NdArrayType((16,))
    scaled = build(lambda x: ops.cast(x, Dtype.float32) / 255, [X])
    Y = scaled.target.table[0]
    if first == "conv":
        hidden = layers.conv(Y, 4, size=3, padding=1)
        flat = layers.flatten(hidden.target.table[0])
    else:
        hidden, flat = layers.flatten(Y), layers.identity(NdArrayType((16, 64)))
    last = NdArrayType((256 if first == "conv" else 64,))
    return Task(
        scaled >> hidden >> flat >> layers.dense(batch, last, NdArrayType((10,))), optimisers.sgd(0.1), mse
    )


@pytest.mark.parametrize("first", ["conv", "dense"])
def test_the_cast_needs_no_memory_that_floats_do_not(first):
    """Compute it where its result is read, as a scaling of floats would be."""

    def workspaces(dtype):
        source = emit(images(dtype, first), "c").source
        return re.findall(r"size_t \w+_workspace_bytes\(.*?\)\n\{.*?\n\}", source, re.DOTALL)

    assert workspaces(Dtype.uint8) == workspaces(Dtype.float32) != []


@on("numpy", "torch", "jax", "c", "ggml", "javascript", "wasm", "onnx", long=("jax", *LONG))
@EACH
def test_tables_of_bytes_are_saved_and_loaded(target, dtype, tmp_path):
    type, first = NdArrayType((2, 2), dtype), np.array([[dtype.limits.min, 1], [2, dtype.limits.max]])

    def forward(x):
        mask = layers.buffer("mask", type, Stored(first.astype(dtype.numpy)))
        layers.update("mask", ops.flip(mask))
        return (
            x * ops.cast(mask, Dtype.float32) * layers.parameter("weight", NdArrayType((2, 2)), Filled(1.0))
        )

    task = Task(build(forward, [NdArrayType((2, 2))]), optimisers.sgd(0.1), mse)
    model, ones = emit(task, target).load()(), np.ones((2, 2), np.float32)
    learner, other = model.learner(0), model.learner(0)
    learner.step(ones, ones)
    checkpoint.save(learner, tmp_path / "a.safetensors")
    found = safetensors.read(tmp_path / "a.safetensors")["mask"]
    assert found.dtype == dtype.numpy and found.tolist() == first[::-1, ::-1].tolist()
    checkpoint.load(other, tmp_path / "a.safetensors")
    np.testing.assert_array_equal(other.predict(ones), learner.predict(ones))
