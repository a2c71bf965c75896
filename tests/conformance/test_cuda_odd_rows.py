"""Rows of an odd number of 16-bit elements in emitted CUDA: padded, and accessed by 8 bytes each."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from catgrad import NdArrayType, Task, layers, losses, mixed_precision, sgd
from catgrad.loops.machine import GpuCosts
from tests.compiled import compiled_once
from tests.conformance.c_models import classes
from tests.gpu import costs
from tests.targets import cannot, emit
from tests.unit.cuda.nvcc import NEEDS_NVCC, NVCC

MISSING = cannot("cuda")
ROWS, FEATURES, CLASSES, PADDED = 128, 64, 2067, 2112
PRODUCTS = ["own", "cublaslt"]


@cache
def task(number=CLASSES):
    """Return a classifier, whose scores and their cotangents have rows of an odd number of elements."""
    types = [NdArrayType((size,)) for size in (ROWS, FEATURES, number)]
    return mixed_precision(Task(layers.linear(*types), sgd(0.5), losses.cross_entropy, "odd", classes(ROWS)))


def emitted(target="cuda", **options):
    with costs(GpuCosts(multiprocessors=1)):
        return emit(task(), target, **options)


@pytest.mark.parametrize("products", PRODUCTS)
def test_odd_rows_that_products_write_are_padded(products):
    """Calls of the library have the padded length as leading dimension; tensor maps store plain results."""
    artifact = emitted(products=products)
    lengths = re.findall(
        rf"^    uint16_t \*\w+; /\* \[\d+, ({CLASSES}|{PADDED})\] \*/", artifact.source, re.M
    )
    assert {*lengths} == {str(PADDED)}
    called = artifact.source.count(f", 0, {PADDED}, 1}}")
    assert called >= 3 if products == "cublaslt" else artifact.source.count("map_result(") >= 1


@pytest.mark.skipif(bool(MISSING), reason=f"target cuda: {MISSING}")
@pytest.mark.parametrize("products", PRODUCTS)
def test_steps_on_odd_rows_have_the_losses_of_numpy(products):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    y = rng.integers(0, CLASSES, ROWS)
    y[:3] = 0, CLASSES - 1, CLASSES - 2
    found = []
    for artifact in (emit(task(), "numpy"), emitted(products=products)):
        learner = artifact.load()().learner(seed=0)
        found.append([float(learner.step(x, y)) for _ in range(4)])
    np.testing.assert_allclose(*found, rtol=2e-3)
    assert found[0][0] > found[0][-1]


@NEEDS_NVCC
def test_only_the_last_strip_of_a_row_has_a_guard(tmp_path):
    """A guard of each element kept the loads of a row apart: each was a branch of its own."""
    emitted().write(tmp_path)
    done = compiled_once(*NVCC, "-arch=compute_90", "-ptx", "odd.cu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [kernel] = re.findall(
        r"(?ms)^(?:\.visible )?\.entry \w+compute_loss_log_likelihood_and_d_y_hat\w+\(.*?^}",
        (tmp_path / "odd.ptx").read_text(),
    )
    whole = CLASSES // (4 * 256)
    assert [kernel.count(f"{access}.global.v4.u16") for access in ("ld", "st")] == [whole, whole]
