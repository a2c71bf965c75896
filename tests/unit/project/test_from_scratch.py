"""The compiler in small: its reverse derivative is right, also of itself, and its targets agree."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PATH = Path(__file__).parents[3] / "docs/from_scratch.py"


@pytest.fixture(scope="module")
def small():
    spec = importlib.util.spec_from_file_location("from_scratch", PATH)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_file_runs_and_trains_in_both_languages():
    done = subprocess.run([sys.executable, PATH], capture_output=True, text=True, check=True)
    *_, numpy, c = done.stdout.splitlines()
    first, last = (float(word.rstrip(",")) for word in numpy.split()[2::4])
    assert last < first / 10
    assert c.removeprefix("C") == numpy.removeprefix("NumPy")


def test_both_targets_agree(small, tmp_path):
    function, random = small.xor_step(), np.random.default_rng(1)
    arrays = [random.normal(size=value.shape).astype(np.float32) for value in function.inputs]
    numpy, c = small.in_numpy(function)(*arrays), small.in_c(function, tmp_path)(*arrays)
    for ours, theirs in zip(c, numpy, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_reverse_of_the_reverse_is_the_second_derivative(small):
    cube = small.build(lambda x: x * x * x, [(3,)])
    slope = small.build(lambda x: small.apply(small.reverse(cube), x, small.Op("fill", 1.0)(x))[1], [(3,)])
    curvature = small.reverse(slope)
    assert len(list(small.needed(curvature))) > len(list(small.needed(slope)))
    run = small.in_numpy(small.program("curvature", curvature, ["x", "dy"]))
    x = np.array([-1.0, 0.5, 2.0], np.float32)
    value, change = run(x, np.ones(3, np.float32))
    np.testing.assert_allclose(value, 3 * x**2, rtol=1e-6)
    np.testing.assert_allclose(change, 6 * x, rtol=1e-6)


def test_dead_code_is_left_out_and_equal_values_are_computed_once(small):
    term = small.build(lambda x: (x * x, x * x, x + x)[:2], [(2,)])
    function = small.program("f", term, ["x"])
    assert [line.op.name for line in function.body] == ["multiply"]
    assert function.outputs[0] == function.outputs[1]


def test_shapes_must_fit(small):
    with pytest.raises(AssertionError, match="must be matrices that fit"):
        small.build(lambda a, b: a @ b, [(2, 3), (4, 2)])
