"""The wrappers of sm_90a: products are exact in the simulator, which catches faults, and build cleanly."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from catgrad.backends.cuda_simulator import library

from tests.covering import some
from tests.unit.cuda.build import NEEDS_CXX, ORDERS, sanitized
from tests.unit.cuda.device import Device
from tests.unit.cuda.hopper import KINDS, aligned, integers, multiply, sources, stored, wrappers
from tests.unit.cuda.hopper_faults import FAULTS, REPEATED
from tests.unit.cuda.nvcc import NEEDS_NVCC, NEEDS_NVDISASM, compiled, kernels, require_clean

pytestmark = NEEDS_CXX
MISALIGNED, FAILURE, INVALID_VALUE = 716, 719, 1


@cache
def path(source, *changes, flags=()):
    return library(sources(*changes), f"{source}.cu", source, flags)


@cache
def device(source, *changes):
    return Device(path(source, *changes))


# ---- right kernels


@pytest.mark.covering
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=lambda kind: "-".join(map(str, KINDS[kind])))
@pytest.mark.parametrize("order", ORDERS)
def test_a_product_is_exact_in_any_order(kind, order, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
    for m, n, k in [(200, 200, 130), (128, 256, 64), (72, 41, 13)]:
        assert multiply(device("hopper"), kind, m, n, k, stages=3) == (0, True), device("hopper").message


@pytest.mark.covering
@pytest.mark.parametrize("stages", range(2, 7))
@pytest.mark.parametrize("k", range(1, 10))
def test_a_ring_of_any_size_takes_any_number_of_blocks(stages, k):
    for kind in (1, 3):
        assert multiply(device("hopper"), kind, 192, 136, 64 * k - 8, stages, 1) == (0, True)


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_a_box_beyond_an_array_has_zeros_and_is_dropped(dimensions):
    """The box begins before the array in some dimensions, and ends behind it in others, when it is stored."""
    sizes, box = [40, 7, 5, 3][:dimensions], [32, 4, 3, 2][:dimensions]
    at, beyond = [12, -1, 3, 2][:dimensions], [16, 5, -1, 0][:dimensions]
    x, y = aligned(sizes[::-1], np.float32), aligned(sizes[::-1], np.float32)
    x[:] = integers(*x.shape)
    strides = [4 * int(np.prod(sizes[:i])) for i in range(1, dimensions)]
    numbers = [np.array(sizes, np.uint64), np.array(strides, np.uint64), np.array(box, np.uint32)]
    places = [np.array([*each, 0, 0], np.int32) for each in (at, beyond)]
    assert device("hopper_parts").box(dimensions, x, y, *numbers, *places) == 0, device(
        "hopper_parts"
    ).message
    expected = np.full_like(y, np.nan)
    for index in np.ndindex(*box[::-1]):
        source = tuple(i + o for i, o in zip(index, at[::-1], strict=True))
        target = tuple(i + o for i, o in zip(index, beyond[::-1], strict=True))
        if all(0 <= i < size for i, size in zip(target, y.shape, strict=True)):
            inside = all(0 <= i < size for i, size in zip(source, x.shape, strict=True))
            expected[target] = x[source] if inside else 0
    assert np.array_equal(y, expected, equal_nan=True)


def test_bytes_are_copied_for_one_elected_thread():
    x, total = aligned(1000, np.float32), np.zeros(1, np.float32)
    x[:] = integers(1000)
    assert device("hopper_parts").add(x, 1000, total) == 0
    assert total[0] == x.sum()


@pytest.mark.parametrize(("kind", "d"), [(0, "bf16"), (1, "f16"), (2, "tf32")])
def test_a_left_operand_may_be_in_registers(kind, d):
    terms = 32 if d == "tf32" else 64
    x, y, c = integers(64, terms), integers(terms, 128), aligned((64, 128), np.float32)
    b = stored(y.T if d == "tf32" else y, d)
    assert device("hopper_parts").fragments(kind, stored(x, d), b, c) == 0, device("hopper_parts").message
    assert np.array_equal(c, x @ y)


def test_matrices_are_stored_by_rows():
    x, y = aligned((16, 16), np.uint16), np.zeros((16, 16), np.uint16)
    x[:] = np.arange(256).reshape(16, 16)
    assert device("hopper_parts").matrices(x, y) == 0
    assert np.array_equal(x, y)


def test_only_what_is_used_is_emitted():
    assert wrappers(frozenset({"add", "launch_blocks"})) == ""
    text = wrappers(frozenset({"meet_at", "multiply_warpgroup_tf32_64"}))
    assert re.findall(r"__forceinline__ \w+ (\w+)\(", text) == [
        "shared_address",
        "meet_at",
        "multiply_warpgroup_tf32_64",
    ]


# ---- wrong ones


@pytest.mark.parametrize("fault", some(FAULTS, FAULTS.keys() - REPEATED))
def test_a_planted_fault_is_an_error_in_any_order(fault, monkeypatch):
    old, new, message = FAULTS[fault]
    wrong = device("hopper_one", (old, new))
    for order in ORDERS:
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        error, _ = multiply(wrong, 1, 200, 200, 300, blocks=1)
        assert error in (FAILURE, MISALIGNED), order
        assert re.search(message, wrong.message), (order, wrong.message)
        assert wrong.reset() == 0


def test_a_missing_barrier_after_initialisation_is_an_error_in_some_order(monkeypatch):
    wrong, messages = (
        device(
            "hopper_one", ("    __syncthreads();\n    if (threadIdx.x < 128)", "    if (threadIdx.x < 128)")
        ),
        [],
    )
    for order in ORDERS:
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        multiply(wrong, 1, 200, 200, 300, blocks=1)
        messages.append(wrong.message)
        assert wrong.reset() == 0
    assert any("it must be initialised" in message for message in messages)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("MAJOR ? TERMS * ROW_BYTES : 16", "MAJOR ? 1024 : 16"),  # the boxes of 64 columns
        ("MAJOR ? 16 * ROW_BYTES / 16 : 2", "MAJOR ? 16 * ROW_BYTES / 16 : 4"),  # the next terms
        ("(c / 4 ^ r % 8)", "(c / 4)"),  # a tile that is stored without a swizzle
        ("consumer * BOX_BYTES;\n                const", "0;\n                const"),  # rows of the other
        ("block > 0 || i > 0", "true"),  # sums begin with those of the tile before
    ],
)
def test_a_wrong_layout_gives_other_numbers(old, new):
    wrong = device("hopper_one", (old, new))
    error, exact = multiply(wrong, 1, 200, 200, 300, blocks=1)
    assert wrong.reset() == 0
    assert error or not exact


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offset": 1}, "must begin at a multiple of 16 bytes"),
        ({"pitch": 4}, "stride 1 of a tensor map must be a multiple of 16 bytes below 2.40, not 40"),
    ],
)
def test_arrays_of_tensor_maps_must_be_aligned(options, message):
    on = device("hopper_one")
    assert multiply(on, 1, 64, 64, 20, **options) == (INVALID_VALUE, False)
    assert re.search(message, on.message)
    assert on.reset() == 0


def test_sums_that_are_read_in_flight_are_found_with_their_line():
    """AddressSanitizer finds them; without it, they are NaN."""
    early = (
        "                commit_products();\n",
        "                commit_products(); if (sums[0] == 3) return;\n",
    )
    flags = ("-g", "-fsanitize=address", "-fsanitize-sections=cuda_shared")
    done = sanitized("address", "tests.unit.cuda.hopper", path("hopper_one", flags=flags), 1)
    assert (done.returncode, done.stderr) == (0, "")
    done = sanitized("address", "tests.unit.cuda.hopper", path("hopper_one", early, flags=flags), 1)
    text = sources(early)["hopper_gemm.cuh"].splitlines()
    [line] = [i + 1 for i, line in enumerate(text) if "sums[0] == 3" in line]
    assert f"hopper_gemm.cuh:{line} in" in done.stderr


def test_right_kernels_have_no_races():
    done = sanitized(
        "thread", "tests.unit.cuda.hopper", path("hopper_one", flags=("-g", "-fsanitize=thread")), 1
    )
    assert (done.returncode, done.stderr) == (0, "")


# ---- nvcc


@cache
def built(source, folder, *options):
    """Compile a file for sm_90a to machine code in a folder, and return the messages of ptxas."""
    for name, text in sources().items():
        (folder / name).write_text(text)
    return compiled(f"{source}.cu", folder, "-arch=sm_90a", *options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hopper")


@pytest.mark.covering
@NEEDS_NVCC
@pytest.mark.parametrize("source", ["hopper", "hopper_parts"])
@pytest.mark.parametrize("options", [(), ("-DNDEBUG",)], ids=["bounded waits", "unbounded"])
def test_ptxas_serialises_and_spills_nothing(source, options, folder):
    require_clean(built(source, folder, *options), 6)


@NEEDS_NVCC
@NEEDS_NVDISASM
def test_kernels_have_the_instructions_of_the_wrappers(folder):
    """Each loop has four products between two waits, and the producer copies by TMA."""
    built("hopper", folder)
    found = []
    for kernel in (text for name, text in kernels(folder / "hopper.cubin").items() if "gemm" in name):
        products = re.findall(r"HGMMA\.\S+", kernel)
        assert products == products[:1] * 4
        assert kernel.count("WARPGROUP.DEPBAR.LE gsb0") == 2
        assert kernel.count("WARPGROUP.ARRIVE") == 1
        assert kernel.count("USETMAXREG") == 2
        assert "UTMALDG.2D" in kernel
        assert "UTMASTG.2D" in kernel
        assert not re.search(r"\b(LDL|STL)\b", kernel)
        found.append(products[0])
    forms = {"bf16": "16.F32.BF16", "f16": "16.F32", "tf32": "8.F32.TF32"}
    assert sorted(found) == sorted(f"HGMMA.64x{n}x{forms[d]}" for d, n, _, _ in KINDS)
