"""Packed weights in C and C++: the programs of the how-to, and weights that are stale."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.unit.c.build import NEEDS_C, PROGRAMS, SANE, STRICT, built, run, write_page

PAGE = Path(__file__).parents[3] / "docs/howto/c.md"
pytestmark = NEEDS_C


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("net")
    write_page(PAGE, folder, ["predict", "step", "step_many", "predict_prepared"])
    return folder


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ on this machine")
@pytest.mark.parametrize("program", ["main.cpp", PROGRAMS / "prepared.cpp"])
def test_classes_forget_packed_weights_that_are_stale(folder, program, tmp_path):
    built("make", "BUILD=cpp", "cpp/libnet.a", cwd=folder)
    flags = ["-std=c++17", *STRICT, *SANE, "-I."]
    built("g++", *flags, program, "cpp/libnet.a", "-o", "program", "-lm", cwd=folder)
    done = run(folder / "program", tmp_path / "weights.safetensors", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_programs_of_the_page_run(folder):
    programs = re.findall(r"```c\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert [("prepare" in text) for text in programs] == [False, True]
    for text in programs:
        (folder / "main.c").write_text(text)
        built("cc", "-std=c11", *STRICT, *SANE, "main.c", "net.c", "-o", "main", "-lm", cwd=folder)
        done = run(folder / "main", env={"ASAN_OPTIONS": "detect_leaks=0"})
        assert done.returncode == 0, done.stderr
