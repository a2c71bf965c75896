"""`benchmarks.browser` compares like with like: competitors train the same parameters, or are left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.browser.command import competitors, race, row_of, written
from benchmarks.cpu.workloads import WORKLOADS
from tests.targets import cannot

pytestmark = pytest.mark.skipif(bool(cannot("wasm")), reason=str(cannot("wasm")))

OURS = 2


def test_both_targets_take_the_same_steps(tmp_path):
    [iris] = [workload for workload in WORKLOADS if workload.name == "iris-16"]
    every = competitors()[:OURS]
    race(written(iris, tmp_path), every, rounds=1, seconds=1e-3)
    assert [each.failed for each in every] == ["", ""]
    figures = row_of(iris, every)
    assert all(figures["seconds"].values())
    assert figures["best peer"] is None


def test_a_competitor_with_other_losses_is_left_out(tmp_path):
    [iris] = [workload for workload in WORKLOADS if workload.name == "iris-16"]
    place = written(iris, tmp_path)
    other = written(replace(iris, optimiser={"rate": 5.0}), tmp_path / "other")
    every = competitors()[:OURS]
    (place / "javascript").rename(place / "unused")
    (other / "javascript").rename(place / "javascript")
    race(place, every, rounds=1, seconds=1e-3)
    assert every[1].failed.startswith("its losses are")
    assert every[1].seconds is None
