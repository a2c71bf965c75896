"""Figures of the processor: like is compared with like, and parts of a measurement are added to a file."""

from __future__ import annotations

import math

import pytest

from benchmarks.cpu import kept
from benchmarks.cpu.kept import Kept, added
from benchmarks.cpu.page import table
from benchmarks.cpu.rows import ANY_BATCH, Row, geometric_mean, row_of
from benchmarks.cpu.workloads import WORKLOADS, chosen
from benchmarks.race import Result
from benchmarks.workloads import LOOP, STEP
from catgrad.errors import ArtifactError

OURS, EAGER, JAX = "catgrad c", "PyTorch eager", "JAX jit"


def row(name, seconds, measure=STEP, threads=1):
    """Return a row with the seconds of competitors; None for those that have no such measure."""
    [workload] = chosen(name)
    results = {
        competitor: Result(s, 2 * s, rounds=[s, s, 2 * s]) if s else Result(reason="does not")
        for competitor, s in seconds.items()
    }
    goal = workload.goal.get(measure)
    return Row(name, workload.title, measure, threads, 100, goal, workload.speed_up, results)


def part(*rows, processor="A", peak=1.0):
    """Return some rows, measured on a processor."""
    return Kept(kept.described(peak, 0.0) | {kept.PROCESSOR: processor}, ["torch"], rows)


def test_the_fastest_peer_is_never_ours():
    mine = row("mlp", {OURS: 2.0, OURS + ANY_BATCH: 1.0, EAGER: 8.0, JAX: 4.0})
    assert mine.best_peer(OURS) == (JAX, 4.0)
    assert (mine.ratio(OURS), mine.any_batch(OURS)) == (0.5, 0.5)


def test_a_loop_is_compared_only_with_loops():
    assert row("iris-16", {OURS: 1.0, EAGER: None, JAX: 4.0}, LOOP).best_peer(OURS) == (JAX, 4.0)
    assert row("iris-16", {OURS: 1.0, EAGER: None}, LOOP).ratio(OURS) is None


def test_the_mean_is_of_the_ratios_of_steps():
    rows = [row("mlp", {OURS: 1.0, JAX: 2.0}), row("gru", {OURS: 4.0, JAX: 2.0})]
    mean, count = geometric_mean([*rows, row("iris-16", {OURS: 9.0, JAX: 1.0}, LOOP)], OURS)
    assert (math.isclose(mean, 1.0), count) == (True, 2)
    assert geometric_mean([], OURS) is None


def test_rows_survive_json():
    before = row("unet", {OURS: 1.0, EAGER: None, JAX: 2.0}, threads=2)
    after = row_of(before.figures())
    assert after.figures() == before.figures()
    assert (after.title, after.speed_up) == (before.title, 1.7)


def test_a_part_takes_the_place_of_its_rows_only(tmp_path):
    path = tmp_path / "cpu.json"
    first = added(part(row("gru", {OURS: 1.0, JAX: 2.0}), row("mlp", {OURS: 1.0, JAX: 2.0}), peak=3.0), path)
    first.write(path)
    added(part(row("gru", {OURS: 1.0, JAX: 4.0}), row("mlp", {OURS: 5.0, JAX: 1.0}, threads=2)), path).write(
        path
    )
    rows = kept.read(path).rows
    found = [(each.workload, each.threads, each.ratio(OURS)) for each in rows]
    assert found == [("mlp", 1, 0.5), ("gru", 1, 0.25), ("mlp", 2, 5.0)]
    assert kept.read(path).machine[kept.PEAK] == 3.0
    assert "| MLP 784-128-10, batch 64 | step | 1 s | 2 s | 0.5 |" in table(rows[:2])


def test_figures_of_two_processors_are_not_mixed(tmp_path):
    path = tmp_path / "cpu.json"
    part(row("gru", {OURS: 1.0, JAX: 2.0})).write(path)
    with pytest.raises(ArtifactError, match="one processor"):
        added(part(row("mlp", {OURS: 1.0, JAX: 2.0}), processor="B"), path)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_every_workload_has_a_step_for_any_batch(workload):
    [x], [same] = workload.model.source.table, workload.any_batch().model.source.table
    assert not isinstance(same.shape[0], int)
    assert (same.shape[1:], same.dtype) == (x.shape[1:], x.dtype)
