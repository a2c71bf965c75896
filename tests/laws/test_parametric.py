"""Parametric kernels: nests that differ in extents alone are one function, with the same results."""

from __future__ import annotations

import re

import pytest

from catgrad import NdArrayType, Task, build, layers, losses, ops, optimisers
from catgrad.loops.ir.steps import kernels
from catgrad.loops.passes.parametric import parametric
from catgrad.verification import verify
from tests.kernels import SCALARS, compiled
from tests.targets import emit


def task():
    """Make a task whose optimiser updates parameters of several shapes in the same way."""
    first = layers.dense(NdArrayType((8,)), NdArrayType((6,)), NdArrayType((12,)), name="first")
    second = layers.dense(NdArrayType((8,)), NdArrayType((12,)), NdArrayType((5,)), name="second")
    return Task(first >> second, optimisers.adamw(0.01), losses.mse, "net")


def nests(term):
    return [parametric(kernel) for kernel in kernels(compiled(term, SCALARS).steps)]


@pytest.mark.parametrize("shape", [(7,), (3, 4)])
def test_extents_of_elementwise_nests_are_arguments(shape):
    array = NdArrayType(shape)
    [(_, extents)] = nests(build(lambda x, y: ops.exp(x) * y, [array, array]))
    assert tuple(extents.values()) == shape


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ops.exp(ops.transpose(x)),
        lambda x: ops.exp(ops.pad(x, ((1, 0), (0, 0)))),
        lambda x: ops.sum(x, (0,)),
        lambda x: x + ops.broadcast(ops.sum(x, (0,)), x.shape),
    ],
)
def test_extents_of_other_nests_are_not(f):
    assert None in nests(build(f, [NdArrayType((3, 4))]))


@pytest.mark.parametrize(("target", "source"), [("c", "net.c"), ("cuda", "net.cu")])
def test_updates_of_parameters_of_several_shapes_are_one_function(target, source):
    text = emit(task(), target, ("predict", "grads", "update")).text(source)
    roots = re.findall(r"= sqrtf\(", text)
    assert len(roots) == 2, "one function for biases, and one for weights, which decay"


@pytest.mark.parametrize("target", ["c", "cuda"])
def test_steps_with_shared_updates_are_those_of_numpy(target):
    verify(emit(task(), target)).check()


def test_initial_values_of_several_shapes_are_launches_of_one_kernel():
    text = emit(task(), "cuda").text("net.cu")
    assert len(re.findall(r"__global__ void compute_exp_avg\(", text)) == 1
    launches = re.findall(r"compute_exp_avg<<<(\d+), 256, 0, stream>>>\((\d+), ", text)
    assert len(launches) == 8
    assert all(int(blocks) == -(-int(size) // 256) for blocks, size in launches)
