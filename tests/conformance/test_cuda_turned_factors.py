"""Transposed copies of factors of float32: the results are those of products that turn tiles."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from catgrad.backends.cuda.machine import MACHINE
from catgrad.backends.cuda.tools import simulating
from catgrad.examples import char_gpt

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, losses, ops
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.steps import kernels
from catgrad.loops.machine import GpuCosts
from catgrad.loops.passes.gpu.products.tilings import Tiling
from catgrad.programs.program import lower
from tests.conformance.c_models import classes
from tests.gpu import costs
from tests.kernels import prepared
from tests.targets import emit

NEEDS_SIMULATOR = pytest.mark.skipif(not simulating(), reason="only the simulator has several architectures")
LARGE_TILES = GpuCosts(multiprocessors=1, tensor_term_cycles=1000)
COPIES = replace(LARGE_TILES, launch_cycles=0, memory_bytes=2**40, split_gain=9 / 10)
"""Costs with which small factors are copied, and those with which none are."""


def majors(x, w, dy):
    return x @ w, dy @ ops.transpose(w), ops.transpose(x) @ dy


def copied(function, *shapes, dtype=Dtype.float32, tensor_floats=1):
    """Name the arrays that are copied by terms."""
    machine = replace(MACHINE, gpu=replace(MACHINE.gpu, tensor_floats=tensor_floats))
    term = build(function, [NdArrayType(shape, dtype) for shape in shapes])
    steps = kernels(compile_kernels(prepared(lower(term)), machine).steps)
    return [b.name for step in steps for b, _ in step.writes if b.name.endswith("by_terms")]


def test_a_factor_that_is_not_by_terms_is_copied_if_it_is_small_beside_the_product():
    assert len(copied(lambda x, w: x @ w, (32768, 768), (768, 2304))) == 1
    assert copied(lambda x, w: x @ ops.transpose(w), (32768, 2304), (768, 2304)) == []
    assert copied(lambda x, w: x @ w, (256, 768), (768, 2304)) == []
    assert copied(lambda x, w: x @ w, (Dim("n"), 768), (768, Dim("m"))) == []


def test_only_tf32_is_copied():
    shapes = (32768, 768), (768, 2304)
    assert copied(lambda x, w: x @ w, *shapes, dtype=Dtype.bfloat16) == []
    assert copied(lambda x, w: x @ w, *shapes, tensor_floats=0) == []
    assert copied(lambda x, w: x @ w, *shapes, tensor_floats=6) == []


@cache
def products(chosen):
    shapes = (136, 72), (72, 264), (136, 264)
    with costs(chosen):
        term = build(majors, [NdArrayType(shape) for shape in shapes])
        return emit(Functions({"majors": term}, "products"), "cuda", math="tf32")


@NEEDS_SIMULATOR
@pytest.mark.parametrize("order", ["forward", "backward", "random:1"])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_products_of_copies_are_exact(architecture, order, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", architecture)
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
    assert "by_terms(" in str(products(COPIES).files["products.cu"])
    assert "by_terms(" not in str(products(LARGE_TILES).files["products.cu"])
    rng = np.random.default_rng(0)
    x, w, dy = (rng.integers(-2, 3, s).astype(np.float32) for s in ((136, 72), (72, 264), (136, 264)))
    found = products(COPIES).load()().majors(x, w, dy)
    for each, wanted in zip(found, (x @ w, dy @ w.T, x.T @ dy), strict=True):
        np.testing.assert_array_equal(np.asarray(each), wanted)


@NEEDS_SIMULATOR
def test_steps_that_update_what_they_copy_have_the_bits_of_those_without_copies(monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", "sm_90a")
    model = char_gpt.gpt(64, 4, depth=2, width=64, heads=2, context=32)
    task = Task(model, char_gpt.optimiser(10), losses.cross_entropy, "text", classes(4, 32))
    x, y = np.random.default_rng(0).integers(0, 64, (2, 4, 32))
    found, numbers = [], []
    for cycles in (0.0, math.inf):
        monkeypatch.setattr(Tiling, "cycles_of_copying", lambda *_, cycles=cycles: cycles)
        with costs(COPIES):
            artifact = emit(task, "cuda", math="tf32")
        numbers.append(str(artifact.files["text.cu"]).count("by_terms<<<"))
        learner = artifact.load()().learner(seed=0)
        found.append([float(learner.step(x, y)) for _ in range(3)])
    assert numbers[0] > 0 and numbers[1] == 0
    assert found[0] == found[1] and found[0][0] > found[0][-1]
