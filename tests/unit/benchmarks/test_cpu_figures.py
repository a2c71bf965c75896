"""Figures of the processor: like is compared with like, and parts of a measurement are added to a file."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import pytest
from rich.console import Console

from benchmarks import records
from benchmarks.cpu import kept, tables
from benchmarks.cpu.page import table
from benchmarks.cpu.roofline import Work
from benchmarks.cpu.rows import (
    ANY_BATCH,
    BANDWIDTH,
    CALL,
    LONG,
    RATIOS,
    SHARES,
    any_batch,
    least,
    means,
    peaks_of,
    row_of,
    share,
)
from benchmarks.cpu.workloads import WORKLOADS, chosen
from benchmarks.figures import means as sentence
from benchmarks.machine import UNKNOWN, Peaks
from benchmarks.race import Result
from benchmarks.records import Record, added, read
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
    return row_of(workload, measure, threads, Work(100, dict(arrays)), workload.goal.get(measure), results)


def part(*rows, processor="A", peaks=PEAKS):
    """Return some rows, measured on a processor."""
    found = kept.part_of(peaks, 0.0, ["torch==1"], rows)
    return kept.with_means(replace(found, machine={**found.machine, "processor": processor}))


def test_the_fastest_peer_is_never_ours():
    mine = row("mlp", {OURS: 2.0, OURS + ANY_BATCH: 1.0, EAGER: 8.0, JAX: 4.0})
    assert (mine.fastest, min(mine.peers().values())) == (JAX, 4.0)
    assert (mine.ratio, any_batch(mine)) == (0.5, 0.5)


def test_a_loop_is_compared_only_with_loops():
    assert row("iris-16", {OURS: 1.0, EAGER: None, JAX: 4.0}, LOOP).fastest == JAX
    assert row("iris-16", {OURS: 1.0, EAGER: None}, LOOP).ratio is None


def test_the_mean_is_of_the_ratios_of_steps():
    rows = [row("mlp", {OURS: 1.0, JAX: 2.0}), row("gru", {OURS: 4.0, JAX: 2.0})]
    rows.append(row("iris-16", {OURS: 9.0, JAX: 1.0}, LOOP))
    [(what, (mean, count))] = means(rows, PEAKS).items()
    assert (what, math.isclose(mean, 1.0), count) == (RATIOS, True, 2)
    assert means([], PEAKS) == {}


def test_the_share_is_the_least_time_over_ours():
    """100 operations take 2 s at the peak, and two arrays of 40 bytes 8 s, in which they are hidden."""
    one, two = (row("mlp", {OURS: 16.0}, threads=threads, arrays={40: 2}) for threads in (1, 2))
    assert (least(one, PEAKS), share(one, PEAKS), share(two, PEAKS)) == (8.0, 0.5, 0.25)
    assert means([one, two], PEAKS) == {SHARES: (pytest.approx(math.sqrt(0.125)), 2)}


def test_steps_shorter_than_a_call_are_left_out_of_another_mean():
    peaks = Peaks(50.0, {1: 2 / CALL})
    long, short = (row(name, {OURS: 16.0}, arrays={1: 1}) for name in ("mlp", "iris-16"))
    short.facts["operations"] = 0
    found = means([long, short], peaks)
    assert (found[LONG], found[SHARES][1]) == ((pytest.approx(share(long, peaks)), 1), 2)
    assert LONG not in means([long], peaks)


def test_figures_without_bandwidth_or_arrays_have_no_share():
    old, new = row("mlp", {OURS: 16.0}), row("mlp", {OURS: 16.0}, arrays={30: 2})
    absent = row("mlp", {OURS: None, JAX: 1.0}, arrays={30: 2})
    assert [share(old, PEAKS), share(new, UNKNOWN), share(absent, PEAKS)] == [None] * 3
    assert means([old], PEAKS) == {}


def test_a_file_has_the_command_the_date_the_machine_and_the_versions(tmp_path):
    before = part(row("unet", {OURS: 1.0, EAGER: None, JAX: 2.0}, threads=2, arrays={8: 2, 64: 1}))
    before.write(tmp_path / "cpu.json")
    after = read(tmp_path / "cpu.json")
    assert (after.command, after.date, after.versions) == (kept.COMMAND, before.date, {"torch": "1"})
    assert (after.rows[0].what, after.rows[0].ratio) == (before.rows[0].what, 0.5)
    assert least(after.rows[0], peaks_of(after)) == least(before.rows[0], PEAKS)
    after.write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "cpu.json").read_bytes()


def test_a_part_takes_the_place_of_its_rows_only():
    peaks = Peaks(90.0, {1: 8.0, 64: 6.0})
    first = part(row("gru", {OURS: 1.0, JAX: 2.0}), row("mlp", {OURS: 1.0, JAX: 2.0}), peaks=peaks)
    second = part(row("gru", {OURS: 1.0, JAX: 4.0}), row("mlp", {OURS: 5.0, JAX: 1.0}, threads=2))
    both = kept.joined(first, second)
    found = [(each.facts["workload"], each.facts["threads"], each.ratio) for each in both.rows]
    assert found == [("mlp", 1, 0.5), ("gru", 1, 0.25), ("mlp", 2, 5.0)]
    assert peaks_of(both) == Peaks(90.0, {1: 10.0, 64: 6.0})
    assert "| MLP 784-128-10, batch 64: step | 1 s | 2 s | 0.5 | – | – |" in table(both.rows[:2], peaks)


def test_means_are_kept_and_older_files_are_read_and_shown(tmp_path):
    path = tmp_path / "cpu.json"
    part(row("mlp", {OURS: 16.0, JAX: 32.0}, arrays={40: 2})).write(path)
    whole = json.loads(path.read_text())
    assert whole["means"] == [{"threads": 1, RATIOS: [0.5, 1], SHARES: [0.5, 1]}]
    [figures] = whole["rows"]
    assert (figures["facts"].pop("arrays"), figures["ratio"]) == ([[40, 2]], {OURS: 0.5})
    del whole["means"], whole["machine"][BANDWIDTH]
    path.write_text(json.dumps(whole))
    console = Console(width=180, record=True, file=io.StringIO())
    tables.show(console, read(path))
    shown = console.export_text()
    assert "mean of the ratios" in shown and "mean of the shares" not in shown


def test_figures_of_two_machines_are_not_mixed(tmp_path):
    path = tmp_path / "cpu.json"
    part(row("gru", {OURS: 1.0, JAX: 2.0})).write(path)
    with pytest.raises(ArtifactError, match="one processor"):
        added(part(row("mlp", {OURS: 1.0, JAX: 2.0}), processor="B"), path)
    cards = [Record("", [], {"processor": processor, "gpu": gpu}) for processor, gpu in ("AC", "BC", "BD")]
    assert cards[0].with_part(cards[1]).machine == {"processor": "B", "gpu": "C"}
    with pytest.raises(ArtifactError, match="those in it are of C"):
        cards[1].with_part(cards[2])


def test_every_kept_file_is_of_the_one_format():
    for path in sorted(records.RESULTS.rglob("*.json")):
        found = read(path)
        assert found.command and found.date and found.machine["processor"] and found.rows, path
        assert len({row.what for row in found.rows}) == len(found.rows), path


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_every_workload_has_a_step_for_any_batch(workload):
    [x], [same] = workload.model.source.table, workload.any_batch().model.source.table
    assert not isinstance(same.shape[0], int)
    assert (same.shape[1:], same.dtype) == (x.shape[1:], x.dtype)


def test_the_page_of_figures_has_the_means_of_ratios_and_of_shares():
    every = [{"threads": 2, SHARES: [0.5, 3], RATIOS: [0.7, 4]}, {"threads": 1}]
    assert sentence(Record("", [], {}, more={"means": every})) == (
        " Geometric mean of the ratios of steps, 2 threads: 0.7 (rows: 4)."
        " Geometric mean of the shares of the roofline of steps, 2 threads: 0.5 (rows: 3)."
    )
    assert sentence(Record("", [], {})) == ""
