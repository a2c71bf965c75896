"""Differential testing: every target agrees with the reference on random programs, up to rounding."""

from __future__ import annotations

import importlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import Dtype
from tests.differential import check_programs
from tests.maker import BYTES
from tests.programs import programs
from tests.targets import LONG, SHARES, UNSHRUNK, cannot, on

TARGETS = {
    "numpy": 1, "torch": 1, "jax": 2, "c": 16, "cuda": 16, "scratch": 8, "ggml": 16, "onnx": 8,
    "javascript": 8, "wasm": 16, "webgpu": 8,
}  # fmt: skip
"""Programs that are emitted together, by target: compiling a library is much slower than running it."""
EXACT = (Dtype.float64, Dtype.int32, Dtype.uint32, *BYTES, Dtype.bool, Dtype.int64)
WITHOUT_64_BITS = (Dtype.float32, Dtype.int32, Dtype.uint32, *BYTES, Dtype.bool)
DRAWN = {
    "scratch": {"symbolic": False, "dtypes": EXACT},
    "onnx": {"dtypes": (Dtype.float32, *EXACT)},
    "javascript": {"dtypes": (Dtype.float32, *EXACT)},
    "webgpu": {"dtypes": WITHOUT_64_BITS},
}
"""Sizes and dtypes of programs for targets that do not support all."""


def random_programs(target, **chosen):
    """Return a test that draws programs for a target, with these settings of Hypothesis."""

    @settings(deadline=None, suppress_health_check=list(HealthCheck), **chosen)
    @given(st.lists(programs(**DRAWN.get(target, {})), min_size=TARGETS[target], max_size=TARGETS[target]))
    def check(drawn):
        check_programs(target, drawn)

    return check


@pytest.mark.filterwarnings("ignore:.*the editor takes about")
@on(*TARGETS, long=("ggml", "wasm", "webgpu"))
def test_random_programs(target):
    phases = {"phases": UNSHRUNK} if target in SHARES else {}
    examples = 100 if TARGETS[target] == 1 else 4 if target in LONG else 6
    random_programs(target, max_examples=examples, **phases)()


def test_random_programs_have_no_undefined_behaviour(monkeypatch, tmp_path, capfd):
    if reason := cannot("c"):
        pytest.skip(f"target c: {reason}")
    compiler = tmp_path / "cc"  # of two levels of optimisation, gcc takes the last
    compiler.write_text('#!/bin/sh\nexec gcc "$@" -O1 -fsanitize=undefined\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path))
    random_programs("c", max_examples=2, phases=UNSHRUNK)()
    assert "runtime error" not in capfd.readouterr().err


def test_programs_do_not_depend_on_the_modules_that_are_loaded(tmp_path, monkeypatch):
    """Else a test fails in some processes only: Hypothesis draws numbers of the sources that are loaded."""

    def numbers():
        drawn = []

        @settings(max_examples=500)
        @given(st.integers(0, 2**32))
        def draw(number):
            drawn.append(number)

        draw()
        return drawn

    before = numbers()
    (tmp_path / "with_numbers.py").write_text("NUMBERS = (123456789, 23456789)\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("with_numbers")
    assert numbers() == before
