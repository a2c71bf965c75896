"""Products of float32 in parts of bfloat16: numbers of many bits, errors, messages of ptxas, SASS."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.gpu_accuracy import TERMS, errors, numpy_errors
from catgrad import Dtype, Functions, NdArrayType, build, ops
from catgrad.loops.passes.gpu import tilings
from tests.conformance.test_cuda_products import CASES, ORDERS, found, loaded
from tests.targets import cannot, emit
from tests.unit.cuda.nvcc import NEEDS_NVCC, NEEDS_NVDISASM, compiled, kernels, require_clean

MISSING = cannot("cuda")
NEEDS_DEVICE = pytest.mark.skipif(bool(MISSING), reason=f"target cuda: {MISSING}")
BITS = {"bf16x3": 15, "bf16x6": 20}
"""Bits of whole numbers that take all parts of a factor."""
FEW = 12
"""Terms that are not 0, at most, so that sums are below 2²⁴."""


def numbers(shape, terms, bits, rng):
    """Draw whole numbers of some bits, or -1 and 1 in a few places along the terms."""
    if bits:
        return rng.integers(-(2**bits), 2**bits, shape).astype(np.float32)
    drawn = np.zeros(shape, np.float32)
    for row in drawn if terms else drawn.T:
        places = rng.permutation(len(row))[:FEW]
        row[places] = rng.choice([-1, 1], len(places))
    return drawn


@NEEDS_DEVICE
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("is_left_long", [False, True])
@pytest.mark.parametrize("math", BITS)
def test_numbers_of_many_bits_have_exact_products(math, is_left_long, order, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
    rng = np.random.default_rng(0)
    for case in CASES.values():
        shapes = [t.substitute({"n": 50}).shape for t in case.types(Dtype.float32)]
        by_terms = not case.transposed[0], case.transposed[1]
        long = is_left_long, not is_left_long
        arrays = [
            numbers(shape, terms, BITS[math] if is_long else 0, rng)
            for shape, terms, is_long in zip(shapes, by_terms, long, strict=True)
        ]
        np.testing.assert_array_equal(found(loaded(math), case, arrays), case.wanted(arrays), case.name)


@NEEDS_DEVICE
def test_six_products_are_as_accurate_as_float32_and_three_between_it_and_tf32():
    found = {math: errors(math) for math in ("float32", "tf32", "bf16x3", "bf16x6")}
    for k in TERMS:
        float32 = max(found["float32"][k], numpy_errors()[k])
        assert found["bf16x6"][k] < 1.5 * float32
        assert 5 * float32 < found["bf16x3"][k] < found["tf32"][k] / 50


@NEEDS_DEVICE
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, 2.0**128 * (1 - 2.0**-9)])
def test_numbers_without_parts_give_nan_in_their_row_alone(number):
    """Infinity leaves NaN to the next part; the greatest numbers are rounded to infinity first."""
    case = CASES["whole_nn"]
    arrays = [a + 4 for a in case.arrays(Dtype.float32)]
    arrays[0][5, 7] = number
    result = found(loaded("bf16x6"), case, arrays)
    assert np.isnan(result[5]).all() and np.isfinite(np.delete(result, 5, 0)).all()


@NEEDS_NVCC
@NEEDS_NVDISASM
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("math", BITS)
@pytest.mark.parametrize("overhead", [tilings.OVERHEAD, 100])
def test_kernels_multiply_parts_on_tensor_cores_without_spills(
    math, architecture, overhead, tmp_path, monkeypatch
):
    monkeypatch.setattr(tilings, "OVERHEAD", overhead)
    types = [NdArrayType(shape) for shape in ((2048, 256), (256, 1024), (2048, 1024))]
    terms = {
        "y": build(ops.matmul, types[:2]),
        "dx": build(lambda w, dy: dy @ ops.transpose(w), types[1:]),
        "dw": build(lambda x, dy: ops.transpose(x) @ dy, types[::2]),
    }
    emit(Functions(terms, "products"), "cuda", math=math).write(tmp_path)
    require_clean(compiled("products.cu", tmp_path, f"-arch={architecture}"), 3)
    code = [text for text in kernels(tmp_path / "products.cubin").values() if "HMMA" in text]
    assert len(code) == 3
    for kernel in code:
        assert {*re.findall(r"HMMA\.\S+", kernel)} == {"HMMA.16816.F32.BF16"}
        assert "LDGSTS.E.BYPASS.128" in kernel
        assert not re.search(r"\b(LDL|STL)\b", kernel)
