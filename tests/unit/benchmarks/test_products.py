"""Figures of products: libraries are compared in one process, and a product takes longer than its bounds."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from catgrad.backends.c.machine import PACKING

from benchmarks.c import products
from benchmarks.c.kernels import library
from benchmarks.c.products import OURS, PACKED, PEAK, READING, Row, line, measured

TIMES = {OURS: 2.0, PACKED: 1.0, "MKL": 1.8, "OpenBLAS": 3.0, PEAK: 1.0, READING: 0.5}


def test_the_fastest_library_of_each_round_is_the_peer():
    row = Row(256, 256, 256, "NN", TIMES, TIMES | {"OpenBLAS": 1.0})
    assert (row.speed(row.best), row.speed(row.median)) == (0.9, 0.5)
    assert Row(1, 1, 1, "NN", {OURS: 1.0}, {OURS: 1.0}).speed({OURS: 1.0}) is None


def test_goals_that_are_missed_are_red():
    large = Row(512, 512, 512, "NN", TIMES, TIMES)
    assert "[red]50% of peak[/]" in line(large) and "[red]0.90[/] | [red]0.90[/]" in line(large)
    thin = replace(large, m=16, best=TIMES | {READING: 1.9})
    assert line(thin)[-1] == "1.05 × bound"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
@pytest.mark.parametrize("layout", ["NN", "NT", "TN"])
def test_a_product_is_checked_and_measured(monkeypatch, layout):
    monkeypatch.setattr(products, "ROUNDS", 2)
    row = measured(
        library("products", used={"gemm_f32", "gemm_packed_f32"}, packing=PACKING), {}, 20, 70, 40, layout
    )
    assert row.best.keys() == {OURS, PACKED, PEAK, READING} and all(t > 0 for t in row.best.values())
