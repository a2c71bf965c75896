"""Emitted code computes every operation on the oldest and the newest library, in an environment of its own.

The tests' own environment has the oldest NumPy and JAX and the newest PyTorch.
"""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import numpy as np
import pytest

from catgrad.functors import Expand
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.testing import draw_arrays, operation_cases
from catgrad.types import widened
from tests.covering import some
from tests.targets import TOGETHER

ROOT = Path(__file__).parents[2]
LIBRARIES = {
    "numpy": ["numpy>=2.3", "ml_dtypes"],
    "jax": ["jax>=0.8"],
    "torch": ["torch==2.6.0", "numpy==1.26.4", "setuptools>=77", "--editable", str(ROOT)],
}

RUN = f"""
import importlib.util
import sys

import numpy as np


def loaded(path):
    spec = importlib.util.spec_from_file_location("case", path)
    case = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(case)
    with np.load(path + ".npz") as given:
        return case.CompiledModel().f, list(given.values())


def called(functions, arrays):
    return [f(*given) for f, given in zip(functions, arrays)]


target, *paths = sys.argv[1:]
if target == "jax":
    import jax

    called = jax.jit(called, static_argnums=0)
for first in range(0, len(paths), {TOGETHER["jax"]}):
    some = paths[first : first + {TOGETHER["jax"]}]
    for path, results in zip(some, called(*zip(*map(loaded, some)))):
        np.savez(path + ".out.npz", *[np.asarray(r) for r in results])
"""


@pytest.fixture(
    scope="session",
    params=some(LIBRARIES, ["numpy"]),
)
def library(request):
    """Return the name of a target, and a Python with another version of its library."""
    return request.param, python_with(request.param)


def python_with(library):
    """Return a Python with another version of a library, in an environment that is kept."""
    folder, wanted = ROOT / ".cache" / library, "\n".join(LIBRARIES[library])
    python, installed = folder / "bin" / "python", folder / "installed"
    if not installed.exists() or installed.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *LIBRARIES[library]], check=True)
        installed.write_text(wanted)
    return python


def test_another_version_computes_every_operation(library, tmp_path):
    """Files of JAX without 64-bit types run in a process of their own, with its default precision."""
    target, python = library
    backend = get_backend(target)
    cases = [case for case in operation_cases() if case.reversed and has_files(case, backend)]
    narrow, wide = [], []
    for number, case in enumerate(cases):
        function = lower(Expand(backend.has)(case.term), "f", doc="The term under test.")
        path = tmp_path / f"case_{number}.py"
        path.write_text(backend.emit(Program("case", (function,))).source, encoding="utf-8")
        np.savez(f"{path}.npz", *draw_arrays(tuple(case.term.source.table), case.domain))
        (wide if "jax_enable_x64" in path.read_text() else narrow).append(str(path))
    for paths in filter(None, (narrow, wide)):
        done = subprocess.run(
            [python, "-W", "error", "-c", RUN, target, *paths], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    for number, case in enumerate(cases):
        arrays = draw_arrays(tuple(case.term.source.table), case.domain)
        types = case.term.target.table
        with np.load(tmp_path / f"case_{number}.py.out.npz") as found:
            for a, b, type in zip(found.values(), evaluate(case.term, *arrays), types, strict=True):
                tolerance = backend.tolerance.get(type.dtype.value, 0.0)
                np.testing.assert_allclose(a, widened(b), rtol=tolerance, atol=tolerance, err_msg=str(case))
                assert a.dtype == b.dtype


def has_files(case, backend):
    """Tell whether arrays of the case can be kept in files, which have no bfloat16."""
    types = [*case.term.source.table, *case.term.target.table]
    return all(type.dtype.value != "bf16" for type in types)


IMPORT = """
import torch
from torch import nn

from catgrad import mse, sgd
from catgrad.frontends.torch import compile_module, from_torch

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(2),
    nn.TransformerEncoderLayer(9, 3, 16, 0.0, batch_first=True), nn.Flatten(), nn.Linear(36, 2),
)
x, y = torch.randn(5, 3, 8, 8), torch.randn(5, 2)
learner = compile_module(net, (x,), sgd(0.05), mse, "numpy")
optimiser = torch.optim.SGD(net.parameters(), 0.05)
for _ in range(3):
    loss = nn.functional.mse_loss(net(x), y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    torch.testing.assert_close(torch.tensor(learner.step(x.numpy(), y.numpy())), loss.detach())
"""


@pytest.mark.long
def test_the_oldest_pytorch_is_imported_from():
    done = subprocess.run([python_with("torch"), "-c", IMPORT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
