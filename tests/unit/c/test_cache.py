"""The compiler of emitted C and its cache: damage is repaired, and other errors are one sentence."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from catgrad.backends.c.compiler import COMPILER, shared_library
from catgrad.backends.c.library import SharedLibrary
from hypothesis import given
from hypothesis import strategies as st

from catgrad.errors import ArtifactError, ToolError
from tests.unit.c.build import NEEDS_C
from tests.unit.line import emitted

pytestmark = NEEDS_C
FILES = {"tiny.c": '#include "tiny.h"\nint tiny(void) { return ANSWER; }\n', "tiny.h": "#define ANSWER 42\n"}


def library() -> Path:
    return shared_library("tiny", FILES, "tiny.c")


def answer(path: Path) -> int:
    return ctypes.CDLL(str(path)).tiny()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_library_is_compiled_once(cache):
    first = library()
    made = first.stat().st_mtime_ns
    assert (library(), first.stat().st_mtime_ns) == (first, made)
    assert answer(first) == 42
    assert sorted(path.name for path in first.parent.iterdir()) == [first.name, "tiny.c", "tiny.h"]


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b[:100], lambda b: b[:-1], lambda b: b"x" + b[1:]]
)
def test_a_damaged_library_is_recompiled(cache, damage):
    path = library()
    whole = path.read_bytes()
    path.unlink()
    path.write_bytes(damage(whole))
    again = library()
    assert answer(again) == 42
    assert library() == again


def test_a_model_is_loaded_from_a_damaged_cache(cache):
    model, x = emitted().load()(), np.ones((2, 4), np.float32)
    expected = model.predict(*model.init(0), x)[0]
    for path in cache.rglob("*.so"):
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content[:100])
    again = emitted().load()()
    assert np.array_equal(again.predict(*again.init(0), x)[0], expected)


def test_a_cache_may_be_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CATGRAD_CACHE", "here")
    path = library()
    assert path.is_relative_to(tmp_path / "here")
    monkeypatch.chdir("/")
    assert answer(path) == 42


# Several at a time

TOGETHER = """
import sys
import numpy as np
from tests.unit.line import emitted
artifact = emitted()
print("ready", flush=True)
sys.stdin.readline()
model = artifact.load()()
weight, bias, x = np.ones((4, 3), np.float32), np.ones(3, np.float32), np.ones((1, 4), np.float32)
print(model.predict(weight, bias, x)[0].tolist())
"""


def test_concurrent_processes_share_the_library(cache):
    command = [sys.executable, "-c", TOGETHER]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    done = [process.communicate() for process in processes]
    assert done == [("[[5.0, 5.0, 5.0]]\n", "")] * 2
    [folder] = {library.parent for library in cache.rglob("*.so")}
    assert sorted(path.suffix for path in folder.iterdir()) == [".c", ".h", ".h", ".so"]


def test_concurrent_threads_share_the_library(cache):
    with ThreadPoolExecutor(8) as threads:
        paths = [*threads.map(lambda _: library(), range(8))]
    assert [answer(path) for path in paths] == [42] * 8


# Errors


def test_a_cache_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for folder in ("file", "file/below", "loop", "x" * 300):
        monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path / folder))
        with pytest.raises(ArtifactError, match=r"must be a writable folder.*set \$CATGRAD_CACHE"):
            library()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_is_used_or_reported(cache):
    made = library()
    for folder in (made.parent, cache):
        folder.chmod(0o555)
    try:
        assert library() == made
        with pytest.raises(ArtifactError, match="is not: Permission denied"):
            shared_library("other", FILES, "tiny.c", ["-DOTHER"])
    finally:
        for folder in (cache, made.parent):
            folder.chmod(0o755)


def test_a_home_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    (tmp_path / "home").touch()
    for variable in ("CATGRAD_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(ArtifactError, match=r"home/.* is not: Not a directory; set \$CATGRAD_CACHE"):
        library()


@pytest.mark.parametrize(
    "chosen", ["", "  ", "''", '"gcc', "gcc '", "/", ".", "no-such-compiler", "-O2", "''  -O2"]
)
def test_an_invalid_compiler_is_reported(cache, monkeypatch, chosen):
    monkeypatch.setenv("CC", chosen)
    if chosen.strip():
        assert "there is no C compiler" in str(COMPILER.missing())
        with pytest.raises(ToolError, match="there is no C compiler: "):
            library()
        assert not cache.exists()
    else:  # as if it were not set
        assert answer(library()) == 42


SCRIPTS = {
    "fails": ("#!/bin/sh\nexit 3\n", "it writes no library and exits with status 3"),
    "makes nothing": ("#!/bin/sh\nexit 0\n", "it writes no library and exits with status 0"),
    "is no program": ("?", "must be an executable program, but .* is not: Exec format error"),
    "has no interpreter": ("#!/no/such/shell\n", "is not: No such file"),
    "says no text": ("#!/bin/sh\nprintf 'error: \\377\\n' >&2\nexit 1\n", "it says: error: "),
}


@pytest.mark.parametrize("what", SCRIPTS)
def test_a_failing_compiler_is_reported(cache, tmp_path, monkeypatch, what):
    text, says = SCRIPTS[what]
    (tmp_path / "cc").write_text(text)
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    with pytest.raises(ToolError, match=says):
        library()
    assert not list(cache.rglob("*.so"))


def test_a_compiler_that_does_not_end_is_killed_with_its_children(cache, tmp_path, monkeypatch):
    late = tmp_path / "late"
    (tmp_path / "cc").write_text(f"#!/bin/sh\n(sleep 0.8; touch {late}) &\nwait\n")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    monkeypatch.setattr("catgrad.backends.c.compiler.MAX_COMPILE_SECONDS", 0.2)
    with pytest.raises(ToolError, match=r"must end within 0\.2 seconds, but .*cc did not"):
        library()
    time.sleep(1)
    assert not late.exists()


def test_a_compiler_may_be_named_relative_to_the_folder(cache, tmp_path, monkeypatch):
    (tmp_path / "my-cc").symlink_to(COMPILER.command()[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CC", "./my-cc")
    assert answer(library()) == 42


def test_a_failure_shows_a_command_to_reproduce_it(cache, monkeypatch):
    monkeypatch.setenv("CC", "gcc -include none.h")
    with pytest.raises(ToolError) as raised:
        library()
    folder, command = raised.value.do.removeprefix("run it in ").split(": ", 1)
    Path(folder, "none.h").touch()
    assert subprocess.run(command, shell=True, cwd=folder).returncode == 0


def test_a_library_that_does_not_load_is_reported(tmp_path):
    (tmp_path / "line.so").write_text("no library")
    with pytest.raises(ToolError, match="a compiled library must load, but .*line.so"):
        SharedLibrary(tmp_path / "line.so", "line")


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12))
def test_any_compiler_is_found_or_not(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", text)
        found = COMPILER.command()
        assert bool(found) is (COMPILER.missing() is None)
    assert not found or Path(found[0]).is_absolute()
