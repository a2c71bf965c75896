"""Gradients in int8 are near those in float32, and the same bits on every target."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from catgrad.examples import digits

from benchmarks.nets.images import resnet
from benchmarks.tiny.nets import classified, separable
from catgrad import Dim, Dtype, NdArrayType, Task, build, emit, layers, mse, ops, sgd
from catgrad.initialisers import Normal
from catgrad.ops.derivatives import DeclaredReverse
from catgrad.programs.ports import Kind
from catgrad.quantisation import quantise
from catgrad.terms.block import blocks
from catgrad.terms.term import edges
from tests.targets import LONG, on

BATCH = Dim("batch")


def depthwise():
    """Two depthwise-separable blocks with strides, ReLU6, and the means of channels."""
    model = separable(NdArrayType((BATCH, 3, 9, 9)), 8, 2, "block_0")
    x = model.target.table[0]
    model = model >> build(lambda y: ops.clamp(y, 0.0, 6.0), [x]) >> separable(x, 8, 1, "block_1")
    return model >> classified(model, 4)


def pooled():
    """Pool with and without padding, between two convolutions."""
    x = NdArrayType((BATCH, 2, 8, 6))
    first = layers.conv(x, 4, 3, padding=1, name="first")
    y = first.target.table[0]

    def between(image):
        rectified = ops.relu(image)
        pools = [ops.max_pool(rectified, 3, 2, 1), ops.avg_pool(rectified, 2)]
        return pools[0] + pools[1]

    pool = build(between, [y])
    return first >> pool >> layers.conv(pool.target.table[0], 3, 3, stride=2, padding=1, name="second")


def bent():
    """Dense layers with a smooth function, a gain, and a sum of two paths."""

    def forward(x):
        first = layers.parameter("first.weight", NdArrayType((6, 8)), Normal(0, 0.5))
        gain = ops.broadcast(layers.parameter("gain", NdArrayType((8,)), Normal(1, 0.2)), (BATCH, 8))
        second = layers.parameter("second.weight", NdArrayType((8, 8)), Normal(0, 0.5))
        third = layers.parameter("third.weight", NdArrayType((8, 3)), Normal(0, 0.5))
        hidden = ops.silu(x @ first) * gain
        return (hidden + ops.relu(hidden @ second)) @ third

    return build(forward, [NdArrayType((BATCH, 6))])


def parted():
    """Dense layers with fake quantisation, and the halves of an array in another order."""

    def forward(x):
        first = layers.parameter("first.weight", NdArrayType((6, 8)), Normal(0, 0.5))
        second = layers.parameter("second.weight", NdArrayType((8, 3)), Normal(0, 0.5))
        hidden = ops.relu(ops.fake_quantise(x, 0.02) @ ops.fake_quantise(first, 0.01))
        left, right = ops.split(ops.fake_quantise(hidden, 0.02, 0, None, 0, 255), (4, 4), 1)
        return ops.concat([right, left * 2.0], 1) @ ops.fake_quantise(second, 0.01)

    return build(forward, [NdArrayType((BATCH, 6))])


NETS = {
    "mlp": (lambda: digits.mlp().model, ""),
    "cnn": (lambda: digits.cnn().model, ""),
    "resnet": (lambda: resnet(2, 8, (4, 3, 1), blocks=((4, 1), (8, 2))), "norm.weight"),
    "depthwise": (depthwise, ""),
    "pooled": (pooled, ""),
    "bent": (bent, ""),
    "parted": (parted, ""),
}
"""Models, and the end of the names of parameters that do not train."""


@cache
def given(name):
    """Return a task, its arrays, its image that trains, inputs and cotangents of outputs."""
    model, frozen = NETS[name]
    task, rng = Task(model(), sgd(0.1), mse), np.random.default_rng(0)
    learner = emit(task, "numpy").load()().learner(0)
    arrays = {**learner.parameters, **learner.buffers}
    x, dy = (
        rng.normal(size=type.substitute({"batch": 8}).shape).astype(np.float32)
        for type in (*task.inputs, *task.outputs)
    )
    trained = [s.name for s in task.parameters if not frozen or not s.name.endswith(frozen)]
    # The derivative of mean squared errors is then a multiple of dy.
    targets = np.asarray(learner.predict(x)) - dy
    return task, arrays, quantise(task, arrays, [(x, targets)], train=trained), x, dy


def reversed_by(task, arrays, x, dy):
    """Return the gradients of parameters by the reference, by name."""
    own = {s.name: getattr(s.initial, "array", None) for s in (*task.buffers, *task.parameters)}
    term, inputs, outputs = task.entry(Kind.REV_P)
    found = term.run(*((own | arrays)[port.name] for port in inputs[:-2]), x, dy)
    return dict(zip((port.name for port in outputs), found, strict=True))


@cache
def gradients(name):
    """Return the gradients of parameters in integers by the reference, by name."""
    _, _, quantised, x, dy = given(name)
    return reversed_by(quantised, {}, x, dy)


@pytest.mark.parametrize("name", NETS)
def test_a_gradient_in_integers_points_where_that_in_floats_does(name):
    task, arrays, _, x, dy = given(name)
    wanted, found = reversed_by(task, arrays, x, dy), gradients(name)
    for parameter, gradient in found.items():
        assert gradient.dtype == np.float32
        length = np.linalg.norm(wanted[parameter])
        cosine = np.vdot(gradient, wanted[parameter]) / np.linalg.norm(gradient) / length
        # The first layers of random networks have the masks of values that are near 0.
        assert cosine > 0.95, parameter
        assert abs(np.linalg.norm(gradient) / length - 1) < 0.15, parameter


@pytest.mark.parametrize("name", NETS)
def test_products_are_sums_of_integers(name):
    _, _, quantised, _, _ = given(name)
    [op] = [op for op in quantised.model.H.x.table if isinstance(op, DeclaredReverse)]
    for block in blocks(op).values():
        types = [block.term.H.w.table[edge.sources[0]] for edge in edges(block.term) if edge.op.contracts]
        assert types and {type.dtype for type in types} <= {Dtype.int32, Dtype.int64}


@on("numpy", "torch", "c", "javascript", "wasm", long=LONG)
@pytest.mark.parametrize("name", NETS)
def test_all_targets_compute_the_same_gradients(target, name):
    _, _, quantised, x, dy = given(name)
    compiled = emit(quantised, target, functions=("predict", "rev_p")).load()()
    parameters = [slot.initial.array for slot in quantised.parameters]
    found = compiled.rev_p(*compiled.init_buffers(), *parameters, x, dy)
    for gradient, (parameter, array) in zip(found, gradients(name).items(), strict=True):
        np.testing.assert_array_equal(np.asarray(gradient), array, err_msg=parameter)


@pytest.mark.parametrize("scale", [1e-20, 2.0**-10, 0.0])
def test_a_gradient_is_linear_in_the_cotangent(scale):
    """Scales of cotangents are relative to the greatest, so that no bit is lost as it shrinks."""
    _, _, quantised, x, dy = given("cnn")
    whole, small = (reversed_by(quantised, {}, x, dy * np.float32(each)) for each in (1, scale))
    for parameter, gradient in whole.items():
        np.testing.assert_allclose(small[parameter], gradient * scale, rtol=1e-6)
