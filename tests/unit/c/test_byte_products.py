"""Products of bytes in emitted C: the sums of NumPy, by instructions of each processor, in any layout."""

import ctypes
from pathlib import Path

import jinja2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.c_runtime import FLAGS, GCC, PACKING, ROOT, SHARED, pointer
from tests.unit.c.build import built

pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc")

BUILDS = {
    "native": ("", ["-O3", "-march=native", *SHARED]),
    "avx2": ("avx2", ["-O1", "-mavx2"]),
    "avx512bw": ("avx512bw", ["-O1", "-mavx512bw"]),
    "baseline": ("", ["-O2", *SHARED]),
    "scalar": ("", ["-O1", "-DGEMM_SCALAR", "-fsanitize=undefined", "-fno-sanitize-recover"]),
    "dsp": ("", ["-O1", "-DGEMM_SCALAR", "-D__ARM_FEATURE_DSP", "-I", str(Path(__file__).parent / "dsp")]),
}
"""The feature of the processor that each build needs, and its flags."""


def features():
    info = Path("/proc/cpuinfo")
    return {"", *(info.read_text("utf-8").split() if info.exists() else ())}


@pytest.fixture(scope="module", params=BUILDS)
def library(request, tmp_path_factory):
    feature, flags = BUILDS[request.param]
    if feature not in features():
        pytest.skip(f"this processor has no {feature}")
    folder = tmp_path_factory.mktemp(request.param)
    loader = jinja2.FileSystemLoader([ROOT / "templates" / "c", ROOT / "tests" / "unit" / "c"])
    environment = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.get_template("bytes.c.j2")
    (folder / "bytes.c").write_text(template.render(used={"gemm_i8", "gemm_nested_i8"}, packing=PACKING))
    built(GCC, *FLAGS, *flags, "-shared", "-fPIC", "bytes.c", "-o", "bytes.so", cwd=folder)
    return ctypes.CDLL(folder / "bytes.so")


def matrix(rng, rows, columns, layout, gap):
    """Draw bytes, of which a quarter are extremes; return the strides too."""
    shape = (rows, columns + gap) if layout == "row" else (columns, rows + gap)
    wide = rng.integers(-128, 128, shape).astype(np.int8)
    wide[rng.random(shape) < 0.25] = -128
    view = wide[:, :columns] if layout == "row" else wide[:, :rows].T
    return view, view.strides


def room(n, k):
    """Words of scratch memory, at most: a row of sums, and a word for each two elements of a column."""
    columns = -(-min(n, PACKING.columns) // PACKING.panel) * PACKING.panel
    return (-(-min(k, PACKING.rows) // 2) + 1) * columns


def product(library, a, b, c, add, strides):
    m, n, k = *c.shape, a.shape[1]
    size = room(n - 3, k)
    memory = np.full(size + 32, 7, np.uint32)
    packed = memory[-memory.ctypes.data % 64 // 4 :]
    sizes = [ctypes.c_ssize_t(each) for each in (m, n - 3, k, *strides, n)]
    library.call_gemm_i8(
        *sizes[:3], pointer(a), *sizes[3:5], pointer(b), *sizes[5:7], pointer(c), sizes[7],
        ctypes.c_bool(add), pointer(packed),
    )  # fmt: skip
    assert (packed[size:] == 7).all()


@settings(max_examples=50, deadline=None)
@given(
    m=st.just(1) | st.integers(0, 40) | st.sampled_from([64, 129]),
    n=st.integers(0, 70) | st.sampled_from([128, 513, 560]),
    k=st.integers(0, 40) | st.sampled_from([255, 256, 257, 300, 513]),
    layouts=st.tuples(*[st.sampled_from(["row", "column"])] * 2),
    gap=st.integers(0, 3),
    add=st.booleans(),
    threads=st.integers(1, 3),
)
@example(1, 560, 513, ("row", "row"), 1, True, 2)
@example(1, 513, 300, ("column", "column"), 1, True, 3)
@example(1, 70, 3, ("row", "row"), 0, False, 1)
@example(1, 128, 784, ("row", "row"), 0, False, 1)
@example(13, 560, 257, ("row", "column"), 1, True, 3)
@example(12, 33, 3, ("column", "row"), 0, True, 2)
def test_sums_are_those_of_numpy(library, m, n, k, layouts, gap, add, threads):
    if hasattr(library, "set_threads"):
        library.set_threads(threads)
    rng = np.random.default_rng(0)
    (a, a_strides), (b, b_strides) = matrix(rng, m, k, layouts[0], gap), matrix(rng, k, n, layouts[1], gap)
    c = rng.integers(-9, 9, (m, n + 3)).astype(np.int32)
    wanted = c.copy()
    wanted[:, :n] = a.astype(np.int32) @ b.astype(np.int32) + add * wanted[:, :n]
    product(library, a, b, c, add, (*a_strides, *b_strides))
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize("element", [-128, 127])
@pytest.mark.parametrize("start", [0, 2**31 - 1, -(2**31)])
def test_sums_of_extremes_wrap_as_those_of_numpy_do(library, element, start):
    """2^31 - 1 + 1000 · 128² leaves 32 bits."""
    a, b = np.full((5, 1000), element, np.int8), np.full((1000, 37), -128, np.int8)
    c = np.full((5, 40), start, np.int32)
    wanted = c.copy()
    wanted[:, :37] += a.astype(np.int32) @ b.astype(np.int32)
    product(library, a, b, c, True, (*a.strides, *b.strides))
    np.testing.assert_array_equal(c, wanted)


@settings(max_examples=60, deadline=None)
@given(
    channels=st.sampled_from([1, 3, 8, 70]),
    height=st.integers(3, 9),
    width=st.integers(3, 40),
    outputs=st.integers(1, 30),
    window=st.integers(1, 3),
    stride=st.integers(1, 2),
)
def test_convolutions_are_those_of_numpy(library, channels, height, width, outputs, window, stride):
    rng = np.random.default_rng(0)
    a = rng.integers(-128, 128, (outputs, channels, window, window)).astype(np.int8)
    b = rng.integers(-128, 128, (channels, height, width)).astype(np.int8)
    windows = np.lib.stride_tricks.sliding_window_view(b, (window, window), (1, 2))[:, ::stride, ::stride]
    wanted = np.einsum("ochw,cyxhw->oyx", a.astype(np.int32), windows.astype(np.int32), optimize=True)
    c = np.zeros(wanted.shape, np.int32)
    sizes = np.array([channels, height, width, outputs, window, stride], np.int64)
    packed = np.zeros(room(c[0].size, a[0].size), np.uint32)
    library.call_gemm_nested_i8(*map(pointer, (sizes, a, b, c, packed)))
    np.testing.assert_array_equal(c, wanted)
