"""The example for microcontrollers learns, within the memory of small ones."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from catgrad.backends.c import cross

from benchmarks.tiny import nets
from catgrad import emit, fit, sgd
from catgrad.learn.fit import checkpoint
from catgrad.tools import Executable, run
from examples import iris
from examples.microcontroller import build, program
from tests.unit.c.build import STRICT, built

CPPCHECK = Executable(name="cppcheck", names=("cppcheck",), install="apt install cppcheck")
NEEDS_CPPCHECK = pytest.mark.skipif(not CPPCHECK.is_installed(), reason=CPPCHECK.install)
CODE, MEMORY = 16 * 1024, 8 * 1024
HERE, THERE = build.here(), cross.cortex_m4()
NEEDS_GCC = pytest.mark.skipif(bool(HERE.missing()), reason=f"{HERE.name}: {HERE.missing()}")
NEEDS_ZIG = pytest.mark.skipif(bool(THERE.missing()), reason=f"{THERE.name}: {THERE.missing()}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("microcontroller")
    program.write(path, epochs=60, seed=0)
    return path


@NEEDS_GCC
def test_the_program_learns(folder):
    assert build.right(folder) >= 0.95 * program.FLOWERS


@NEEDS_GCC
def test_the_program_is_small(folder):
    size = build.measured(HERE, folder)
    assert size.code < CODE
    assert size.variables + build.stack(HERE, folder) < MEMORY


@NEEDS_ZIG
def test_the_program_is_small_on_a_microcontroller(folder):
    """Link with the functions of libm and of the compiler's library that it calls."""
    size = build.measured(THERE, folder)
    assert size.code < CODE
    assert size.variables + build.stack(THERE, folder) < MEMORY


@NEEDS_GCC
def test_the_program_may_begin_with_weights_of_a_file(tmp_path):
    x, y = iris.load()
    learner = emit(iris.hidden()).load()().learner(seed=1)
    fit(learner, (x, y), steps=500, batch_size=150)
    checkpoint.save(learner, tmp_path / "weights.safetensors")
    program.write(tmp_path, epochs=0, seed=0, weights=tmp_path / "weights.safetensors")
    wanted = np.sum(learner.predict(x).argmax(axis=1) == y.argmax(axis=1))
    assert wanted > 0.9 * program.FLOWERS
    assert abs(build.right(tmp_path) - wanted) <= 1  # features in the source have four digits
    assert build.measured(HERE, tmp_path).code < CODE


def rows_of_the_page():
    """The deviations of the irises and of ResNet-8 from each rule that the page lists."""
    page = (Path(__file__).parents[3] / "docs/howto/microcontroller.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ([\d., ]+) \| ([\d–, ]+) \| ([\d–, ]+) \|", page, re.MULTILINE)
    rows = [zip(*(cell.split(", ") for cell in row), strict=True) for row in cells]
    return {rule: [0 if n == "–" else int(n) for n in counts] for row in rows for rule, *counts in row}


def deviations(folder, file):
    """Count the deviations from each rule of MISRA C:2012 that cppcheck finds, by the command of the page."""
    command = [*CPPCHECK.command(), "-q", "--std=c11", "--addon=misra", "-DGEMM_SCALAR", file]
    return Counter(re.findall(r"misra-c2012-([\d.]+)", run(command, 300, cwd=folder).stderr))


def assert_the_page_counts(found, column):
    listed = rows_of_the_page()
    assert found and found.keys() <= listed.keys()
    if run([*CPPCHECK.command(), "--version"], 60).stdout.split() == ["Cppcheck", "2.10"]:
        assert found == Counter({rule: counts[column] for rule, counts in listed.items()})


@NEEDS_CPPCHECK
def test_the_page_counts_deviations_from_misra_and_gives_a_reason_for_each(folder):
    assert_the_page_counts(deviations(folder, "iris.c"), 0)


@pytest.mark.long
@NEEDS_CPPCHECK
def test_the_page_counts_deviations_of_convolutions(tmp_path):
    emit(nets.task(nets.resnet_8(), sgd(0.01)), "c").write(tmp_path)
    assert_the_page_counts(deviations(tmp_path, "tiny.c"), 1)


@NEEDS_GCC
def test_no_warnings(folder):
    built("gcc", *cross.SIZE_FLAGS, *STRICT, "-Os", "-c", "main.c", "-o", "main.o", cwd=folder)
