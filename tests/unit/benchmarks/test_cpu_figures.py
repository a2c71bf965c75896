"""Figures of the processor: like is compared with like, and parts of a measurement are added to a file."""

from __future__ import annotations

import io
import json
import math

import pytest
from rich.console import Console

from benchmarks.cpu import kept, tables
from benchmarks.cpu.kept import Kept, added
from benchmarks.cpu.page import table
from benchmarks.cpu.rows import ANY_BATCH, RATIOS, SHARES, Row, means, row_of
from benchmarks.cpu.workloads import WORKLOADS, chosen
from benchmarks.figures import means as sentence
from benchmarks.machine import UNKNOWN, Peaks
from benchmarks.race import Result
from benchmarks.workloads import LOOP, STEP
from catgrad.errors import ArtifactError

PEAKS = Peaks(50.0, {1: 10.0, 64: 5.0})
OURS, EAGER, JAX = "catgrad c", "PyTorch eager", "JAX jit"


def row(name, seconds, measure=STEP, threads=1, arrays=()):
    """Return a row with the seconds of competitors; None for those that have no such measure."""
    [workload] = chosen(name)
    results = {
        competitor: Result(s, 2 * s, rounds=[s, s, 2 * s]) if s else Result(reason="does not")
        for competitor, s in seconds.items()
    }
    goal = workload.goal.get(measure)
    return Row(name, workload.title, measure, threads, 100, goal, workload.speed_up, results, dict(arrays))


def part(*rows, processor="A", peaks=PEAKS):
    """Return some rows, measured on a processor."""
    return Kept(kept.described(peaks, 0.0) | {kept.PROCESSOR: processor}, ["torch"], rows)


def test_the_fastest_peer_is_never_ours():
    mine = row("mlp", {OURS: 2.0, OURS + ANY_BATCH: 1.0, EAGER: 8.0, JAX: 4.0})
    assert mine.best_peer(OURS) == (JAX, 4.0)
    assert (mine.ratio(OURS), mine.any_batch(OURS)) == (0.5, 0.5)


def test_a_loop_is_compared_only_with_loops():
    assert row("iris-16", {OURS: 1.0, EAGER: None, JAX: 4.0}, LOOP).best_peer(OURS) == (JAX, 4.0)
    assert row("iris-16", {OURS: 1.0, EAGER: None}, LOOP).ratio(OURS) is None


def test_the_mean_is_of_the_ratios_of_steps():
    rows = [row("mlp", {OURS: 1.0, JAX: 2.0}), row("gru", {OURS: 4.0, JAX: 2.0})]
    rows.append(row("iris-16", {OURS: 9.0, JAX: 1.0}, LOOP))
    [(what, (mean, count))] = means(rows, OURS, PEAKS).items()
    assert (what, math.isclose(mean, 1.0), count) == (RATIOS, True, 2)
    assert means([], OURS, PEAKS) == {}


def test_the_share_is_the_least_time_over_ours():
    """100 operations take 2 s at the peak, and two arrays of 30 bytes 6 s."""
    one, two = (row("mlp", {OURS: 16.0}, threads=threads, arrays={30: 2}) for threads in (1, 2))
    assert (one.least(PEAKS), one.share(OURS, PEAKS), two.share(OURS, PEAKS)) == (8.0, 0.5, 0.25)
    assert means([one, two], OURS, PEAKS) == {SHARES: (pytest.approx(math.sqrt(0.125)), 2)}


def test_figures_without_bandwidth_or_arrays_have_no_share():
    old, new = row("mlp", {OURS: 16.0}), row("mlp", {OURS: 16.0}, arrays={30: 2})
    assert [old.share(OURS, PEAKS), new.share(OURS, UNKNOWN), new.share(JAX, PEAKS)] == [None] * 3
    assert means([old], OURS, PEAKS) == {}


def test_rows_survive_json():
    before = row("unet", {OURS: 1.0, EAGER: None, JAX: 2.0}, threads=2, arrays={8: 2, 64: 1})
    after = row_of(json.loads(json.dumps(before.figures())))
    assert (after.arrays, after.least(PEAKS)) == (before.arrays, before.least(PEAKS))
    assert after.figures() == before.figures()
    assert (after.title, after.speed_up) == (before.title, 1.7)


def test_a_part_takes_the_place_of_its_rows_only(tmp_path):
    path = tmp_path / "cpu.json"
    peaks = Peaks(90.0, {1: 8.0, 64: 6.0})
    first = added(
        part(row("gru", {OURS: 1.0, JAX: 2.0}), row("mlp", {OURS: 1.0, JAX: 2.0}), peaks=peaks), path
    )
    first.write(path)
    added(part(row("gru", {OURS: 1.0, JAX: 4.0}), row("mlp", {OURS: 5.0, JAX: 1.0}, threads=2)), path).write(
        path
    )
    rows = kept.read(path).rows
    found = [(each.workload, each.threads, each.ratio(OURS)) for each in rows]
    assert found == [("mlp", 1, 0.5), ("gru", 1, 0.25), ("mlp", 2, 5.0)]
    assert kept.read(path).peaks == Peaks(90.0, {1: 10.0, 64: 6.0})
    assert "| MLP 784-128-10, batch 64 | step | 1 s | 2 s | 0.5 | – | – |" in table(rows[:2], peaks)


def test_means_are_kept_and_older_files_are_read_and_shown(tmp_path):
    path = tmp_path / "cpu.json"
    part(row("mlp", {OURS: 16.0, JAX: 32.0}, arrays={30: 2})).write(path)
    whole = json.loads(path.read_text())
    assert whole["means"] == [{"threads": 1, RATIOS: [0.5, 1], SHARES: [0.5, 1]}]
    [figures] = whole["rows"]
    assert (figures.pop("least seconds"), figures.pop("share"), figures.pop("arrays")) == (
        8.0,
        0.5,
        [[30, 2]],
    )
    del whole["means"], whole["machine"][kept.BANDWIDTH]
    path.write_text(json.dumps(whole))
    console = Console(width=180, record=True, file=io.StringIO())
    tables.show(console, kept.read(path), OURS)
    shown = console.export_text()
    assert "mean of the ratios" in shown and "mean of the shares" not in shown


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


def test_the_page_of_figures_has_the_means_of_shares():
    assert sentence({"means": [{"threads": 2, SHARES: [0.5, 3]}, {"threads": 1, RATIOS: [0.5, 3]}]}) == (
        " Geometric mean of the shares of the roofline of steps, 2 threads: 0.5."
    )
    assert sentence({}) == ""
