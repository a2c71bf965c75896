"""Emitted code computes every operation on the oldest and the newest library, in an environment of its own.

The tests' own environment has the oldest NumPy and JAX and the newest PyTorch; `test_jax.py` has another.
"""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import numpy as np
import pytest

from catgrad.backend import get_backend
from catgrad.functors import Expand
from catgrad.programs.program import Program, evaluate, lower
from catgrad.testing import draw_arrays, operation_cases
from catgrad.types import widened

LIBRARIES = {"numpy": ["numpy>=2.3", "ml_dtypes"], "torch": ["torch==2.6.0", "numpy==1.26.4"]}
PARAMETERS = ["numpy", pytest.param("torch", marks=pytest.mark.long)]  # PyTorch takes minutes to install

RUN = """
import importlib.util
import sys

import numpy as np

for path in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location("case", path)
    case = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(case)
    with np.load(path + ".npz") as given:
        results = case.CompiledModel().f(*given.values())
    np.savez(path + ".out.npz", *[np.asarray(r) for r in results])
"""


@pytest.fixture(scope="session", params=PARAMETERS)
def library(request):
    """Return the name of a target, and a Python with another version of its library."""
    folder = Path(__file__).parents[2] / ".cache" / request.param
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", *LIBRARIES[request.param]]
        subprocess.run(install, check=True)
        (folder / "installed").touch()
    return request.param, python


def test_another_version_computes_every_operation(library, tmp_path):
    target, python = library
    backend = get_backend(target)
    cases = [case for case in operation_cases() if case.reversed and has_files(case, backend)]
    for number, case in enumerate(cases):
        function = lower(Expand(backend.has)(case.term), "f", doc="The term under test.")
        path = tmp_path / f"case_{number}.py"
        path.write_text(backend.emit(Program("case", (function,))).source, encoding="utf-8")
        np.savez(f"{path}.npz", *draw_arrays(tuple(case.term.source.table), case.domain))
    paths = [str(tmp_path / f"case_{number}.py") for number in range(len(cases))]
    done = subprocess.run([python, "-c", RUN, *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for case, path in zip(cases, paths, strict=True):
        arrays = draw_arrays(tuple(case.term.source.table), case.domain)
        types = case.term.target.table
        with np.load(f"{path}.out.npz") as found:
            for a, b, type in zip(found.values(), evaluate(case.term, *arrays), types, strict=True):
                tolerance = backend.tolerance.get(type.dtype.value, 0.0)
                np.testing.assert_allclose(a, widened(b), rtol=tolerance, atol=tolerance, err_msg=str(case))


def has_files(case, backend):
    """Tell whether arrays of the case can be kept in files, which have no bfloat16."""
    types = [*case.term.source.table, *case.term.target.table]
    return all(type.dtype.value != "bf16" for type in types)
