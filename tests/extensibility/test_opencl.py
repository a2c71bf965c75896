"""A target for OpenCL C, a small package outside catgrad's tree, agrees with the reference.

It runs on any device of OpenCL, such as Debian's pocl-opencl-icd; without one, clang checks the kernels.
"""

from __future__ import annotations

import numpy as np
import pytest
from catgrad.examples import iris

from catgrad import emit
from catgrad.programs.program import evaluate
from catgrad.testing import draw_arrays, operation_cases, run_on
from catgrad.tools import Executable, run

from .opencl import BACKEND

CLANG = Executable(name="clang", names=("clang",), install="apt-get install clang")

CASES = ("Gather-0-reverse", "Cond-0", "Scan-0-reverse", "Softmax-2-reverse", "ArgSort-0", "RandomUniform-0")
"""Checked indices, branches, loops, rows in shared memory, sorting, random bits."""


def no_device() -> str | None:
    """Return why kernels cannot run, if they cannot."""
    if reason := BACKEND.missing():
        return reason
    import pyopencl

    try:
        return None if pyopencl.get_platforms() else "OpenCL has no platform; apt-get install pocl-opencl-icd"
    except pyopencl.Error as error:
        return f"OpenCL has no platform ({error}); apt-get install pocl-opencl-icd"


needs_device = pytest.mark.skipif(bool(no_device()), reason=str(no_device()))
models = pytest.mark.parametrize("model", [iris.dense, iris.hidden])


@models
@needs_device
def test_training_on_opencl_agrees_with_the_reference(model):
    task, (x, y) = model(), iris.load()
    learner, reference = (emit(task, target).load()().learner(0) for target in (BACKEND, "numpy"))
    for _ in range(3):
        np.testing.assert_allclose(learner.step(x, y), reference.step(x, y), rtol=1e-5)
    np.testing.assert_allclose(learner.predict(x), reference.predict(x), rtol=1e-5, atol=1e-6)
    for name, array in reference.parameters.items():
        np.testing.assert_allclose(learner.parameters[name], array, rtol=1e-5, atol=1e-6)


@needs_device
@pytest.mark.parametrize("case", [case for case in operation_cases() if case.name in CASES], ids=str)
def test_operations_agree_with_the_reference(case):
    types = [type.substitute({"batch": case.batch}) for type in case.term.source.table]
    arrays = draw_arrays(types, case.domain, 0)
    for found, expected in zip(
        run_on(BACKEND, case.term, *arrays), evaluate(case.term, *arrays), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@needs_device
def test_an_index_outside_its_array_is_an_error():
    gather = next(case.term for case in operation_cases() if case.name == "Gather-0")
    table, places = (np.zeros(type.shape, type.dtype.numpy) for type in gather.source.table)
    with pytest.raises(IndexError, match="inside its array"):
        run_on(BACKEND, gather, table, places + 99)


@models
@pytest.mark.skipif(not CLANG.is_installed(), reason=str(CLANG.missing()))
def test_clang_accepts_the_kernels(model, tmp_path):
    source = next(path for path in emit(model(), BACKEND).write(tmp_path) if path.suffix == ".cl")
    flags = ["-cl-std=CL1.2", "-Xclang", "-finclude-default-header", "-Wall", "-Werror", "-fsyntax-only"]
    done = run(["clang", "-x", "cl", *flags, str(source)], 60)
    assert done.returncode == 0, done.stderr
