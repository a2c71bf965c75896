"""Figures of vector functions: the fastest library is the peer, and missed goals are red."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.c import functions, rounds
from benchmarks.c.functions import COLUMNS, VERSIONED, functions_of_libraries, measured
from benchmarks.c.kernels import library
from benchmarks.c.rounds import OURS, ratios, row_of


def test_the_fastest_library_of_each_round_is_the_peer():
    row = row_of("exp", {OURS: [2.0, 3.0, 3.0], "libmvec": [1.0, 4.0, 4.0], "SLEEF": [3.0, 3.0, 3.0]})
    assert ratios(row) == [2.0, 1.0]
    assert COLUMNS["beside the fastest"](row) == "[red]2.00[/] | 1.00"
    alone = row_of("exp", {OURS: [2e-9]})
    assert [cell(alone) for cell in COLUMNS.values()][1:] == ["2.000 | 2.000", "–", "–", "–"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_functions_are_measured(monkeypatch):
    monkeypatch.setattr(rounds, "ROUNDS", 2)
    code = library("functions", used={"exp_f32", "sin_f32"}, names=["exp", "sin"], versioned=VERSIONED)
    for name in ("exp", "sin"):
        row = measured(code, name, {})
        assert 0 < row.ours()[OURS] <= row.ours("median")[OURS] and not row.peers()


def test_libraries_that_are_not_here_are_left_out(monkeypatch, capsys):
    monkeypatch.setattr(functions, "LIBRARIES", {"SLEEF": ("libabsent.so", {16: "absent_{}"})})
    assert functions_of_libraries("exp", 16) == {}
    assert "SLEEF has no exp here" in capsys.readouterr().out
