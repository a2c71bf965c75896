"""`benchmarks.ggml` compares like with like: competitors that train the same parameters, in the same run."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from catgrad.backends.ggml.tools import NEEDS

from benchmarks.ggml import command as ggml
from benchmarks.ggml.workloads import GGML_OPT, GGML_WORKLOADS, OURS, PYTORCH
from benchmarks.peers import ggml_opt
from benchmarks.peers.worker import Case
from benchmarks.race import Result
from benchmarks.records import Record, added, read
from benchmarks.tables import reasons
from benchmarks.workloads import written

ABSENT = next((tool.absence() for tool in NEEDS if not tool.is_installed()), "")
ABSENT = ABSENT or (
    "" if find_spec("ggml") else "the package ggml-python, which has ggml-opt, is not installed"
)
IRIS = GGML_WORKLOADS[0]


@pytest.mark.long
@pytest.mark.skipif(bool(ABSENT), reason=ABSENT or "all tools are installed")
def test_the_smallest_row_has_agreeing_competitors():
    pytest.importorskip("torch", reason="PyTorch is not installed")
    row = ggml.measured(IRIS, "ggml", rounds=1, seconds=1e-3)
    assert [*row.ours(), *row.peers()] == [OURS, GGML_OPT, PYTORCH]


@pytest.mark.parametrize("wrong", [0.5, np.nan])
@pytest.mark.parametrize("name", ["weight", "bias"])
def test_another_parameter_after_ten_steps_is_told(name, wrong):
    expected = {"weight": np.zeros(3), "bias": np.zeros(2)}
    assert not ggml.difference({each: array + 1e-6 for each, array in expected.items()}, expected, 1e-5)
    found = ggml.difference(expected | {name: expected[name] + wrong}, expected, 1e-5)
    assert found.startswith(f"wrong: {name} differs by ")


@pytest.mark.parametrize("workload", GGML_WORKLOADS, ids=lambda w: w.name)
def test_ggml_opt_trains_only_what_ggml_can_derive(workload, tmp_path):
    made = ggml_opt.makers(Case(written(workload, tmp_path), 1, "10"))
    assert bool(made) is (workload.net == "perceptron")


def test_ratios_are_those_to_each_peer_that_was_timed():
    results = {
        OURS: Result(2.0, rounds=[2.0]),
        GGML_OPT: Result(reason="does not"),
        PYTORCH: Result(8.0, rounds=[8.0]),
    }
    row = ggml.row(IRIS, "ggml", results)
    assert [ggml.beside(name)(row) for name in (PYTORCH, GGML_OPT)] == ["0.25", "–"]
    assert reasons([row]) == []
    broken = ggml.row(IRIS, "ggml", {OURS: Result(reason="failed: it has ended")})
    assert reasons([broken]) == [f"catgrad ggml, {IRIS.title}, ggml: failed: it has ended"]


def test_rows_of_a_build_replace_those_before(tmp_path):
    path = tmp_path / "ggml.json"
    for build, seconds in (("plain", 9.0), ("with llamafile", 0.5), ("plain", 0.7)):
        row = ggml.row(IRIS, build, {OURS: Result(seconds, rounds=[seconds])})
        added(Record("ggml", [row]), path).write(path)
    kept = {row.what: row.seconds(OURS) for row in read(path).rows}
    assert kept == {f"{IRIS.title}, plain": 0.7, f"{IRIS.title}, with llamafile": 0.5}
