"""Emitted C called from threads of the caller."""

from __future__ import annotations

import shutil

import pytest

from catgrad import Dim, NdArrayType, build, ops
from catgrad.functors import Expand
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend
from tests.unit.c.build import NEEDS_C, PROGRAMS, SANE, STRICT, built, run

pytestmark = NEEDS_C


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc on this machine")
def test_calls_from_many_threads(tmp_path):
    backend = get_backend("c")
    term = build(ops.softmax, [NdArrayType((Dim("n"), Dim("m")))])
    backend.emit(Program("rows", (lower(Expand(backend.has)(term)),))).write(tmp_path)
    sources = [PROGRAMS / "threads.c", "rows.c", "-o", "threads", "-lm"]
    built("gcc", "-std=c11", "-fopenmp", *STRICT, *SANE, "-I.", *sources, cwd=tmp_path)
    done = run(tmp_path / "threads")
    assert (done.returncode, done.stderr) == (0, "")
