"""Differential testing: every target agrees with the reference on random programs, up to rounding."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import Dtype
from tests.differential import check_programs
from tests.programs import programs
from tests.targets import SHARES, UNSHRUNK, cannot

TARGETS = {"numpy": 1, "torch": 1, "jax": 2, "c": 16, "cuda": 16, "scratch": 8}
"""Programs that are emitted together, by target: compiling a library is much slower than running it."""
EXACT = (Dtype.float64, Dtype.int32, Dtype.uint32, Dtype.bool, Dtype.int64)
DRAWN = {"scratch": {"symbolic": False, "dtypes": EXACT}}
"""Sizes and dtypes of programs for targets that do not support all."""


def random_programs(target, **chosen):
    """Return a test that draws programs for a target, with these settings of Hypothesis."""

    @settings(deadline=None, suppress_health_check=list(HealthCheck), **chosen)
    @given(st.lists(programs(**DRAWN.get(target, {})), min_size=TARGETS[target], max_size=TARGETS[target]))
    def check(drawn):
        check_programs(target, drawn)

    return check


@pytest.mark.filterwarnings("ignore:.*the editor takes about")
@pytest.mark.parametrize("target", TARGETS)
def test_random_programs(target):
    if reason := cannot(target):
        pytest.skip(f"target {target}: {reason}")
    phases = {"phases": UNSHRUNK} if target in SHARES else {}
    examples = 100 if TARGETS[target] == 1 else 4 if target == "cuda" else 12
    random_programs(target, max_examples=examples, **phases)()


def test_random_programs_have_no_undefined_behaviour(monkeypatch, tmp_path, capfd):
    if reason := cannot("c"):
        pytest.skip(f"target c: {reason}")
    monkeypatch.setenv("CC", "gcc -fsanitize=undefined")
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path))
    random_programs("c", max_examples=6, phases=UNSHRUNK)()
    assert "runtime error" not in capfd.readouterr().err
