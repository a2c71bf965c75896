"""Fixtures of all tests: golden files, and a list of skips at the end of every run."""

from __future__ import annotations

import functools
import gc
import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from catgrad.backends.c import loading
from catgrad.backends.c.cache import cache_folder
from catgrad.backends.ggml.tools import GGML
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests.covering import pytest_collection_modifyitems  # noqa: F401  # a hook
from tests.newest_ggml import newest

settings.register_profile("default", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=1000)
settings.load_profile("default")

# Hypothesis also draws numbers that stand in the sources of loaded modules: what a test draws would depend on
# the tests that ran before it in the process.
providers._get_local_constants = lambda: providers._local_constants

# Processes of tests import the same modules: these are compiled once, also where Python is told not to.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# By default, garbage is collected at each 700 new objects, of which tests and terms have millions. At each
# 20,000, that took a tenth of the time of the compiler.
gc.set_threshold(500_000, 10, 10)

# Tests of the target jax compile thousands of functions that run once.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# Without a GPU, emitted CUDA runs in the simulator.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("CATGRAD_CUDA_SIMULATE", "1")

# Where Scratch's virtual machines are, by `make test`.
os.environ.setdefault("CATGRAD_SCRATCH", str(Path(__file__).parent / "scratch"))

# WebGPU for Node.js, by `make test-long`: it has 132 MB.
os.environ.setdefault("NODE_PATH", str(Path(__file__).parent / "webgpu" / "node_modules"))

# Of ggml's versions, the newest has a wheel; `make test-long` builds the one of the extra `ggml`.
if not GGML.is_installed() and find_spec("ggml_compiler"):
    os.environ[GGML.variable] = str(newest(cache_folder() / "ggml-newest"))

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_collection_finish() -> None:
    """Exclude collected tests and imported modules from every later garbage collection."""
    gc.collect()
    gc.freeze()


AS_USERS_DO = ("test_targets", "test_whole_steps", "test_prepared")
"""Files of tests that load libraries in C as they are compiled by default: operations, and small models."""


@pytest.fixture(scope="module", autouse=True)
def quick_libraries(request: pytest.FixtureRequest):
    """Compile other libraries in C in half the time, but not by `make test-long`; loops are vectors too."""
    with pytest.MonkeyPatch.context() as patch:
        is_quick = request.config.option.markexpr != "long"
        if is_quick and request.module.__name__.rpartition(".")[2] not in AS_USERS_DO:
            flags = tuple("-O1" if flag == "-O3" else flag for flag in loading.C.flags)
            patch.setattr(loading, "C", replace(loading.C, flags=flags))
            patch.setenv("CFLAGS", "-O1")  # of the emitted Makefile
        yield


@pytest.fixture(scope="session", autouse=True)
def list_of_torch():
    """Let torch.export list the operations of PyTorch once.

    It does so dozens of times for each module, as one might have been added; that takes half of an export.
    """
    utils = sys.modules.get("torch._export.utils")  # there, after tests are collected, if one needs PyTorch
    with pytest.MonkeyPatch.context() as patch:
        if listed := getattr(utils, "_materialize_cpp_cia_ops", None):
            patch.setattr(utils, listed.__name__, functools.cache(listed))
        yield


@pytest.fixture
def check_golden(request: pytest.FixtureRequest):
    """Compares text with a file under tests/golden, or rewrites the file."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing; `make golden` writes it"
        assert text == path.read_text(encoding="utf-8"), f"{path} differs; `make golden` accepts the change"

    return check
