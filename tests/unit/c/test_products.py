"""Matrix products of emitted C's runtime: exact on integers, and the same bits by any number of threads."""

import ctypes

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.c_runtime import GCC, PACKING, pointer

pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc")


def matrix(rng, rows, columns, layout, gap, dtype):
    """Draw small integers, whose products and sums are exact in any order; return their strides too."""
    wide = rng.integers(-4, 5, (rows, 2 * columns + gap) if layout == "row" else (columns, 2 * rows + gap))
    wide = wide.astype(dtype)
    kept = wide[:, ::2] if gap % 2 else wide
    view = kept[:rows, :columns] if layout == "row" else kept[:columns, :rows].T
    return view, [s // view.itemsize for s in view.strides]


def packed_block(k, n):
    return min(k, 256) * min(-(-n // 32) * 32, 512)


def product(library, name, m, n, k, a_layout, b_layout, gap, add, seed=0, random=False):
    dtype = np.float32 if name.endswith("f32") else np.float64
    rng = np.random.default_rng(seed)
    (a, a_strides), (b, b_strides) = (
        matrix(rng, m, k, a_layout, gap, dtype),
        matrix(rng, k, n, b_layout, gap, dtype),
    )
    if random:
        a[...], b[...] = rng.normal(size=a.shape), rng.normal(size=b.shape)
    c = rng.integers(-4, 5, (m, n + 3)).astype(dtype)
    expected = c.copy()
    expected[:, :n] = a.astype(float) @ b.astype(float) + add * expected[:, :n]
    strips = min(m, PACKING.strips) * (256 + 64 // dtype().itemsize)
    size = strips if "packed" in name else packed_block(k, n)
    room = np.full(size + 80, 7, dtype)
    start = -room.ctypes.data % 64 // room.itemsize
    packed = room[start:]
    sizes = [ctypes.c_ssize_t(s) for s in (m, n, k, *a_strides, *b_strides, n + 3)]
    getattr(library, f"call_{name}")(
        *sizes[:3], pointer(a), *sizes[3:5], pointer(b), *sizes[5:7], pointer(c), sizes[7],
        ctypes.c_bool(add), pointer(packed),
    )  # fmt: skip
    assert (packed[size:] == 7).all() and (room[:start] == 7).all()
    return c, expected


@settings(max_examples=50, deadline=None)
@given(
    name=st.sampled_from(["gemm_f32", "gemm_f64", "gemm_packed_f32", "gemm_packed_f64"]),
    m=st.integers(0, 40) | st.sampled_from([63, 64, 65, 129, 150]),
    n=st.integers(0, 70) | st.sampled_from([127, 128, 129, 513, 560]),
    k=st.integers(0, 40) | st.sampled_from([255, 256, 257, 300, 513]),
    a_layout=st.sampled_from(["row", "column"]),
    b_layout=st.sampled_from(["row", "column"]),
    gap=st.integers(0, 3),
    add=st.booleans(),
    threads=st.integers(1, 3),
)
@example("gemm_f32", 129, 513, 300, "column", "column", 1, True, 2)
@example("gemm_f32", 64, 560, 257, "column", "row", 0, False, 2)
@example("gemm_f32", 25, 6, 513, "row", "column", 0, True, 2)
@example("gemm_f64", 9, 11, 300, "row", "column", 2, False, 1)
@example("gemm_f32", 64, 600, 800, "row", "row", 0, True, 1)  # the first strip of A copies B
@example("gemm_f32", 530, 140, 257, "row", "row", 2, False, 1)  # B is copied first
@example("gemm_f32", 1, 300, 70, "row", "column", 1, True, 1)  # a row: scalar products
@example("gemm_f64", 1, 300, 70, "row", "row", 1, True, 1)  # a row: wide tiles, and the rest
@example("gemm_f64", 100, 560, 300, "row", "column", 0, True, 3)
@example("gemm_packed_f32", 250, 200, 300, "row", "column", 0, True, 2)  # A is copied in two blocks
def test_products_are_exact(library, name, m, n, k, a_layout, b_layout, gap, add, threads):
    library.set_threads(threads)
    c, expected = product(library, name, m, n, k, a_layout, b_layout, gap, add)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.covering
@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("name", ["gemm_f32", "gemm_f64", "gemm_packed_f32"])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(2000, 130, 30), (300, 70, 600), (33, 1100, 300), (9, 40, 257), (257, 129, 64), (150, 16, 520)],
)
def test_products_have_the_same_bits_for_any_number_of_threads(library, name, m, n, k, layout):
    results = []
    for threads in (1, 2, 3, 7):
        library.set_threads(threads)
        results.append(product(library, name, m, n, k, layout, "row", 0, True, random=True)[0])
    for other in results[1:]:
        assert np.array_equal(results[0], other)


@st.composite
def nested_axes(draw, longest):
    """Sizes of nested axes, of which the innermost is perhaps long, and how far their elements are apart."""
    inner = draw(st.integers(1, longest) | st.sampled_from([7, 8, 16, 28, 32, 33]))
    outer = draw(st.lists(st.integers(1, 5), max_size=2))
    return (*outer, inner), draw(st.sampled_from([1, 1, 1, 2, 3, -1])), draw(st.integers(0, 2))


def strides_of(sizes, step, gap):
    """Strides of nested axes with gaps between them."""
    strides = [step]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size + gap)
    return strides


def offsets(sizes, strides):
    """The offset of each element along nested axes."""
    return sum(np.ix_(*map(np.multiply, map(np.arange, sizes), strides))).ravel()


def factor_axes(rows, columns):
    """The axes of a factor whose rows lie beyond all of its columns."""
    column_strides = strides_of(*columns)
    wide = max(abs(offsets(columns[0], column_strides))) + 1
    return (rows[0], [int(stride * wide) for stride in strides_of(*rows)]), (columns[0], column_strides)


def numbers_of(axes):
    """Axes as the test's C takes them: of each, the number of sizes, sizes, and strides."""
    return np.array([x for sizes, strides in axes for x in (len(sizes), *sizes, *strides)], np.int64)


def call_nested(library, name, sizes, a, b, axes, c, add):
    """Add the product of factors with these axes to c, or store it, by no more memory than it should take."""
    size = packed_block(sizes[2], sizes[1])
    packed = np.full(size + 80, 7, c.dtype)
    getattr(library, f"call_{name}")(
        *map(ctypes.c_ssize_t, sizes),
        pointer(a),
        pointer(b),
        pointer(numbers_of(axes)),
        pointer(c),
        ctypes.c_ssize_t(c.shape[1]),
        ctypes.c_bool(add),
        pointer(packed),
    )
    assert (packed[size:] == 7).all()


def nested_product(library, name, rows, columns, depths, add, random=False):
    axes = (*factor_axes(rows, depths[0]), *factor_axes(depths[1], columns))
    return product_of_axes(library, name, axes, add, random)


def windows(sizes, window=(3, 3), step=(1, 1), dilation=(1, 1), gap=0, apart=1, split=1):
    """Axes of weights that are some elements apart, and of windows of images with gaps between lines."""
    rows, channels, images, height, width = sizes
    line = step[1] * width + dilation[1] * window[1] + gap
    plane = (step[0] * height + dilation[0] * window[0]) * line + gap
    k = channels * window[0] * window[1]
    return [
        ((rows,), [k * apart]),
        ((k,), [apart]),
        ((channels // split, split, *window), [split * plane, plane, dilation[0] * line, dilation[1]]),
        ((images, height, width), [channels * plane + gap, step[0] * line, step[1]]),
    ]


def product_of_axes(library, name, axes, add, random=False):
    """The product of factors with these axes, and what it should be."""
    dtype, rng = np.float32 if name.endswith("f32") else np.float64, np.random.default_rng(0)
    rows, columns, depth, others = (offsets(*axis) for axis in axes)
    of_a, of_b = rows[:, None] + columns, depth[:, None] + others
    of_a, of_b, starts = of_a - of_a.min(), of_b - of_b.min(), (-of_a.min(), -of_b.min())
    draw = rng.normal if random else lambda size: 4 * rng.integers(-2, 3, size)
    a, b = (np.asarray(draw(size=of.max() + 1)).astype(dtype) for of in (of_a, of_b))
    (m, k), n = of_a.shape, of_b.shape[1]
    c = rng.integers(-4, 5, (m, n + 3)).astype(dtype)
    expected = c.astype(float)
    expected[:, :n] = a[of_a].astype(float) @ b[of_b].astype(float) + add * expected[:, :n]
    call_nested(library, name, (m, n, k), a[starts[0] :], b[starts[1] :], axes, c, add)
    return c, expected


def by_winograd(library, axes):
    """Tell whether Winograd's filtering computes a product with these axes; None if this build has none."""
    m, n, k = (int(np.prod(axes[i][0])) for i in (0, 3, 1))
    found = library.by_winograd_f32(*map(ctypes.c_ssize_t, (m, n, k)), pointer(numbers_of(axes)))
    return None if found < 0 else bool(found)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.tuples(
        st.integers(14, 60),
        st.sampled_from([6, 16, 18, 40]),
        st.sampled_from([1, 2, 5]),
        st.integers(1, 17),
        st.integers(3, 36) | st.sampled_from([4, 8, 16, 24, 32]),
    ),
    gap=st.sampled_from([0, 5]),
    split=st.sampled_from([1, 2]),
    add=st.booleans(),
    threads=st.integers(1, 5),
)
@pytest.mark.parametrize("name", ["gemm_nested_f32", "gemm_nested_f64"])
def test_products_of_windows_are_exact(library, name, sizes, gap, split, add, threads):
    library.set_threads(threads)
    c, expected = product_of_axes(library, name, windows(sizes, gap=gap, split=split), add)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("name", ["gemm_nested_f32", "gemm_nested_f64"])
@pytest.mark.parametrize(
    "form",
    [
        {"window": (1, 9)},
        {"window": (9, 1)},
        {"window": (1, 3)},
        {"window": (3, 1)},
        {"window": (5, 3)},
        {"step": (2, 1)},
        {"step": (1, 2)},
        {"dilation": (2, 1)},
        {"dilation": (1, 2)},
        {"step": (2, 1), "dilation": (2, 1)},
        {"step": (1, 2), "dilation": (1, 2)},
        {"apart": 2},
    ],
    ids=str,
)
def test_products_of_other_windows_are_exact(library, name, form):
    axes = windows((20, 48, 1, 16, 32), **form)
    assert form.get("step") == form.get("dilation") == (2, 1) or not by_winograd(library, axes)
    c, expected = product_of_axes(library, name, axes, False)
    np.testing.assert_array_equal(c, expected)


def test_lines_and_columns_of_windows_may_change_places(library):
    axes = windows((20, 16, 1, 16, 32))
    sizes, strides = axes[2]
    axes[1:3] = (sizes, [9, 9, 1, 3]), (sizes, [*strides[:2], strides[3], strides[2]])
    assert not by_winograd(library, axes)
    c, expected = product_of_axes(library, "gemm_nested_f32", axes, False)
    np.testing.assert_array_equal(c, expected)


SIZES_OF_WINDOWS = [(32, 16, 1, 8, 16), (16, 40, 2, 32, 32), (60, 16, 3, 8, 16), (20, 16, 4, 7, 15)]


@pytest.mark.parametrize("library", ["native"], indirect=True)
def test_windows_of_three_lines_and_columns_are_filtered(library):
    found = {by_winograd(library, windows(sizes)) for sizes in SIZES_OF_WINDOWS}
    assert found in ({True}, {None})


@pytest.mark.parametrize("sizes", SIZES_OF_WINDOWS)
def test_errors_of_products_of_windows_are_those_of_sums(library, sizes):
    c, expected = product_of_axes(library, "gemm_nested_f32", windows(sizes), False, random=True)
    assert np.sqrt(np.mean((c - expected) ** 2)) < 5e-7 * np.sqrt(np.mean(expected**2))


@pytest.mark.parametrize("sizes", SIZES_OF_WINDOWS)
def test_products_of_windows_have_the_same_bits_for_any_number_of_threads(library, sizes):
    results = []
    for threads in (1, 2, 3, 7):
        library.set_threads(threads)
        results.append(product_of_axes(library, "gemm_nested_f32", windows(sizes), True, random=True)[0])
    for other in results[1:]:
        assert np.array_equal(results[0], other)


def split(draw, size):
    """Nested axes of this many elements."""
    outer = draw(st.sampled_from([d for d in (1, 2, 3, 5) if size % d == 0]))
    sizes = (outer, size // outer) if outer > 1 else (size,)
    return sizes, draw(st.sampled_from([1, 1, 2, -1])), draw(st.integers(0, 2))


@pytest.mark.covering
@settings(max_examples=50, deadline=None)
@given(data=st.data(), rows=nested_axes(30), columns=nested_axes(60), add=st.booleans())
@pytest.mark.parametrize("name", ["gemm_nested_f32", "gemm_nested_f64"])
def test_products_of_nested_axes_are_exact(library, name, data, rows, columns, add):
    library.set_threads(data.draw(st.integers(1, 3)))
    k = data.draw(st.integers(1, 40) | st.sampled_from([60, 144, 256, 270, 784]))
    depths = split(data.draw, k), split(data.draw, k)
    c, expected = nested_product(library, name, rows, columns, depths, add)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("name", ["gemm_nested_f32", "gemm_nested_f64"])
@pytest.mark.parametrize("inner", [4, 8, 16])
def test_vectors_of_a_row_may_be_the_same_elements(library, name, inner):
    repeated = (6, inner), 1, -inner  # the outer axis has stride 0
    depth = (9, 3), 1, 0
    c, expected = nested_product(library, name, ((40,), 1, 0), repeated, (depth, depth), False)
    np.testing.assert_array_equal(c, expected)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.sampled_from([((1,), 1, 0), ((5,), 1, 3), ((3, 3), 1, 2), ((16, 3, 3), 1, 1)]),
    columns=st.tuples(st.tuples(st.integers(1, 17)), st.just(1), st.integers(0, 2)),
    depths=st.permutations([((32, 16), 1, 3), ((512,), 1, 0), ((16, 32), 1, 2), ((8, 64), 1, 0)]),
    images=st.sampled_from([1, 2, 5]),
    add=st.booleans(),
    threads=st.integers(1, 3),
)
@pytest.mark.parametrize("name", ["gemm_nested_f32", "gemm_nested_f64"])
def test_scalar_products_in_place_are_exact(library, name, rows, columns, depths, images, add, threads):
    library.set_threads(threads)
    of_images = [((images, *sizes), step, gap) for sizes, step, gap in depths]
    c, expected = nested_product(library, name, rows, columns, of_images[:2], add)
    np.testing.assert_array_equal(c, expected)


CHANNELS, WINDOWS, IMAGE = ((16,), 1, 0), ((16, 3, 3), 1, 2), ((17, 19), 1, 3)
FEW, WIDE = ((7,), 1, 0), ((32, 32), 1, 2)


@pytest.mark.parametrize(
    ("rows", "columns", "depths"),
    [
        (CHANNELS, IMAGE, (((144,), 1, 0), WINDOWS)),
        (WINDOWS, CHANNELS, (IMAGE, ((323,), 1, 0))),
        (WINDOWS, FEW, (WIDE, ((1024,), 1, 0))),
    ],
    ids=["threads have columns", "threads have rows", "scalar products in place"],
)
def test_products_of_nested_axes_have_the_same_bits_for_any_number_of_threads(library, rows, columns, depths):
    results = []
    for threads in (1, 2, 3, 7):
        library.set_threads(threads)
        results.append(nested_product(library, "gemm_nested_f32", rows, columns, depths, True, True)[0])
    for other in results[1:]:
        assert np.array_equal(results[0], other)
