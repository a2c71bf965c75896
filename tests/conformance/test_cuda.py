"""Whole models as CUDA: in any order of threads, in graphs, under sanitizers; planted bugs are noticed."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest
from catgrad.backends.cuda.tools import simulating

from tests.conformance.cuda_models import Emitted, emitted
from tests.targets import cannot
from tests.unit.cuda.build import sanitized

MISSING = cannot("cuda")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"target cuda: {MISSING}")
SIMULATED = pytest.mark.skipif(not simulating(), reason="sanitizers of the simulator, which is not in use")
ORDERS = ("forward", "backward", "random:1")
"""Orders of threads in the simulator; a device has its own."""
KINDS = [("mlp", "default"), ("cnn", "small"), ("lstm", "small"), ("char_gpt", "small")]
"""Models, and limits of schedules, that together have kernels of all kinds."""


@pytest.mark.parametrize(("name", "machine"), KINDS)
def test_training_agrees_with_numpy_in_any_order_of_threads(name, machine, monkeypatch):
    """Sums are formed in a fixed order: results have the same bits."""
    model = emitted(name, machine)
    driver = model.driver()
    found = driver.numbers(model.batches)
    model.assert_right(found)
    runs = []
    for order in ORDERS:
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        driver.initialise()
        runs.append(driver.numbers(model.last))
    for run in runs[1:]:
        assert_same_bits(run, runs[0])


def assert_same_bits(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize(("name", "machine"), KINDS[:3])
def test_a_graph_launched_n_times_is_n_steps(name, machine):
    model = emitted(name, machine)
    batch, driver = model.batches[0], model.driver()
    losses = [driver.run("step", *batch) for _ in range(3)]
    wanted = driver.state()
    driver.initialise()
    assert driver.run_graph(3, *batch).tobytes() == losses[-1].tobytes()
    assert_same_bits(driver.state(), wanted)


def test_all_kinds_of_kernels_are_among_the_models():
    """Tiles of products, teams of warps and blocks, two stages, tiles of scattered rows, 16 bytes at once."""
    text = "".join(emitted(*kind).text for kind in KINDS)
    for sign in ("left_tile[", "= threadIdx.x % 32", "block_add_f32(", "warp_add_f32(", "_parts", "row_tile"):
        assert sign in text


SANITIZERS = {
    "address": ("-g", "-fsanitize=address", "-fsanitize-sections=cuda_shared"),
    "thread": ("-g", "-fsanitize=thread"),
}


def watched(model: Emitted, sanitizer: str, folder, **changed):
    """Train on one batch under a sanitizer; returns the process, which writes results to the folder."""
    arrays = {f"0_{k}": array for k, array in enumerate(model.last[0])}
    np.savez(folder / "batches.npz", **arrays)
    (folder / "manifest.json").write_text(model.files["manifest.json"])
    (folder / "library.so").symlink_to(model.library(*SANITIZERS[sanitizer], **changed))
    return sanitized(sanitizer, "tests.conformance.cuda_driver", folder)


@SIMULATED
@pytest.mark.parametrize(
    ("name", "machine", "sanitizer"),
    [
        ("mlp", "default", "thread"),
        ("cnn", "small", "address"),
        pytest.param("mlp", "default", "address", marks=pytest.mark.long),
        pytest.param("cnn", "small", "thread", marks=pytest.mark.long),
    ],
)
def test_no_sanitizer_reports(name, machine, sanitizer, tmp_path):
    model = emitted(name, machine)
    done = watched(model, sanitizer, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert_same_bits(np.load(tmp_path / "results.npz"), model.driver().numbers(model.last))


# ---- planted bugs


def launched(model: Emitted, sign: str) -> str:
    """Return the text of the last kernel of a step that has a sign in it."""
    text, name = model.text, model.artifact.program.name
    body = text[text.index(f"int {name}_step(") :]
    names = re.findall(r"(\w+)<<<", body[: body.index("\n}\n")])
    texts = {name_of(m[0]): m[0] for m in re.finditer(r"(?ms)^static __global__ void .*?^}\n", text)}
    return next(texts[each] for each in reversed(names) if sign in texts[each])


def without(model: Emitted, kernel: str, part: str, instead: str = "") -> str:
    """Replace the first occurrence of a part of a kernel."""
    assert part in kernel
    return model.text.replace(kernel, kernel.replace(part, instead, 1))


def name_of(kernel: str) -> str:
    return re.findall(r"__global__ void (?:__launch_bounds__\(.*?\) )?(\w+)\(", kernel)[0]


@SIMULATED
@pytest.mark.covering(0)
@pytest.mark.parametrize("barrier", ["__syncthreads", "__syncwarp"])
def test_a_missing_barrier_is_a_race(barrier, tmp_path):
    model = emitted("mlp", "default")
    kernel = launched(model, f"{barrier}();")
    done = watched(model, "thread", tmp_path, text=without(model, kernel, f"{barrier}();"))
    assert "SUMMARY: ThreadSanitizer: data race" in done.stderr
    assert re.search(rf"#\d+ {name_of(kernel)}\b", done.stderr)


@SIMULATED
def test_a_missing_barrier_of_a_product_gives_other_numbers(monkeypatch):
    """Shared memory is NaN before it is written."""
    model = emitted("mlp", "default")
    wrong = model.driver(text=without(model, launched(model, "left_tile["), "__syncthreads();"))
    assert not is_right(wrong, model)


def is_right(driver, model: Emitted) -> bool:
    """Tell whether a driver trains as the target numpy does."""
    try:
        model.assert_right(driver.numbers(model.batches))
    except AssertionError:
        return False
    return True


@SIMULATED
def test_a_missing_guard_is_an_access_out_of_bounds(tmp_path):
    model = emitted("cnn", "small")
    kernel = launched(model, "blockIdx.x * 256 + threadIdx.x;")
    guard = re.findall(r" +if \(\w+ >= \d+\) \{ return; \}\n", kernel)[0]
    done = watched(model, "address", tmp_path, text=without(model, kernel, guard))
    assert re.search(rf"SUMMARY: AddressSanitizer: .* in {name_of(kernel)}\b", done.stderr)


def test_a_wrong_stride_gives_other_numbers():
    """The threads of a tile multiply elements of another row."""
    model = emitted("mlp", "default")
    kernel = launched(model, "{left_tile + ")
    tile, stride = re.search(r"(\{left_tile \+ [^{}]*, )(\d+)\}", kernel).groups()
    wrong = without(model, kernel, f"{tile}{stride}}}", f"{tile}{int(stride) - 4}}}")
    assert is_right(model.driver(), model) and not is_right(model.driver(text=wrong), model)
