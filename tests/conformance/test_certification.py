"""Parameters after training have the same bits with any compiler, any number of threads, and WebAssembly."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from catgrad.backends.c.compiler import COMPILER

from catgrad import Functions, build, emit, ops
from catgrad.certification import certify, parameters_digest
from catgrad.errors import OptionError
from catgrad.targets import get_backend
from tests.models import INPUT, TASKS
from tests.targets import on
from tests.unit.formats.test_term_files import MODELS

MAX_DIFFERENCE = 1e-5
SCRIPT = """
import sys
from catgrad import emit
from catgrad.certification import certify
from tests.unit.formats.test_term_files import MODELS
for name in ("mlp", "rectified", "stateful"):
    print(certify(emit(MODELS[name](), "c", openmp="openmp" in sys.argv), exact=True)[1].sha256)
"""


def hashes(*arguments, **environment):
    command = [sys.executable, "-c", SCRIPT, *arguments]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.fixture(scope="module")
def expected():
    if reason := COMPILER.missing():
        pytest.skip(reason)
    return hashes()


@pytest.mark.covering(0)
@pytest.mark.parametrize("threads", ["3", "1"])
def test_the_number_of_threads_does_not_change_bits(expected, threads):
    assert hashes("openmp", OMP_NUM_THREADS=threads) == expected


def test_the_compiler_does_not_change_bits(expected):
    pytest.importorskip("ziglang", reason="clang is not installed: pip install ziglang")
    assert hashes(CC=f"{sys.executable} -m ziglang cc") == expected


@on("wasm")
def test_webassembly_does_not_change_bits(expected, target):
    """The model has batch norm, dropout and AdamW."""
    assert certify(emit(MODELS["stateful"](), target))[1].sha256 == expected[-1]


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_differences_from_the_reference_are_small(target):
    backend = get_backend(target)
    if reason := backend.missing():
        pytest.skip(reason)
    for make in TASKS.values():
        reference, found = certify(emit(make(), target))
        assert found.difference <= MAX_DIFFERENCE
        assert (found.sha256 == reference.sha256) == (found.difference == 0)


def test_the_hash_of_parameters_is_that_of_names_and_bits():
    zero, minus = np.zeros(2, np.float32), -np.zeros(2, np.float32)
    hashes = {
        parameters_digest({name: array}) for name in "ab" for array in (zero, minus, zero.astype(np.float64))
    }
    assert len(hashes) == 6


def test_a_model_without_a_step_is_refused():
    with pytest.raises(OptionError, match="training step"):
        certify(emit(Functions({"f": build(lambda x: ops.exp(x), [INPUT])})))
