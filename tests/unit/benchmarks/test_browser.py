"""`benchmarks.browser` compares like with like: competitors train the same parameters, or are left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.browser import command
from benchmarks.browser.command import competitors, row_of, written
from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.race import Race
from tests.targets import cannot

pytestmark = pytest.mark.skipif(bool(cannot("wasm")), reason=str(cannot("wasm")))

OURS = 2
RACE = Race(1, 1e-3, str, middle=min)
IRIS = next(workload for workload in WORKLOADS if workload.name == "iris-16")


@pytest.fixture(autouse=True)
def without_threads(monkeypatch):
    """Leave out the module with threads, for which ziglang builds another standard library."""
    monkeypatch.setattr(command, "OURS", [each for each in command.OURS if each[1] != command.THREADED])


def test_both_targets_take_the_same_steps(tmp_path):
    row = row_of(IRIS, written(IRIS, tmp_path), competitors()[:OURS], RACE)
    assert [*row.ours()] == ["catgrad wasm", "catgrad javascript"]
    assert row.fastest is None


def test_a_competitor_with_other_losses_is_left_out(tmp_path):
    place = written(IRIS, tmp_path)
    other = written(replace(IRIS, optimiser={"rate": 5.0}), tmp_path / "other")
    (place / "wasm").rename(place / "unused")
    (other / "wasm").rename(place / "wasm")
    row = row_of(IRIS, place, competitors()[:OURS], RACE)
    assert row.results["catgrad wasm"]["reason"].startswith("wrong: its loss 1 is")
    assert [*row.ours()] == ["catgrad javascript"]
