"""The CUDA simulator: kernels compute what NumPy does in any order of threads; wrong ones are reported."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from catgrad.backends.c.compiler import shared_library
from catgrad.backends.cuda.simulator import TOOLCHAIN, library, translate

from catgrad.errors import TextError, ToolError
from catgrad.tools import run
from tests.unit.cuda.build import FOLDER, LIMIT, NEEDS_CXX, compiled, device, sanitized
from tests.unit.cuda.families import BUGS, FAMILIES, RNG, product
from tests.unit.cuda.wrong import create

pytestmark = NEEDS_CXX
ORDERS = ("forward", "backward", "random:1", "random:2")
INVALID_VALUE, INVALID_CONFIGURATION, INVALID_DEVICE, ILLEGAL_STATE, MISALIGNED, FAILURE = (
    1,
    9,
    101,
    401,
    716,
    719,
)
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
@pytest.mark.parametrize("name", ["families", "features", "runtime", "wrong"])
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
        np.full(32, 5), np.where(i < 3, i, i - 3), np.where(i > 28, i, i + 3), i ^ 6,
        segment + (i + 1) % 8, np.where(i % 8 > 5, i, i + 2),
    ]  # fmt: skip
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


# ---- wrong kernels


@pytest.fixture
def wrong():
    """The device with wrong kernels, without errors."""
    yield device("wrong")
    device("wrong").reset()


def lines_with_bugs(kernel):
    """Return the numbers of the lines of a wrong kernel that say so."""
    lines = (FOLDER / "wrong.cu").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if f"void {kernel}(" in line)
    last = lines.index("}", first)
    return [i + 1 for i in range(first, last) if "// bug" in lines[i]]


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (
            "two_barriers",
            FAILURE,
            r"__syncthreads\(\) in line {1}, while thread \(0, 0, 0\) waits in line {0}",
        ),
        (
            "barrier_in_branch",
            FAILURE,
            r"deadlock: .* exchange in line {0}, .* __syncthreads\(\) in line {1}",
        ),
        (
            "outside_of_mask",
            FAILURE,
            "lane 0 reads lane 9 by the shuffle in line {0}, which is not in the mask",
        ),
        ("not_in_own_mask", FAILURE, "lane 16 executes an exchange in line {0} whose mask is 0x0000ffff"),
        ("exited_lane", FAILURE, "lane 0 reads lane 16 by the shuffle in line {0}, which has finished"),
        ("two_shuffles", FAILURE, "lane 0 of the warp is in line {0}, lane 1 in line {1}"),
        ("misaligned", MISALIGNED, "16 bytes must be at a multiple of its size"),
    ],
)
def test_a_wrong_kernel_is_an_error_of_this_and_all_later_calls(kernel, error, message, wrong):
    assert getattr(wrong, f"run_{kernel}")(create(wrong)) == error
    assert wrong.message.startswith(f"kernel {kernel}, block (0, 0, 0)")
    assert re.search(message.format(*lines_with_bugs(kernel)), wrong.message), wrong.message
    assert wrong.run_no_guard(None) == error
    assert wrong.synchronize() == error
    assert wrong.reset() == 0
    assert wrong.synchronize() == 0
    assert wrong.run_no_barrier(create(wrong, 64)) == 0


@pytest.mark.parametrize("kernel", ["two_barriers", "barrier_in_branch", "two_shuffles"])
@pytest.mark.parametrize("order", ORDERS[1:])
def test_divergence_is_found_in_any_order(kernel, order, monkeypatch, wrong):
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
    assert getattr(wrong, f"run_{kernel}")(create(wrong)) == FAILURE


@pytest.mark.parametrize("kernel", ["no_guard", "beyond_shared", "beyond_dynamic"])
def test_accesses_out_of_bounds_are_found(kernel):
    path = compiled("wrong", "-g", "-fsanitize=address", "-fsanitize-sections=cuda_shared")
    done = sanitized("address", "tests.unit.cuda.wrong", path, kernel)
    assert done.returncode != 0
    [line] = lines_with_bugs(kernel)
    assert re.search(rf"SUMMARY: AddressSanitizer: \S+ \S+wrong.cu:{line} in {kernel}", done.stderr)


def test_correct_kernels_stay_within_bounds_and_a_missing_guard_does_not():
    path = compiled("families", "-g", "-fsanitize=address", "-fsanitize-sections=cuda_shared")
    done = sanitized("address", "tests.unit.cuda.families", path, *FAMILIES)
    assert (done.returncode, done.stderr) == (0, "")
    done = sanitized("address", "tests.unit.cuda.families", path, "no_guard")
    assert re.search(r"SUMMARY: AddressSanitizer: \S+ \S+families.cu:\d+ in product_kernel", done.stderr)


def races(done):
    """Return the kernels in which ThreadSanitizer found races."""
    return {*re.findall(r"SUMMARY: ThreadSanitizer: data race \S+ in (\w+)", done.stderr)}


@pytest.mark.parametrize("order", ["forward", "random:3"])
def test_races_within_and_between_blocks_are_found(order):
    path = compiled("wrong", "-g", "-fsanitize=thread")
    kernels = ("no_barrier", "no_warp_barrier", "same_element")
    done = sanitized("thread", "tests.unit.cuda.wrong", path, "correct", *kernels, CUDA_SIMULATOR_ORDER=order)
    assert races(done) == {*kernels}


def test_correct_kernels_have_no_races_and_a_missing_barrier_makes_one():
    path = compiled("families", "-g", "-fsanitize=thread")
    done = sanitized("thread", "tests.unit.cuda.families", path, *FAMILIES)
    assert (done.returncode, done.stderr) == (0, "")
    assert races(sanitized("thread", "tests.unit.cuda.families", path, "no_barrier")) >= {"product_kernel"}


def test_the_documentation_shows_a_message(capsys):
    page = (FOLDER.parents[2] / "docs/explanation/cuda-simulator.md").read_text("utf-8")
    [block] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(block, {})
    shown = re.findall(r"^    (.+)$", page.replace(block, ""), re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == shown


# ---- translation


@pytest.mark.parametrize(
    ("cuda", "cpp"),
    [
        ("k<<<1, 2>>>(x);", "SIMULATOR_LAUNCH(k, 1, 2)(x);"),
        (
            "k <<<\n f(a >> 1, (b)), c[d]\n>>> (x,\ny);",
            "SIMULATOR_LAUNCH(k, \n f(a >> 1, (b)), c[d]\n) (x,\ny);",
        ),
        (
            "k<<<g, b>>>(h(1)); l<<<g, b>>>();",
            "SIMULATOR_LAUNCH(k, g, b)(h(1)); SIMULATOR_LAUNCH(l, g, b)();",
        ),
        ("k /* <<<1, 2>>> */ <<<1, 2>>>();", "SIMULATOR_LAUNCH(k, /* <<<1, 2>>> */ 1, 2)();"),
        ("extern __shared__ T x[];", "T *const x = (T *)::simulator::dynamic_shared;"),
        (
            "extern __shared__ __align__(16)\n unsigned char x[];",
            "unsigned char *const x = (unsigned char *)::simulator::dynamic_shared\n;",
        ),
        ("__shared__ alignas(16) float x[2];", "__shared__ __align__(16) float x[2];"),
    ],
)
def test_launches_and_dynamic_arrays_are_translated(cuda, cpp):
    assert re.sub(r" +", " ", translate(cuda)) == re.sub(r" +", " ", cpp)
    assert translate(cuda).count("\n") == cuda.count("\n")


@pytest.mark.parametrize(
    "source",
    [
        "// k<<<1, 2>>>(x)\n",
        '"k<<<1, 2>>>(x)" R"(k<<<1, 2>>>(x))" R"mark()" k<<<1>>>(x))mark"',
        "'<' \"\\\"<<<\" a << b >> c; 1'000 << 2",
        'extern "C" int f(int); extern int x[];',
        'extern "C" { __global__ void k() { __shared__ float x[4]; } }',
        "#define ADD(a, b) \\\n  ((a) + (b))\n/* extern __shared__ float x[]; */",
        "alignas(16) __shared__ float x[2]; struct alignas(16) S {};",
        "unterminated \" ' /* é",
    ],
)
def test_all_else_stays_as_it_is(source):
    assert translate(source) == source


@pytest.mark.parametrize(
    "source", ["<<<1, 2>>>(x);", "\n\nk<int><<<1, 2>>>(x);", "k<<<1, 2;", "k<<<1, 2)>>>(x)"]
)
def test_a_launch_names_a_kernel_and_ends(source):
    with pytest.raises(TextError, match=rf"line {source.count(chr(10)) + 1}\b"):
        translate(source)


def test_an_error_of_the_compiler_names_the_line_of_the_source(tmp_path, monkeypatch):
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path))
    source = "#include <cuda_runtime.h>\n__global__ void k(int *x) {\n    x[0] = nothing;\n}\n"
    with pytest.raises(ToolError, match=r"bad\.cu:3:\d+: error: .*nothing"):
        library({"bad.cu": source}, "bad.cu", "bad")


def test_headers_of_the_simulator_are_part_of_what_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "headers").mkdir()
    header = tmp_path / "headers/answer.h"
    toolchain = replace(TOOLCHAIN, headers=header.parent)
    answers = []
    for answer in (1, 2):
        header.write_text(f"#define ANSWER {answer}\n")
        files = {"x.cu": '#include <answer.h>\nextern "C" int answer() { return ANSWER; }\n'}
        path = shared_library("x", files, "x.cu", ["-x", "c++"], toolchain)
        answers.append(ctypes.CDLL(str(path)).answer())
    assert answers == [1, 2]


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolError, match=r"there is no C\+\+ compiler: \$CXX is 'no-such-compiler'"):
        library({"x.cu": ""}, "x.cu", "x")
