"""Products of float32 in parts of bfloat16: numbers of many bits, errors, messages of ptxas, SASS."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import numpy as np
import pytest
from catgrad.backends.cuda.tools import simulating

from benchmarks.cuda.accuracy import TERMS, errors, numpy_errors
from catgrad import Dtype, Functions, NdArrayType, build, ops
from catgrad.errors import ToolError
from catgrad.loops.machine import GpuCosts
from tests.conformance.test_cuda_products import CASES, ORDERS, emitted, found, loaded
from tests.faults import planted
from tests.gpu import costs
from tests.targets import cannot, emit
from tests.unit.cuda.nvcc import NEEDS_NVCC, NEEDS_NVDISASM, compiled, kernels, require_clean

MISSING = cannot("cuda")
NEEDS_DEVICE = pytest.mark.skipif(bool(MISSING), reason=f"target cuda: {MISSING}")
NEEDS_SIMULATOR = pytest.mark.skipif(not simulating(), reason="only the simulator has several architectures")
ARCHITECTURES = ("sm_80", "sm_90a")
BITS = {"bf16x3": 15, "bf16x6": 20}
"""Bits of whole numbers that take all parts of a factor."""
PARTS = {"bf16x3": 2, "bf16x6": 3}
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
@pytest.mark.parametrize(
    ("is_left_long", "order"),
    [
        pytest.param(is_left, order, marks=() if is_left or order == ORDERS[-1] else pytest.mark.long)
        for is_left in (False, True)
        for order in ORDERS
    ],
)
@pytest.mark.covering
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("math", BITS)
def test_numbers_of_many_bits_have_exact_products(math, architecture, is_left_long, order, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", architecture)
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


@pytest.mark.parametrize("math", BITS)
def test_large_products_of_all_majors_have_a_version_for_warp_groups(math):
    text = str(emitted(math).files["products.cu"])
    for left, right in product(("true", "false"), repeat=2):
        assert f"fed_tiles<128, 32, {left}, {right}, {PARTS[math]}>" in text


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


PUBLISHED = "        publish_stores();\n        wait_for_products<0>();\n"
RELEASED = "            arrive_at_barrier(fed.empty() + stage);\n"
FAULTS = {
    "stores that are not published": (PUBLISHED, PUBLISHED.partition("\n")[2]),
    "no barrier after splitting": ("        meet_at<1, FED_CONSUMERS>();\n", ""),
    "no wait for the products before": (PUBLISHED, PUBLISHED.partition("\n")[0] + "\n"),
    "one set of tiles": ("number % 2 * Tiles::split_bytes", "0 * Tiles::split_bytes"),
    "a stage that is not released": (RELEASED, ""),
    "a part twice": ("x % 2 * 4 + half", "0 * 4 + half"),
    "products that are not added": ("last < 2 || i < 2 * last + 1", "i < 2 * last + 1"),
    "no swizzle of lines": ("i % 2 ^ lane % 8", "i % 2"),
    "rows of the other consumer": ("threadIdx.x / 128 * 8192", "(1 - threadIdx.x / 128) * 8192"),
}
"""Changes of the functions of the runtime that split tiles and multiply their parts."""


@cache
def right():
    """Emit a product of 128 rows and columns, and of six slices, by warp groups; it must be right."""
    types = [NdArrayType((128, 192)), NdArrayType((192, 128))]
    with costs(GpuCosts(multiprocessors=1)):
        artifact = emit(Functions({"y": build(ops.matmul, types)}, "products"), "cuda", math="bf16x6")
    assert "fed_tiles<128, 32, true, false, 3>" in artifact.text("products.cu")
    assert is_right(artifact)
    return artifact


def is_right(artifact):
    """Tell whether a product of numbers of many bits is exact, in any order of threads."""
    rng = np.random.default_rng(0)
    x, w = numbers((128, 192), True, BITS["bf16x6"], rng), numbers((192, 128), False, 0, rng)
    program = artifact.load()()
    try:
        found = [np.asarray(program.y(x, w)).reshape(128, 128) for _ in in_orders()]
    except ToolError:
        return False
    return all(np.array_equal(each, x @ w) for each in found)


def in_orders():
    """Set one order of threads after another."""
    with pytest.MonkeyPatch.context() as patch:
        for order in ORDERS:
            patch.setenv("CUDA_SIMULATOR_ORDER", order)
            yield order


@NEEDS_SIMULATOR
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_an_error_or_gives_other_numbers(fault):
    assert not is_right(planted(right(), *FAULTS[fault]))


@NEEDS_NVCC
@NEEDS_NVDISASM
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("math", BITS)
@pytest.mark.parametrize("overhead", [GpuCosts().tensor_term_cycles, 100])
def test_kernels_multiply_parts_on_tensor_cores_without_spills(math, architecture, overhead, tmp_path):
    types = [NdArrayType(shape) for shape in ((2048, 256), (256, 1024), (2048, 1024))]
    terms = {
        "y": build(ops.matmul, types[:2]),
        "dx": build(lambda w, dy: dy @ ops.transpose(w), types[1:]),
        "dw": build(lambda x, dy: ops.transpose(x) @ dy, types[::2]),
    }
    with costs(GpuCosts(tensor_term_cycles=overhead)):
        emit(Functions(terms, "products"), "cuda", math=math).write(tmp_path)
    require_clean(compiled("products.cu", tmp_path, f"-arch={architecture}"), 3)
    every = kernels(tmp_path / "products.cubin").items()
    code = [(name, text) for name, text in every if re.search("HG?MMA", text)]
    assert len(code) == 3
    for name, kernel in code:
        found = re.findall(r"HG?MMA\.\S+", kernel)
        if architecture == "sm_90a" and "operand_maps" in name:
            assert len(found) == {"bf16x3": 6, "bf16x6": 12}[math]
            assert {*found} <= {f"HGMMA.64x{n}x16.F32.BF16" for n in (64, 128)}
            assert "UTMALDG.4D" in kernel and kernel.count("USETMAXREG") == 2
            assert max(map(int, re.findall(r"\bR(\d+)\b", kernel))) < 232
        else:
            assert {*found} == {"HMMA.16816.F32.BF16"}
            assert "LDGSTS.E.BYPASS.128" in kernel
        assert not re.search(r"\b(LDL|STL)\b", kernel)
