"""Figures of vector functions: the fastest library is the peer, and missed goals are red."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.c import functions, products
from benchmarks.c.functions import OURS, VERSIONED, Row, functions_of_libraries, line, measured
from benchmarks.c.kernels import library


def test_the_fastest_library_of_each_round_is_the_peer():
    row = Row("exp", {OURS: 2.0, "libmvec": 1.0, "SLEEF": 4.0}, {OURS: 3.0, "libmvec": 4.0, "SLEEF": 3.0})
    assert row.ratios == [2.0, 1.0]
    assert line(row)[-1] == "[red]2.00[/] | 1.00"
    assert line(Row("exp", {OURS: 2.0}, {OURS: 2.0}))[1:] == ["2.000 | 2.000", "–", "–", "–"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_functions_are_measured(monkeypatch):
    monkeypatch.setattr(products, "ROUNDS", 2)
    code = library("functions", used={"exp_f32", "sin_f32"}, names=["exp", "sin"], versioned=VERSIONED)
    for name in ("exp", "sin"):
        row = measured(code, name, {})
        assert row.best.keys() == {OURS} and 0 < row.best[OURS] <= row.median[OURS]


def test_libraries_that_are_not_here_are_left_out(monkeypatch, capsys):
    monkeypatch.setattr(functions, "LIBRARIES", {"SLEEF": ("libabsent.so", {16: "absent_{}"})})
    assert functions_of_libraries("exp", 16) == {}
    assert "SLEEF has no exp here" in capsys.readouterr().out
