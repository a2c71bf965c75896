"""Matrix products on tensor cores: all majors, dtypes and tails; bugs in their rings are noticed.

Factors are small whole numbers, so that sums are exact, and results have the bits of NumPy's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from catgrad.backends.cuda.tools import simulating

from catgrad import Dim, Dtype, Functions, NdArrayType, build, ops
from catgrad.loops.machine import GpuCosts
from tests.gpu import costs
from tests.targets import cannot, emit

MISSING = cannot("cuda")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"target cuda: {MISSING}")
ORDERS = ("forward", "backward", "random:1")
SIZES = {
    "whole": (64, 96, 64),
    "short": (40, 16, 56),
    "tails": (72, 104, 40),
    "odd": (33, 71, 37),
    "wide": (136, 200, 264),
}
"""Rows, terms, columns: of whole tiles, of one slice, of 16 bytes, of odd numbers, of tiles of 128 x 256."""
KINDS = {
    "bf16": Dtype.bfloat16,
    "f16": Dtype.float16,
    "tf32": Dtype.float32,
    "bf16x3": Dtype.float32,
    "bf16x6": Dtype.float32,
}
"""Dtypes of 16 bits, and the options `math` for float32."""
ROWS = 50


@dataclass(frozen=True)
class Case:
    """A product of factors that may be transposed, so that terms lie side by side or not, or computed."""

    name: str
    sizes: tuple[int | Dim, int | Dim, int | Dim]
    transposed: tuple[bool, bool]
    is_computed: bool = False

    def types(self, dtype: Dtype) -> list[NdArrayType]:
        m, k, n = self.sizes
        shapes = (m, k), (k, n)
        return [NdArrayType(s[::-1] if t else s, dtype) for s, t in zip(shapes, self.transposed, strict=True)]

    def function(self, x, w):
        x, w = (ops.transpose(a) if t else a for a, t in zip((x, w), self.transposed, strict=True))
        return (ops.relu(x) if self.is_computed else x) @ w

    def arrays(self, dtype: Dtype) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        shapes = (t.substitute({"n": ROWS}).shape for t in self.types(dtype))
        return [rng.integers(-3, 4, shape).astype(dtype.numpy) for shape in shapes]

    def wanted(self, arrays: list[np.ndarray]) -> np.ndarray:
        wide = [a.astype(np.float64) for a in arrays]
        x, w = (a.T if t else a for a, t in zip(wide, self.transposed, strict=True))
        return ((np.maximum(x, 0) if self.is_computed else x) @ w).astype(arrays[0].dtype)


def _cases() -> Iterator[Case]:
    for transposed in product((False, True), repeat=2):
        major = "".join("nt"[t] for t in transposed)
        for size, sizes in SIZES.items():
            yield Case(f"{size}_{major}", sizes, transposed)
        yield Case(f"computed_{major}", SIZES["tails"], transposed, True)
    yield Case("groups", (Dim("n"), 40, 17 * 256 + 8), (False, False))
    yield Case("symbolic_rows", (Dim("n"), 40, 48), (False, False))
    yield Case("symbolic_terms", (40, Dim("n"), 48), (True, False))


CASES = {case.name: case for case in _cases()}


@cache
def emitted(kind):
    terms = {case.name: build(case.function, case.types(KINDS[kind])) for case in CASES.values()}
    with costs(GpuCosts(multiprocessors=1, tensor_term_cycles=1000, warpgroup_term_cycles=100)):
        return emit(Functions(terms, "products"), "cuda", math=math(kind))


def math(kind):
    return kind if KINDS[kind] is Dtype.float32 else "float32"


@cache
def loaded(kind):
    return emitted(kind).load()()


def found(program, case, arrays):
    result = getattr(program, case.name)(*arrays)
    return result[0] if isinstance(result, (list, tuple)) else result


@pytest.mark.covering
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_products_are_exact_in_any_order_of_threads(kind, order, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
    for case in CASES.values():
        arrays = case.arrays(KINDS[kind])
        np.testing.assert_array_equal(found(loaded(kind), case, arrays), case.wanted(arrays), case.name)


def test_factors_are_copied_in_their_own_major_as_many_bytes_at_once_as_lie_side_by_side():
    short, long = (str(emitted(kind).files["products.cu"]) for kind in ("bf16", "tf32"))
    for by_terms in product((True, False), repeat=2):
        assert f"multiply_tiles_bf16<4, 6, {', '.join(map(str, by_terms))}>(".lower() in short
    assert "copy_async<16>(" in short and "left_next[" in short and "right_next[" in short
    assert "copy_async<4>(" in long


@pytest.mark.parametrize("kind", ["bf16", "tf32"])
def test_temporary_factors_of_odd_rows_are_padded_and_copied_by_16_bytes(kind):
    """Multiply what a product has computed, once with its columns as terms, once with its rows."""
    dtype = KINDS[kind]
    types = [NdArrayType(shape, dtype) for shape in [(133, 64), (64, 37), (37, 40), (133, 72)]]

    def function(x, w, v, u):
        y = x @ w
        return y @ v, ops.transpose(y) @ u

    artifact = emit(Functions({"chain": build(function, types)}, "products"), "cuda", math=math(kind))
    text = str(artifact.files["products.cu"])
    assert re.search(r"\(37 - \(.*\)\) \* \d\);", text)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-1, 2, t.shape).astype(dtype.numpy) for t in types]
    x, w, v, u = (a.astype(np.float64) for a in arrays)
    for result, wanted in zip(artifact.load()().chain(*arrays), [x @ w @ v, (x @ w).T @ u], strict=True):
        np.testing.assert_array_equal(result, wanted.astype(dtype.numpy))


BUGS = {
    "no wait": ("wait_for_copies<2>();", ""),
    "no barrier": ("__syncthreads();", ""),
    "too early": ("(slice / 32 + 3) % 4", "(slice / 32 + 4) % 4"),
}
"""Changes of the ring of a kernel; the last one overwrites the slice that is multiplied."""


@pytest.mark.skipif(not simulating(), reason="bugs that only the simulator notices for sure")
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_a_ring_gives_other_numbers(bug):
    artifact = emitted_alone()
    files = {name: str(text) for name, text in artifact.files.items()}
    part, instead = BUGS[bug]
    assert part in files["products.cu"]
    files["products.cu"] = files["products.cu"].replace(part, instead)
    case = CASES["tails_nn"]
    arrays = case.arrays(Dtype.bfloat16)
    wrong = found(replace(artifact, files=files).load()(), case, arrays)
    assert not np.array_equal(wrong, case.wanted(arrays))


@cache
def emitted_alone():
    case = CASES["tails_nn"]
    return emit(Functions({case.name: build(case.function, case.types(Dtype.bfloat16))}, "products"), "cuda")
