"""Asynchronous copies and ldmatrix in the CUDA simulator; a wait or a barrier that is missing is noticed."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from catgrad.tools import run
from tests.covering import some
from tests.unit.cuda.build import FOLDER, LIMIT, NEEDS_CXX, ORDERS, compiled, device, sanitized
from tests.unit.cuda.copies import NO_BARRIER, NO_WAIT, NONE, TOO_EARLY, X, ring

pytestmark = NEEDS_CXX
MISALIGNED, FAILURE = 716, 719


@pytest.fixture
def copies():
    """The device with the kernels, without errors."""
    yield device("copies")
    device("copies").reset()


@pytest.mark.parametrize("order", ORDERS)
def test_a_ring_of_copies_brings_each_slice_in_time(order, copies, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
    np.testing.assert_array_equal(ring(copies, NONE), X[:, ::-1])


@pytest.mark.parametrize("bug", [NO_WAIT, NO_BARRIER, TOO_EARLY])
@pytest.mark.parametrize("order", ORDERS)
def test_a_ring_with_a_bug_reads_what_is_not_there(bug, order, copies, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
    assert np.isnan(ring(copies, bug)).any()


@pytest.mark.parametrize("bug", some([NONE, NO_BARRIER, TOO_EARLY], [NONE, NO_BARRIER]))
def test_races_of_copies_are_found(bug):
    """A copy writes twice: where it begins, as nobody may read its target, and where its thread waits."""
    path = compiled("copies", "-g", "-fsanitize=thread")
    done = sanitized("thread", "tests.unit.cuda.copies", path, bug)
    assert bool(re.search("SUMMARY: ThreadSanitizer: data race", done.stderr)) == (bug != NONE)


def test_a_copy_of_fewer_bytes_ends_in_zeros(copies):
    x, out = np.arange(1, 129, dtype=np.float32).reshape(32, 4), np.zeros((32, 4), np.float32)
    assert copies.zeros(x, out) == 0
    kept = np.arange(4) < np.arange(32)[:, None] % 5
    np.testing.assert_array_equal(out, np.where(kept, x, 0))


@pytest.mark.parametrize("transposed", [0, 1])
def test_matrices_are_distributed_among_lanes(transposed, copies):
    """Lane l has elements 2(l % 4) and the next one of row l / 4 of each matrix, or of its transpose."""
    halves = np.random.default_rng(1).integers(0, 2**16, (4, 8, 8)).astype(np.uint16)
    out = np.zeros((32, 4), np.uint32)
    assert copies.matrices(transposed, halves.view(np.uint32).copy(), out) == 0
    each = halves.transpose(0, 2, 1).copy() if transposed else halves
    np.testing.assert_array_equal(out, each.view(np.uint32).reshape(4, 32).T)


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        ("to_memory", FAILURE, r"cp.async in line {0} needs an address of shared memory"),
        ("misaligned_source", MISALIGNED, r"16 bytes must be at a multiple of its size"),
        ("half_a_warp", FAILURE, r"ldmatrix in line {0} needs all 32 lanes of the warp; those in 0x0000ffff"),
    ],
)
def test_a_wrong_address_or_a_missing_lane_is_an_error(kernel, error, message, copies):
    lines = (FOLDER / "copies.cu").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if f"void {kernel}(" in line)
    [line] = [i + 1 for i in range(first, lines.index("}", first)) if "// bug" in lines[i]]
    assert getattr(copies, f"run_{kernel}")(np.zeros(40, np.float32)) == error
    assert re.search(message.format(line), copies.message), copies.message


@pytest.mark.skipif(not shutil.which("nvcc"), reason="there is no nvcc")
def test_the_source_of_these_tests_is_cuda(tmp_path):
    options = ["-std=c++17", "-arch=sm_80", "-Werror", "all-warnings", "-c", "-o", str(tmp_path / "object.o")]
    done = run(["nvcc", *options, str(FOLDER / "copies.cu")], LIMIT)
    assert (done.returncode, done.stderr) == (0, "")
