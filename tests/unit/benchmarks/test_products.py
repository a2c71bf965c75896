"""Figures of products: libraries are compared in one process, and a product takes longer than its bounds."""

from __future__ import annotations

import shutil

import pytest
from catgrad.backends.c.machine import PACKING

from benchmarks.c import rounds
from benchmarks.c.kernels import library
from benchmarks.c.products import COLUMNS, PACKED, PEAK, READING, bound, measured
from benchmarks.c.rounds import OURS, ratios, row_of
from tests.covering import some

TIMES = {OURS: [2.0], PACKED: [1.0], "MKL": [1.8], "OpenBLAS": [3.0, 1.0, 1.0]}


def row(*sizes, reading=0.5):
    """Return the row of a product."""
    facts = {PEAK: {"seconds": 1.0}, READING: {"seconds": reading}}
    return row_of("product", TIMES | {"OpenBLAS": [3.0]}, sizes=sizes, **facts)


def test_the_fastest_library_of_each_round_is_the_peer():
    assert ratios(row_of("product", TIMES)) == [2.0, 2.0]
    assert ratios(row_of("product", {OURS: [1.0]})) == []


def test_goals_that_are_missed_are_red():
    large = row(512, 512, 512)
    assert bound(large) == "[red]50% of peak[/]"
    assert COLUMNS["beside the best library"](large) == "[red]1.11[/] | [red]1.11[/]"
    assert bound(row(512, 16, 512, reading=1.9)) == "1.05 × bound"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
@pytest.mark.parametrize("layout", some(["NN", "NT", "TN"], ["NN"]))
def test_a_product_is_checked_and_measured(monkeypatch, layout):
    monkeypatch.setattr(rounds, "ROUNDS", 2)
    row = measured(
        library("products", used={"gemm_f32", "gemm_packed_f32"}, packing=PACKING), {}, 20, 70, 40, layout
    )
    assert [*row.ours()] == [OURS, PACKED] and not row.peers()
    assert all(row.facts[name]["seconds"] > 0 for name in (PEAK, READING))
