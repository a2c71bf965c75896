"""Epilogues of products on tensor cores: runs of columns, their tails, and accesses of 16 bytes.

Factors are small whole numbers, so that results are exact.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from catgrad.backends.cuda.tools import simulating

from catgrad import Dtype, Functions, NdArrayType, build, ops
from catgrad.loops.machine import GpuCosts
from tests.faults import planted
from tests.gpu import costs
from tests.targets import emit
from tests.unit.cuda.nvcc import NEEDS_NVCC, NEEDS_NVDISASM, compiled, kernels, require_clean

NEEDS_SIMULATOR = pytest.mark.skipif(not simulating(), reason="only the simulator has several architectures")
ORDERS = ("forward", "backward", "random:1")
SIZES = {
    "whole": (128, 64, 256),
    "narrow": (128, 64, 64),
    "tails": (140, 72, 268),  # columns of which the last tile has 12, and rows of which it has 12
    "odd columns": (140, 72, 271),
    "short rows": (140, 72, 100),
}
RUNS = ("whole", "narrow", "tails", "short rows")
"""Products whose arrays have rows of whole runs."""


def several(x, w, b, y):
    """Return a product, and two arrays of other dtypes that follow it."""
    product = x @ w
    wide = ops.cast(product, Dtype.float32) if product.dtype is not Dtype.float32 else product
    total = ops.relu(wide + ops.broadcast(b, wide.shape)) + y
    return product, total, ops.cast(total, Dtype.bfloat16)


def types(name, dtype):
    m, k, n = SIZES[name]
    floats = [NdArrayType(shape, Dtype.float32) for shape in [(n,), (m, n)]]
    return [NdArrayType(shape, dtype) for shape in [(m, k), (k, n)]] + floats


@cache
def emitted(dtype, names=tuple(SIZES)):
    with costs(GpuCosts(multiprocessors=1, term_cycles=100)):
        terms = {name.replace(" ", "_"): build(several, types(name, dtype)) for name in names}
        return emit(
            Functions(terms, "epilogues"), "cuda", math="tf32" if dtype is Dtype.float32 else "float32"
        )


@cache
def loaded(dtype):
    return emitted(dtype).load()()


@NEEDS_SIMULATOR
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", [Dtype.bfloat16, Dtype.float16, Dtype.float32], ids=lambda d: d.value)
def test_epilogues_are_exact_on_both_architectures(dtype, architecture, order, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", architecture)
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
    for name in SIZES:
        for found, wanted in results(loaded(dtype), name, dtype):
            np.testing.assert_array_equal(found, wanted, name)


def results(program, name, dtype):
    """Pair the results of a program with NumPy's."""
    rng = np.random.default_rng(0)
    drawn = [rng.integers(-2, 3, type.shape).astype(type.dtype.numpy) for type in types(name, dtype)]
    x, w, b, y = (each.astype(np.float64) for each in drawn)
    total = np.maximum(x @ w + b, 0) + y
    found, exact = getattr(program, name.replace(" ", "_"))(*drawn), (x @ w, total, total)
    return [(each, wanted.astype(each.dtype)) for each, wanted in zip(found, exact, strict=True)]


def is_right(program):
    return all(np.array_equal(x, y) for x, y in results(program, "tails", Dtype.bfloat16))


@pytest.mark.parametrize("dtype", [Dtype.bfloat16, Dtype.float32], ids=lambda d: d.value)
def test_columns_are_in_runs_if_arrays_have_them_side_by_side(dtype):
    text = str(emitted(dtype, RUNS).files["epilogues.cu"])
    assert len(re.findall(r" join_runs\w*\(", text)) == len(RUNS)
    assert text.count(" load_run(") == 2 * len(RUNS)
    assert len(re.findall(r" store_run\w*\(", text)) == 3 * len(RUNS)
    odd = str(emitted(dtype, ("odd columns",)).files["epilogues.cu"])
    assert " join_runs" not in odd


FAULTS = {
    "sums of the other thread": ("threadIdx.x % 2 == 1", "threadIdx.x % 2 == 0"),
    "no exchange": ("__shfl_xor_sync(0xffffffff, is_odd ? first : second, 1)", "second"),
    "runs that overlap": ("% 2 * 8", "% 2 * 4"),
    "a last run that is left out": (" < 268) {", " < 264) {"),
}
"""Changes of the exchange of sums, and of where its runs are."""


@NEEDS_SIMULATOR
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_gives_other_numbers(fault):
    artifact = emitted(Dtype.bfloat16, ("tails",))
    wrong = planted(artifact, *FAULTS[fault], times=None)
    assert is_right(artifact.load()()) and not is_right(wrong.load()())


@NEEDS_NVCC
@NEEDS_NVDISASM
@pytest.mark.covering
@pytest.mark.parametrize("dtype", [Dtype.bfloat16, Dtype.float32], ids=lambda d: d.value)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_all_accesses_of_an_epilogue_are_wide(dtype, architecture, tmp_path):
    emitted(dtype, RUNS).write(tmp_path)
    require_clean(compiled("epilogues.cu", tmp_path, f"-arch={architecture}"), len(RUNS))
    code = [text for name, text in kernels(tmp_path / "epilogues.cubin").items() if "compute" in name]
    accesses = [re.findall(r"\b(?:LDG\.E|STG\.E)\.?(\w*)", text) for text in code]
    assert sum("128" in each for each in accesses) == len(RUNS)
    assert all(each.count("") <= 1 and "U16" not in each for each in accesses)  # but for the word that skips
