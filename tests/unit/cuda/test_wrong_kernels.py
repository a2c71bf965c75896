"""Wrong kernels in the CUDA simulator are reported with their lines, and those of correct ones are not."""

from __future__ import annotations

import re

import pytest

from tests.covering import some
from tests.unit.cuda.build import FOLDER, NEEDS_CXX, ORDERS, compiled, device, sanitized
from tests.unit.cuda.families import FAMILIES
from tests.unit.cuda.wrong import create

pytestmark = NEEDS_CXX
MISALIGNED, FAILURE = 716, 719


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


@pytest.mark.parametrize("order", some(["forward", "random:3"], ["random:3"]))
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
