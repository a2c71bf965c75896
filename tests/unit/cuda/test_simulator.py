"""The CUDA simulator: kernels compute what NumPy does in any order of threads, with the runtime of CUDA."""

from __future__ import annotations

import ctypes
import math
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from catgrad.backends.cuda_simulator import library

from catgrad.tools import run
from tests.covering import some
from tests.unit.cuda.build import FOLDER, LIMIT, NEEDS_CXX, ORDERS, device
from tests.unit.cuda.device import Device
from tests.unit.cuda.families import BUGS, FAMILIES, RNG, product

pytestmark = NEEDS_CXX
INVALID_VALUE, INVALID_CONFIGURATION, INVALID_DEVICE, ILLEGAL_STATE = 1, 9, 101, 401
UNSUPPORTED, INVALIDATED, IMPLICIT = 900, 901, 906


def ints(*shape, low=-1000, high=1000):
    return RNG.integers(low, high, shape).astype(np.int32)


def close(result, expected):
    return np.linalg.norm(result - expected) <= 1e-6 * np.linalg.norm(expected)


# ---- kernels of each kind


@pytest.mark.parametrize("name", FAMILIES)
def test_a_kernel_computes_the_same_in_any_order(name, monkeypatch):
    family = FAMILIES[name]()
    runs = []
    for order in ORDERS:
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        runs.append(family.run(device("families")))
    for result, expected in zip(runs[0], family.results, strict=True):
        assert close(result, expected)
    assert all([a.tobytes() for a in run] == [a.tobytes() for a in runs[0]] for run in runs)


def test_a_histogram_is_exact():
    ids, counts = ints(1000, low=0, high=10), np.ones(10, np.int32)
    assert device("families").histogram(ids, counts, None) == 0
    assert np.array_equal(counts, 1 + np.bincount(ids, minlength=10))


def test_swapped_strides_give_other_numbers():
    wrong = product(BUGS["swapped_strides"])
    assert not close(wrong.run(device("families"))[0], wrong.results[0])


def test_a_missing_barrier_gives_other_numbers_in_some_order(monkeypatch):
    wrong = product(BUGS["no_barrier"])
    results = []
    for order in ORDERS:
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        results.append(close(wrong.run(device("families"))[0], wrong.results[0]))
    assert not all(results)


@pytest.mark.skipif(not shutil.which("nvcc"), reason="there is no nvcc")
@pytest.mark.parametrize("name", some(["families", "features", "runtime", "wrong"], ["runtime", "wrong"]))
def test_the_sources_of_these_tests_are_cuda(name, tmp_path):
    options = ["-std=c++17", "-arch=sm_90", "-Werror", "all-warnings", "-c", "-o", str(tmp_path / "object.o")]
    done = run(["nvcc", *options, str(FOLDER / f"{name}.cu")], LIMIT)
    assert (done.returncode, done.stderr) == (0, "")


# ---- pieces of the language


def test_indices_of_grids_and_blocks_in_three_dimensions():
    out = np.zeros((2, 3, 2, 3, 2, 4), np.int32)
    assert device("features").indices(out) == 0
    bz, by, bx, z, y, x = np.indices(out.shape)
    assert np.array_equal(out, x + 10 * y + 100 * z + 1000 * bx + 10000 * by + 100000 * bz)


def test_vectors():
    x, i, u = RNG.standard_normal((32, 4)).astype(np.float32), ints(32, 4), RNG.standard_normal((32, 2))
    y, j, v = np.empty_like(x), np.empty_like(i), np.empty_like(u)
    assert device("features").vectors(x, y, i, j, u, v) == 0
    assert np.array_equal(y, x[::-1, ::-1])
    assert np.array_equal(j, np.stack([i[:, :2].min(1), i[:, :2].max(1), i[:, 2] + 1, i[:, 3] - 1], axis=1))
    assert np.array_equal(v, u[:, ::-1])


def test_shuffles():
    x, out, i = ints(32), np.empty((8, 32), np.int32), np.arange(32)
    assert device("features").shuffles(x, out) == 0
    segment = i // 8 * 8
    sources = [
        np.full(32, 5),
        np.where(i < 3, i, i - 3),
        np.where(i > 28, i, i + 3),
        i ^ 6,
        segment + (i + 1) % 8,
        np.where(i % 8 > 5, i, i + 2),
    ]
    assert np.array_equal(out[:6], x[np.array(sources)])
    assert np.array_equal(out[6], 2 * x[i ^ 1] + 1)
    assert np.array_equal(out[7], x[np.where(i < 16, i ^ 8, i ^ 4)])


@pytest.mark.parametrize("value", [0, 101, -101])
def test_votes(value):
    x, out = ints(32, low=-9, high=9), np.empty(6, np.int32)
    x[3] = value
    assert device("features").votes(x, out) == 0
    ballot = (x > 0) @ (1 << np.arange(32, dtype=np.uint64))
    some, each = (x > 100).any(), (x > -100).all()
    assert [*out.view(np.uint32)] == [ballot, some, each, (x > 0).sum(), some, each]


def test_lanes_that_have_returned_take_no_part():
    out = np.zeros(40, np.int32)
    assert device("features").early_return(out) == 0
    assert np.array_equal(out, np.r_[np.full(20, 21), np.full(20, 21 + (1 << 20) - 1)])


def test_bits():
    x = np.r_[0, 1, 2**31, 2**32 - 1, RNG.integers(0, 2**31 - 2**24, 28)].astype(np.uint32)
    out = np.empty((6, 32), np.uint32)
    assert device("features").bits(x, out) == 0
    texts = [f"{v:032b}" for v in x]
    assert [*out[0]] == [text.count("1") for text in texts]
    assert [*out[1]] == [(text[::-1].find("1") + 1) for text in texts]
    assert [*out[2]] == [len(text) - len(text.lstrip("0")) for text in texts]
    assert [*out[3]] == [int(v) * 0x9E3779B9 >> 32 for v in x]
    assert [*out[4]] == [int(text[::-1], 2) for text in texts]
    assert [*out[5]] == [*x]


def test_atomics():
    n, u, f = np.array([5, -1, 1, 0, 0], np.int32), np.array([0, 0xFF, 5], np.uint32), np.ones(1, np.float32)
    assert device("features").atomics(n, u, f) == 0
    assert [*n[:4]] == [5 + 63 * 32, 63, -63, 7]
    assert 1 <= n[4] <= 64
    assert [*u, *f] == [2**32 - 1, 0xF0, 5, 33]


def test_floats_of_16_bits_round_to_nearest_even():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits, x = (
        np.arange(2**16, dtype=np.uint16),
        RNG.integers(0, 2**32, 2**16, dtype=np.uint32).view(np.float32),
    )
    halfway = (bits.view(np.float16).astype(np.float32).view(np.uint32) + np.uint32(0x1000)).view(np.float32)
    for numbers in (x, halfway, bits.view(np.float16).astype(np.float32)):
        f16, bf16 = np.empty((2, 2**16), np.float32)
        to_f16, to_bf16 = np.empty((2, 2**16), np.uint16)
        assert device("features").halves(bits, f16, bf16, numbers, to_f16, to_bf16) == 0
        with np.errstate(over="ignore", invalid="ignore"):
            for result, expected in [
                (f16, bits.view(np.float16)),
                (bf16, bits.view(ml_dtypes.bfloat16)),
                (to_f16.view(np.float16), numbers.astype(np.float16)),
                (to_bf16.view(ml_dtypes.bfloat16), numbers.astype(ml_dtypes.bfloat16)),
            ]:
                a, b = result.astype(np.float32), expected.astype(np.float32)
                assert np.array_equal(a, b, equal_nan=True)
                assert np.array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))


def test_functions_of_numbers():
    x, out, i = RNG.uniform(0.1, 3, 32).astype(np.float32), np.empty((9, 32), np.float32), np.arange(32)
    assert device("features").math(x, out) == 0
    y = x.astype(np.float64)
    erf = np.vectorize(math.erf)
    expected = [
        y**-0.5, np.exp(y), erf(y), y / 3, y * y + 1, np.log(y), y.clip(0, 1),
        np.minimum(y, 1.5) + np.maximum(2, i), y + y**2,
    ]  # fmt: skip
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-7)


def test_a_launch_may_take_several_lines_and_copies_its_arguments():
    x = np.arange(6, dtype=np.float32)
    assert device("features").add(x, 4, 2.5, None) == 0
    assert [*x] == [2.5, 3.5, 4.5, 5.5, 4, 5]


def test_threads_of_the_host_take_turns():
    arrays = [np.zeros(4, np.float32) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for x in arrays * 50:
            pool.submit(device("features").add, x, 4, 1.0, None)
    assert all([*x] == [50] * 4 for x in arrays)


# ---- memory


def test_memory_that_nobody_wrote_is_nan():
    out = np.zeros(3, np.float32)
    assert device("features").unwritten(out) == 0
    assert np.isnan(out).all()


def test_dynamic_shared_memory():
    x = np.arange(700, dtype=np.float32)
    assert device("features").reversed(x, 700, ctypes.c_size_t(2800)) == 0
    assert np.array_equal(x, np.arange(700)[::-1])


def test_shared_memory_over_48_kib_must_be_allowed():
    on, x = device("features"), np.zeros(4, np.float32)
    assert on.reversed(x, 4, ctypes.c_size_t(48 << 10)) == 0
    assert on.reversed(x, 4, ctypes.c_size_t(49 << 10)) == INVALID_VALUE
    assert (
        "reverse_kernel" in on.message
        and "50176 bytes" in on.message
        and "cudaFuncSetAttribute" in on.message
    )
    assert on.allow(228 << 10) == INVALID_VALUE
    assert on.allow(227 << 10) == 0
    assert on.reversed(x, 4, ctypes.c_size_t(227 << 10)) == 0
    assert on.reversed(x, 4, ctypes.c_size_t(228 << 10)) == INVALID_VALUE
    assert on.words(INVALID_VALUE)


@pytest.mark.parametrize(
    ("configuration", "error"),
    [
        ((1, 1, 1024, 1), 0),
        ((1, 1, 1025, 1), INVALID_CONFIGURATION),
        ((1, 1, 0, 1), INVALID_CONFIGURATION),
        ((1, 1, 32, 64), INVALID_CONFIGURATION),
        ((1, 1, 1, 65), INVALID_CONFIGURATION),
        ((1, 65536, 1, 1), INVALID_CONFIGURATION),
        ((0, 1, 1, 1), INVALID_CONFIGURATION),
        ((2, 1, 1, 64), 0),
    ],
)
def test_a_launch_has_limits(configuration, error):
    assert device("features").launch(*configuration) == error


@pytest.mark.parametrize(("bytes", "error"), [(32_764, 0), (32_768, INVALID_VALUE)])
def test_the_arguments_of_a_launch_have_limited_bytes(bytes, error):
    source = f"""#include <cuda_runtime.h>

struct table {{
    int entries[{bytes // 4}];
}};

__global__ void look(const __grid_constant__ table all) {{}}

extern "C" int run()
{{
    look<<<1, 1>>>(table{{}});
    return cudaGetLastError();
}}
"""
    device = Device(library({"look.cu": source}, "look.cu", "look"))
    assert device.run() == error
    assert ("are more than 32764" in device.message) == bool(error)


def test_an_order_must_exist(monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", "sideways")
    assert device("features").launch(1, 1, 1, 1) == INVALID_VALUE
    assert (
        "CUDA_SIMULATOR_ORDER must be forward, backward or random:SEED, not sideways"
        in device("features").message
    )


# ---- the runtime


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_captured_stream_runs_when_its_graph_is_launched(times):
    x, copy, before = np.arange(4, dtype=np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32)
    assert device("runtime").captured(x, copy, times, before) == 0
    assert [*before] == [0, 1, 2, 3]
    assert [*x[:3]] == [times, 1 + times, 2 + times]
    assert x[3] == (0 if times else 3)
    assert [*copy] == ([0, 0, 0, 0] if times == 0 else [times, 1 + times, 2 + times, 1 if times > 1 else 4])


@pytest.mark.parametrize(
    ("what", "error", "end"),
    [
        (0, 0, 0),
        (1, UNSUPPORTED, INVALIDATED),
        (2, UNSUPPORTED, INVALIDATED),
        (3, UNSUPPORTED, INVALIDATED),
        (4, UNSUPPORTED, INVALIDATED),
        (5, IMPLICIT, INVALIDATED),
        (6, ILLEGAL_STATE, 0),
    ],
    ids=["launch", "cudaMalloc", "wait", "cudaMemcpy", "device", "legacy", "capture"],
)
def test_a_capture_refuses_what_a_device_refuses(what, error, end):
    ended = np.zeros(1, np.int32)
    assert device("runtime").during_capture(what, ended) == error
    assert ended[0] == end


def test_the_legacy_stream_cannot_be_captured():
    assert device("runtime").capture_of_legacy() == UNSUPPORTED


def test_events_measure_time():
    milliseconds = np.full(1, -1, np.float32)
    assert device("runtime").elapsed(milliseconds) == 0
    assert 0 <= milliseconds[0] < 60000


def test_memory_is_copied_there_and_back():
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    assert device("runtime").round_trip(x, y) == 0
    assert np.array_equal(x, y)


def test_memory_is_freed_once():
    assert device("runtime").freed_twice() == INVALID_VALUE


def test_there_is_one_device():
    numbers = np.zeros(5, np.int32)
    assert device("runtime").device(numbers) == INVALID_DEVICE
    assert [*numbers] == [1, 0, 1, 32, 1024]
