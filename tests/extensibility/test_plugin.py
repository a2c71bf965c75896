"""A package outside the tree adds an operation and a target, and nothing else changes.

The package is really installed, into a temporary folder, and loaded by its entry point
in a fresh interpreter.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent / "plugin"

USE = """
import numpy as np
import catgrad_plugin
from catgrad import NdArrayType
from catgrad.targets import backends
from catgrad.programs.program import evaluate
from catgrad.terms.term import singleton
from catgrad.functors import reverse
from catgrad.testing import operation_cases, check_conformance, check_derivative, in_float64, run_on
from catgrad.targets import get_backend

assert sorted(backends()) == sorted({before} + ["scalar"]), sorted(backends())
bell = catgrad_plugin.Bell()
for name in ("Bell-0", "Bell-0-reverse"):
    [case] = [case for case in operation_cases() if case.name == name]
    check_conformance("numpy", case)
scalar = NdArrayType(())
term = reverse(singleton(bell, scalar))
found = run_on(get_backend("scalar"), term, 0.5, 1.0)
np.testing.assert_allclose(found, evaluate(term, np.float32(0.5), np.float32(1)), rtol=1e-6)
check_derivative(singleton(bell, in_float64(scalar)))
print("plug-in works")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the plug-in, and return an environment with it on PYTHONPATH."""
    folder = tmp_path_factory.mktemp("site")
    copy = tmp_path_factory.mktemp("source") / "plugin"
    subprocess.run(["cp", "-r", PLUGIN, copy], check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command = [*pip, "--target", str(folder), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_a_plug_in_adds_one_operation_and_one_target(installed):
    from catgrad.targets import backends

    program = USE.replace("{before}", repr(sorted(backends())))
    done = subprocess.run([sys.executable, "-c", program], env=installed, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "plug-in works\n"


@pytest.mark.parametrize(("command", "row"), [("targets", "scalar +plain Python"), ("doctor", "scalar +yes")])
def test_the_command_line_lists_the_plug_in(installed, command, row):
    done = subprocess.run(
        [sys.executable, "-m", "catgrad.cli", command], env=installed, capture_output=True, text=True
    )
    assert re.search(row, done.stdout), done.stderr


def test_one_call_runs_operations_on_a_target(installed):
    """The target `scalar` prints plain Python on numbers, so most examples, which are arrays, differ."""
    program = """
from catgrad.testing import conformance

conformance("numpy", ["Exp", "Contract"]).check()
found = conformance("scalar", ["Exp", "Tanh"])
rows = {row.operation: row for row in found.rows}
assert rows["Exp"].forward.startswith("Exp-"), rows["Exp"]
assert "Tanh has none" in rows["Tanh"].forward, rows["Tanh"]
try:
    found.check()
except AssertionError as error:
    assert "scalar differs from the reference" in str(error)
else:
    raise SystemExit("it must differ")
"""
    done = subprocess.run([sys.executable, "-c", program], env=installed, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_missing_macro_is_named(installed):
    program = (
        "from catgrad import *\nfrom catgrad.testing import run_on\nfrom catgrad.targets import get_backend\n"
    )
    program += "run_on(get_backend('scalar'), build(ops.tanh, [NdArrayType(())]), 1.0)"
    done = subprocess.run([sys.executable, "-c", program], env=installed, capture_output=True, text=True)
    assert "Tanh has none" in done.stderr
    assert "add macro Tanh to templates/ops.j2" in done.stderr
