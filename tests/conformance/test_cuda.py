"""Whole models as CUDA: in any order of threads, in graphs, under sanitizers; planted bugs are noticed."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest
from catgrad.backends.cuda.tools import simulating

from catgrad import Dim, NdArrayType, build
from catgrad.functors import Expand
from catgrad.programs.program import Program, lower
from catgrad.backend import get_backend
from tests.conformance.cuda_models import Emitted, emitted
from tests.gpu import limits
from tests.targets import cannot
from tests.unit.cuda.build import sanitized

MISSING = cannot("cuda")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"target cuda: {MISSING}")
SIMULATED = pytest.mark.skipif(not simulating(), reason="sanitizers of the simulator, which is not in use")
ORDERS = ("backward", "random:1")
KINDS = [("mlp", "default"), ("cnn", "small"), ("lstm", "small"), ("char_gpt", "small")]
"""Models, and limits of schedules, that together have kernels of all kinds."""


@pytest.mark.parametrize(("name", "machine"), KINDS)
def test_training_agrees_with_numpy_in_any_order_of_threads(name, machine, monkeypatch):
    """Sums are formed in a fixed order: results have the same bits."""
    model = emitted(name, machine)
    driver = model.driver()
    found = driver.numbers(model.batches)
    model.assert_right(found)
    for order in ORDERS if simulating() else ("again",):
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        driver.initialise()
        assert_same_bits(driver.numbers(model.batches), found)


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
    """Train under a sanitizer, and return the process, which writes its results to the folder."""
    arrays = {f"{i}_{k}": array for i, batch in enumerate(model.batches) for k, array in enumerate(batch)}
    np.savez(folder / "batches.npz", **arrays)
    (folder / "manifest.json").write_text(model.files["manifest.json"])
    (folder / "library.so").symlink_to(model.library(*SANITIZERS[sanitizer], **changed))
    return sanitized(sanitizer, "tests.conformance.cuda_driver", folder)


@SIMULATED
@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize(("name", "machine"), [("mlp", "default"), ("cnn", "small")])
def test_no_sanitizer_reports(name, machine, sanitizer, tmp_path):
    model = emitted(name, machine)
    done = watched(model, sanitizer, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    model.assert_right(np.load(tmp_path / "results.npz"))
