"""Windows of images that warp groups multiply (im2col maps) in emitted CUDA; faults; messages of ptxas; SASS.

Elements are small whole numbers, so that sums are exact, and results have the bits of NumPy's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from catgrad.backends.cuda.tools import simulating

from catgrad import Dtype, Functions, NdArrayType, build, ops
from catgrad.errors import ToolError
from catgrad.functors import reverse
from catgrad.loops.machine import GpuCosts
from catgrad.ops.cast import cast
from tests.conformance.test_cuda_convolutions import DTYPES, math
from tests.gpu import costs
from tests.targets import cannot, emit
from tests.unit.cuda.nvcc import NEEDS_NVCC, NEEDS_NVDISASM, compiled, kernels, require_clean

MISSING = cannot("cuda")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"target cuda: {MISSING}")
NEEDS_SIMULATOR = pytest.mark.skipif(not simulating(), reason="only the simulator has several architectures")


@dataclass(frozen=True)
class Case:
    """A convolution with its reverse, of whose products warp groups multiply some.

    Those are all but the reverse to the input of one with padding beyond a window's half. With strides it
    has a product for each class of pixels, of which that of one offset is small, and beside another kernel.
    """

    channels: int
    outputs: int
    shape: tuple[int, int]
    size: tuple[int, int] = (3, 3)
    stride: int = 1
    dilation: int = 1
    padding: int = 1
    batch: int = 2
    products: int = 3

    @property
    def types(self) -> list[NdArrayType]:
        weights = self.outputs, self.channels, *self.size
        return [NdArrayType((self.batch, self.channels, *self.shape)), NdArrayType(weights)]

    def function(self, dtype: Dtype, x, w):
        fields = {"stride": self.stride, "dilation": self.dilation, "padding": self.padding}
        return cast(ops.conv(cast(x, dtype), cast(w, dtype), **fields), Dtype.float32)

    def term(self, dtype: Dtype):
        return reverse(build(lambda x, w: self.function(dtype, x, w), self.types))

    def arrays(self):
        """Draw arrays whose sums are whole numbers that 16 bits hold."""
        rng = np.random.default_rng(0)
        sizes = [
            (n + 2 * self.padding - self.dilation * (k - 1) - 1) // self.stride + 1
            for n, k in zip(self.shape, self.size, strict=True)
        ]
        shapes = *(t.shape for t in self.types), (self.batch, self.outputs, *sizes)
        arrays = [rng.integers(-1, 2, shape).astype(np.float32) for shape in shapes]
        return [a * (rng.random(a.shape) < 0.3) for a in arrays]


CASES = {
    "three": Case(64, 64, (9, 10)),
    "wide": Case(64, 128, (13, 11), padding=0),
    "strided": Case(64, 64, (17, 13), stride=2, batch=6, products=5),
    "strided_one": Case(128, 64, (17, 13), size=(1, 1), stride=2, padding=0, batch=4, products=1),
    "dilated": Case(64, 64, (11, 12), dilation=2, padding=2),
    "row": Case(64, 64, (1, 70), size=(1, 5), padding=2, batch=3, products=2),
    "one_image": Case(128, 64, (12, 12), batch=1),
    "many": Case(64, 64, (8, 8), batch=16),
}


def programs(name, cases):
    terms = {key: case.term(DTYPES[name]) for key, case in cases.items()}
    with costs(GpuCosts(multiprocessors=4, tensor_term_cycles=100)):
        return emit(Functions(terms, "windows"), "cuda", math=math(name))


@cache
def emitted(name):
    return programs(name, CASES)


@cache
def loaded(name):
    return emitted(name).load()()


@cache
def wanted(key, name):
    """Compute the results on the processor."""
    terms = {key: CASES[key].term(DTYPES[name])}
    return getattr(emit(Functions(terms, "windows"), "numpy").load()(), key)(*CASES[key].arrays())


@pytest.mark.parametrize("key", CASES)
def test_warp_groups_multiply_windows(key):
    text = str(programs("bf16", {key: CASES[key]}).files["windows.cu"])
    assert text.count(" multiply_fed_") == CASES[key].products <= text.count("load_window(")


@NEEDS_SIMULATOR
@pytest.mark.parametrize(
    ("name", "order", "multiprocessors"),
    [
        ("bf16", "forward", "132"),
        ("bf16", "random:1", "1"),
        ("f16", "backward", "132"),
        ("tf32", "random:1", "1"),
        ("bf16x6", "backward", "1"),
    ],
)
def test_convolutions_are_exact_by_warp_groups(name, order, multiprocessors, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", "sm_90a")
    monkeypatch.setenv("CUDA_SIMULATOR_MULTIPROCESSORS", multiprocessors)
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
    for key, case in CASES.items():
        results = getattr(loaded(name), key)(*case.arrays())
        for found, each in zip(results, wanted(key, name), strict=True):
            np.testing.assert_array_equal(found, each, key)


ONE = {"one": Case(64, 64, (17, 18), stride=2, products=2)}
"""A convolution and the gradient of its weight, by windows with steps."""
CORNERS, OFFSETS = "{-1, -1}, {-2, -1}, {2, 2}", "begin / 64, part)"
STEPS = "steps[4] = {1, x.steps[0], x.steps[1], 1}"
FAULTS = {
    "corners without padding": (CORNERS, "{0, -1}, {-1, -1}, {2, 2}"),
    "corners too far away": (CORNERS, "{-129, -1}, {-2, -1}, {2, 2}"),
    "corners that end before they begin": (CORNERS, "{-1, -1}, {-20, -1}, {2, 2}"),
    "too few pixels": (CORNERS, "{-1, -1}, {-4, -1}, {2, 2}"),
    "other steps": (CORNERS, "{-1, -1}, {-2, -1}, {1, 2}"),
    "steps that are too long": (STEPS, "steps[4] = {1, 9, 1, 1}"),
    "a map of boxes": ("if (x.steps[0] > 0)", "if (false)"),
    "copies of boxes": ("simulator::load_window(to, map", "simulator::load_tile(to, map"),
    "corners in another order": ("lower, upper, box[0]", "upper, lower, box[0]"),
    "more channels than a row has": ("lower, upper, box[0], box[1]", "lower, upper, box[0] * 2, box[1]"),
    "offsets of the other axis": (OFFSETS, "part, begin / 64)"),
    "an offset before the window": (OFFSETS, "begin / 64 - 1, part)"),
    "a pixel that no window begins at": ("begin % 64, row_tile % 9 * 2 - 1", "begin % 64, row_tile % 9 * 2"),
    "a pixel outside the corners": ("begin % 64, row_tile % 9 * 2 - 1", "begin % 64, row_tile % 9 * 2 - 3"),
}
"""Changes of tensor maps of windows and of copies by them."""


@cache
def one():
    return programs("bf16", ONE)


def is_right(artifact):
    """Tell whether a library convolves without an error."""
    terms, arrays = {"one": ONE["one"].term(Dtype.bfloat16)}, ONE["one"].arrays()
    expected = emit(Functions(terms, "windows"), "numpy").load()().one(*arrays)
    try:
        found = artifact.load()().one(*arrays)
    except ToolError:
        return False
    return all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))


@NEEDS_SIMULATOR
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_an_error_or_gives_other_numbers(fault, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", "sm_90a")
    files = {name: str(text) for name, text in one().files.items()}
    old, new = FAULTS[fault]
    sources = [name for name in ("windows.cu", "windows_runtime.cuh") if old in files[name]]
    assert sources
    files |= {name: files[name].replace(old, new) for name in sources}
    assert is_right(one()) and not is_right(replace(one(), files=files))


# ---- nvcc


@NEEDS_NVCC
@NEEDS_NVDISASM
@pytest.mark.parametrize(
    ("name", "product"), [("bf16", "16.F32.BF16"), ("tf32", "8.F32.TF32"), ("bf16x6", "16.F32.BF16")]
)
def test_windows_are_copied_by_tensor_maps_and_nothing_spills(name, product, tmp_path):
    emitted(name).write(tmp_path)
    require_clean(compiled("windows.cu", tmp_path, "-arch=sm_90a"), len(CASES))
    code = kernels(tmp_path / "windows.cubin")
    fed = {each: text for each, text in code.items() if "operand_maps" in each}
    source = (tmp_path / "windows.cu").read_text()
    assert sum("UTMALDG.4D.IM2COL" in text for text in fed.values()) > len(CASES)
    assert len(fed) == source.count(" multiply_fed_")
    for text in fed.values():
        assert len(re.findall(rf"HGMMA\.64x\d+x{re.escape(product)}", text)) == (
            12 if name == "bf16x6" else 4
        )
        assert not re.search(r"\b(LDL|STL|HMMA|LDGSTS)\b", text)
