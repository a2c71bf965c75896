"""`make tune` writes a header of tiles, with which the emitted source computes the same."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.conformance.c_models import MODELS, written
from tests.conformance.test_c_builds import STEPS, assert_right, build, output
from tests.covering import some
from tests.unit.c.build import NEEDS_C, built, run

pytestmark = [
    NEEDS_C,
    pytest.mark.skipif(not all(map(shutil.which, ("make", "gcc"))), reason="no make or no gcc here"),
]


QUICK = ("mlp", "char_gpt")
"""Models that are built in every run of the tests."""


@pytest.fixture(params=some(MODELS, QUICK))
def model(request, tmp_path):
    return written(request.param, tmp_path)


def header(model):
    return model.folder / f"{model.name}_tiles.h"


def tiles(model):
    return tuple(map(int, re.findall(r"^#define GEMM_\w+ (\d+)$", header(model).read_text(), re.MULTILINE)))


def tune(model, *sizes, seconds=0.01):
    return run("make", "tune", f"SECONDS={seconds}", f"TILES={' '.join(sizes)}", cwd=model.folder)


def test_numbers_are_those_of_other_tiles(model):
    """Split sums after 16 rows, not 256."""
    done = tune(model, "6x16x64")
    assert done.returncode == 0, done.stderr
    assert tiles(model) == (6, 16, 64)
    assert_right(model, output(build(model, "-O2", "-march=native", "-fopenmp-simd"), STEPS))


def test_the_fastest_tiles_are_kept(tmp_path):
    model = written("mlp", tmp_path)
    done = tune(model, "6x16x64", "12x256x512", seconds=0.02)
    rates = {size: float(rate) for rate, size in re.findall(r"^([\d.]+) (\d+x\d+x\d+)$", done.stdout, re.M)}
    assert rates.keys() == {"6x16x64", "12x256x512"}
    assert "x".join(map(str, tiles(model))) == max(rates, key=rates.get)
    built("make", f"lib{model.name}.a", cwd=model.folder)


@pytest.mark.parametrize("size", ["7x256x512", "12x8x512", "12x512x512", "12x256x1024"])
def test_tiles_that_workspaces_have_no_space_for_are_refused(tmp_path, size):
    model = written("mlp", tmp_path)
    done = tune(model, size)
    assert done.returncode != 0
    assert "must have" in done.stderr
    assert not header(model).exists()


def test_a_time_that_is_no_time_is_refused(tmp_path):
    model = written("mlp", tmp_path)
    done = tune(model, "6x16x64", seconds=0)
    assert done.returncode != 0
    assert "must be a number of seconds above 0" in done.stderr
    assert not header(model).exists()
