"""Products of float32 without tensor cores: rings of tiles, and patches of 8 × 8 sums in registers."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from catgrad.backends.cuda.machine import MACHINE

from catgrad import Dtype, Functions, NdArrayType, build, ops
from catgrad.loops.compile import compile_kernels
from catgrad.loops.passes.gpu.products.tilings import Tiling
from catgrad.programs.program import lower
from tests.gpu import run_in_teams
from tests.kernels import prepared
from tests.laws.test_gpu_schedules import without_barriers, without_waits
from tests.targets import emit
from tests.unit.cuda.build import NEEDS_CXX, ORDERS
from tests.unit.cuda.nvcc import NEEDS_NVCC, NEEDS_NVDISASM, compiled, kernels, require_clean

MAJORS = {
    "forward": (lambda x, w: x @ w, "mk kn"),
    "left": (lambda dy, w: dy @ ops.transpose(w), "mk nk"),
    "right": (lambda x, dy: ops.transpose(x) @ dy, "km kn"),
    "computed": (lambda x, w: ops.relu(x) @ (w * w), "mk kn"),
}
"""Products of m × k × n, and the axes of their factors."""


def term(major, m, k, n, dtype=Dtype.float32):
    function, axes = MAJORS[major]
    sizes = {"m": m, "k": k, "n": n}
    return build(function, [NdArrayType(tuple(sizes[a] for a in x), dtype) for x in axes.split()])


def integers(each):
    """Draw arrays of small integers, of which all sums are exact."""
    rng = np.random.default_rng(0)
    return [rng.integers(-8, 9, t.shape).astype(t.dtype.numpy) for t in each.source.table]


def expected(major, x, y):
    """Compute a product by NumPy."""
    factors = {
        "forward": lambda: (x, y),
        "left": lambda: (x, y.T),
        "right": lambda: (x.T, y),
        "computed": lambda: (np.maximum(x, 0), y * y),
    }
    left, right = factors[major]()
    return left @ right


@NEEDS_CXX
@pytest.mark.parametrize("patch", [(8, 8), (4, 8), (8, 1), (4, 4), (2, 4)])
def test_products_are_exact_in_any_order_of_threads(patch, monkeypatch):
    """Whole tiles and tails, in all majors and patches."""
    monkeypatch.setattr(Tiling, "best_patch", lambda self: patch)
    cases = {
        f"{major}_{m}": term(major, m, k, n)
        for major, (m, k, n) in product(MAJORS, [(128, 32, 128), (131, 43, 141)])
    }
    model = emit(Functions(cases, "products"), "cuda").load()()
    for name, each in cases.items():
        arrays = integers(each)
        wanted = expected(name.partition("_")[0], *arrays)
        for order in ORDERS[:3]:
            monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
            found = np.asarray(getattr(model, name)(*arrays))
            np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("major", MAJORS)
def test_a_ring_needs_its_barriers_and_its_waits(major, monkeypatch):
    monkeypatch.setattr(Tiling, "best_patch", lambda self: (1, 2))
    each = term(major, 16, 64, 32)
    arrays = integers(each)
    lowered = compile_kernels(prepared(lower(each)), MACHINE)
    [found] = run_in_teams(lowered, *arrays)
    np.testing.assert_array_equal(found, expected(major, *arrays))
    with pytest.raises(AssertionError, match="without a barrier between threads"):
        run_in_teams(lowered.map_kernels(without_barriers), *arrays)
    if major != "computed":
        [wrong] = run_in_teams(lowered.map_kernels(without_waits), *arrays)
        assert not np.array_equal(found, wrong)


@NEEDS_NVCC
@NEEDS_NVDISASM
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_multiplications_are_most_of_the_instructions(architecture, tmp_path):
    """Per term, 64 multiplications take four loads of 16 bytes; two blocks share the registers."""
    functions = {name: term(name, 32768, 768, 2304) for name in ("forward", "left", "right")}
    artifact = emit(Functions(functions, "products"), "cuda")
    artifact.write(tmp_path)
    require_clean(compiled("products.cu", tmp_path, f"-arch={architecture}"), 3)
    text = (tmp_path / "products.cu").read_text()
    assert text.count("__launch_bounds__(256, 2)") == text.count("add_products<8, 8, 8>") == 3
    for body in kernels(tmp_path / "products.cubin").values():
        count = {name: len(re.findall(rf"\b{name}\b", body)) for name in ("FFMA", "LDS.128", "LDGSTS")}
        assert count["FFMA"] == 512 and count["LDS.128"] == 32 and count["LDGSTS"] > 0
        assert max(map(int, re.findall(r"\bR(\d+)\b", body))) < 128
