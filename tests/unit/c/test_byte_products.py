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
    used = {"gemm_i8", "gemm_packed_i8", "gemm_nested_i8"}
    (folder / "bytes.c").write_text(template.render(used=used, packing=PACKING))
    built(GCC, *FLAGS, *flags, "-shared", "-fPIC", "bytes.c", "-o", "bytes.so", cwd=folder)
    library = ctypes.CDLL(folder / "bytes.so")
    library.packed_size.restype = ctypes.c_ssize_t
    return library


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


def product(library, a, b, c, add, strides, is_packed=False):
    m, n, k, *strides, c_row = map(ctypes.c_ssize_t, (len(c), c.shape[1] - 3, len(b), *strides, c.shape[1]))
    size = library.packed_size(k, n) if is_packed else 4 * room(n.value, k.value)
    memory = np.full(size + 128, 7, np.int8)
    packed = memory[-memory.ctypes.data % 64 :]
    if is_packed:
        library.call_pack_i8(k, n, pointer(b), *strides[2:], pointer(packed))
    (library.call_gemm_packed_i8 if is_packed else library.call_gemm_i8)(
        m, n, k, pointer(a), *strides[:2], pointer(b), *strides[2:], pointer(c), c_row,
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
    is_packed=st.booleans(),
)
@example(1, 560, 513, ("row", "row"), 1, True, 2, False)
@example(1, 513, 300, ("column", "column"), 1, True, 3, False)
@example(1, 70, 3, ("row", "row"), 0, False, 1, False)
@example(1, 128, 784, ("row", "row"), 0, False, 1, True)
@example(13, 560, 257, ("row", "column"), 1, True, 3, False)
@example(13, 560, 257, ("row", "column"), 1, True, 3, True)
@example(12, 33, 3, ("column", "row"), 0, True, 2, False)
@example(12, 33, 3, ("column", "row"), 0, True, 2, True)
@example(1, 33, 515, ("row", "row"), 1, False, 1, True)
def test_sums_are_those_of_numpy(library, m, n, k, layouts, gap, add, threads, is_packed):
    if hasattr(library, "set_threads"):
        library.set_threads(threads)
    rng = np.random.default_rng(0)
    (a, a_strides), (b, b_strides) = matrix(rng, m, k, layouts[0], gap), matrix(rng, k, n, layouts[1], gap)
    c = rng.integers(-9, 9, (m, n + 3)).astype(np.int32)
    wanted = c.copy()
    wanted[:, :n] = a.astype(np.int32) @ b.astype(np.int32) + add * wanted[:, :n]
    product(library, a, b, c, add, (*a_strides, *b_strides), is_packed)
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize("element", [-128, 127])
@pytest.mark.parametrize("start", [0, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("is_packed", [False, True])
def test_sums_of_extremes_wrap_as_those_of_numpy_do(library, element, start, is_packed):
    """2^31 - 1 + 1000 · 128² leaves 32 bits."""
    a, b = np.full((5, 1000), element, np.int8), np.full((1000, 37), -128, np.int8)
    c = np.full((5, 40), start, np.int32)
    wanted = c.copy()
    wanted[:, :37] += a.astype(np.int32) @ b.astype(np.int32)
    product(library, a, b, c, True, (*a.strides, *b.strides), is_packed)
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
