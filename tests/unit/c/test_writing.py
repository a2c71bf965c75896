"""Files that emitted C writes: atomic with concurrent writers, through links, without temporary files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from catgrad.files import STRAY_SECONDS
from catgrad.formats import safetensors
from catgrad.formats.elements import DTYPES
from tests.unit.c.build import NEEDS_C, PROGRAMS, SANE, STRICT, ZIG, built, run
from tests.unit.line import emitted

pytestmark = [
    NEEDS_C,
    pytest.mark.skipif(sys.platform == "win32", reason="links and locks are those of POSIX"),
]

PLAIN = ["-U__unix__", "-U__APPLE__"]
"""Flags for compilation without an operating system, as for microcontrollers."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("writing")
    emitted().write(path)
    return path


def program(folder, name, *flags, to=None):
    sources = [PROGRAMS / f"{name}.c", "line_files.c", "line.c"]
    built("gcc", "-std=c11", *STRICT, *SANE, *flags, "-I.", *sources, "-o", to or name, "-lm", cwd=folder)
    return folder / (to or name)


@pytest.mark.skipif(
    not find_spec("ziglang"), reason="ziglang, the compiler for other machines, is not installed"
)
@pytest.mark.parametrize(
    "machine", ["x86_64-windows-gnu", "aarch64-macos", "aarch64-linux-musl", "wasm32-wasi"]
)
def test_cross_compiled_writers(folder, machine):
    flags = ["-std=c11", "-O1", *STRICT, "-target", machine]
    built(*ZIG, *flags, "-c", "line_files.c", "-o", "out.o", cwd=folder)


@pytest.fixture(scope="module", params=["posix", "plain"])
def tool(request, folder):
    return program(folder, "files", *(PLAIN if request.param == "plain" else []), to=request.param)


@pytest.fixture(scope="module")
def on_posix(folder):
    return program(folder, "files", to="on_posix")


@pytest.fixture
def given_file(tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"dense.weight": (4, 3), "dense.bias": (3,)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    safetensors.write(tmp_path / "given", arrays)
    return tmp_path / "given"


def write(tool, given_file, path):
    done = run(tool, given_file, path, "parameters")
    assert done.stderr == ""
    return done.stdout


def holds_the_same(path, given_file):
    found, wanted = safetensors.read(path), safetensors.read(given_file)
    return found.keys() == wanted.keys() and all(np.array_equal(found[k], wanted[k]) for k in wanted)


def entries(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_older_file_is_replaced(tool, given_file, tmp_path):
    for _ in range(2):
        assert write(tool, given_file, tmp_path / "a") == "no error\n"
        assert holds_the_same(tmp_path / "a", given_file)
        assert entries(tmp_path) == ["a", "given"]
    assert run(tool, given_file, "b", "parameters", cwd=tmp_path).returncode == 0
    assert holds_the_same(tmp_path / "b", given_file)


def test_a_link_at_the_temporary_path_is_not_followed(tool, given_file, tmp_path):
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "a.part").symlink_to("victim")
    assert write(tool, given_file, tmp_path / "a") == "no error\n"
    assert (tmp_path / "victim").read_text() == "untouched"


@pytest.mark.parametrize("flags", [[], PLAIN])
def test_concurrent_writers_leave_one_complete_file(folder, tmp_path, flags):
    writers = program(folder, "writers", "-pthread", *flags)
    path = tmp_path / "a"
    assert run(writers, path, 0).returncode == 0
    running = [subprocess.Popen([writers, path, str(first)], stdout=subprocess.PIPE) for first in (3, 6)]
    seen = set()
    while any(process.poll() is None for process in running):
        (tmp_path / "seen").write_bytes(path.read_bytes())
        seen.add(tuple(safetensors.read(tmp_path / "seen")["dense.weight"].ravel()))
    assert [process.communicate()[0] for process in running] == [b"no error\n"] * 2
    assert seen <= {(float(number),) * 12 for number in range(9)}
    assert entries(tmp_path) == ["a", "seen"]


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_link_is_followed(on_posix, given_file, tmp_path, is_there, is_absolute):
    there = tmp_path / "there"
    there.mkdir()
    if is_there:
        (there / "real").write_text("old")
        (there / "real").chmod(0o600)
    (there / "second").symlink_to("real")
    (tmp_path / "first").symlink_to(there / "second" if is_absolute else "there/second")
    assert write(on_posix, given_file, tmp_path / "first") == "no error\n"
    assert (tmp_path / "first").is_symlink() and (there / "second").is_symlink()
    assert holds_the_same(there / "real", given_file)
    assert entries(there) == ["real", "second"]
    assert not is_there or (there / "real").stat().st_mode & 0o777 == 0o600


def test_only_regular_files_are_replaced(on_posix, given_file, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = entries(tmp_path)
    for name in ("loop", "folder", "pipe"):
        assert write(on_posix, given_file, tmp_path / name) == "the file cannot be written\n"
    assert entries(tmp_path) == before
    assert (tmp_path / "pipe").is_fifo()


def test_data_are_on_disk_before_the_rename(folder, given_file, tmp_path):
    flags = ["-Dfsync=said_fsync", "-Drename=said_rename"]
    built("gcc", "-std=gnu11", *STRICT, "-c", PROGRAMS / "disk.c", "-o", "disk.o", cwd=folder)
    saying = program(folder, "files", *flags, "disk.o", to="saying")
    done = run(saying, given_file, tmp_path / "a", "parameters")
    assert (done.stdout, done.stderr) == ("no error\n", "file\nname\nfolder\n")


def age(path, seconds=STRAY_SECONDS + 60):
    before = time.time() - seconds
    os.utime(path, (before, before), follow_symlinks=False)


LOCK = """
import fcntl, sys
file = open(sys.argv[1], "ab")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_temporary_files_of_killed_writers_are_removed_later(on_posix, given_file, tmp_path):
    digits = "0123456789abcdef"
    dead, young, locked, pipe, link = (tmp_path / f"a.{digits[i:] + digits[:i]}.part" for i in range(5))
    lookalikes = [f"a.{digits}.party", f"a.{digits[1:]}.part", f"b.{digits}.part", f"a.{digits.upper()}.part"]
    for path in (dead, young, locked, *(tmp_path / name for name in lookalikes)):
        path.write_text("left")
    os.mkfifo(pipe)
    link.symlink_to(given_file)
    for path in set(tmp_path.iterdir()) - {given_file, young}:
        age(path)
    before = entries(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", LOCK, locked], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        writer.stdout.readline()
        age(locked)
        assert write(on_posix, given_file, tmp_path / "a") == "no error\n"
        assert entries(tmp_path) == sorted({"a", *before} - {dead.name})
        writer.stdin.close()
    age(locked)
    age(young)
    assert run(on_posix, given_file, "a", "parameters", cwd=tmp_path).returncode == 0
    assert entries(tmp_path) == sorted({"a", *before} - {dead.name, locked.name, young.name})


def test_the_next_write_removes_what_a_killed_writer_left(folder, given_file, tmp_path):
    """A writer that is stopped before it renames, as by a kill."""
    built("gcc", "-std=gnu11", *STRICT, "-c", PROGRAMS / "killed.c", "-o", "killed.o", cwd=folder)
    stuck = program(folder, "files", "-Dfsync=killed_fsync", "killed.o", to="stuck")
    tool = program(folder, "files", to="on_posix")
    assert run(stuck, given_file, tmp_path / "a", "parameters").returncode == -signal.SIGKILL
    [stray] = tmp_path.glob("a.*.part")
    assert write(tool, given_file, tmp_path / "a") == "no error\n"
    assert not stray.exists()
    assert holds_the_same(tmp_path / "a", given_file)


# Files of other writers


@pytest.fixture(scope="module")
def arrays_tool(folder):
    return program(folder, "arrays")


READ = sorted(set(DTYPES) - {"F8_E4M3", "F8_E5M2", "BF16"})


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_.]{0,8}", fullmatch=True),
        st.tuples(st.sampled_from(READ), st.lists(st.integers(0, 3), max_size=4), st.integers(0, 99)),
        min_size=1,
        max_size=4,
    ),
    st.none()
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text('a"\\é\n'), min_size=1),
)
@settings(max_examples=25)
def test_files_of_the_safetensors_library_are_read(arrays_tool, folder, described, metadata):
    named = {
        name: np.random.default_rng(seed).integers(0, 100, shape).astype(DTYPES[dtype])
        for name, (dtype, shape, seed) in described.items()
    }
    save_file(named, folder / "theirs", metadata)
    done = run(arrays_tool, folder / "theirs", *named)
    wanted = [
        f"{' '.join([described[name][0], *map(str, array.shape)])}:{array.tobytes().hex()}"
        for name, array in named.items()
    ]
    assert (done.stdout.splitlines(), done.stderr) == (wanted, "")


def test_every_byte_of_a_truth_value_is_one(arrays_tool, tmp_path):
    safetensors.write(tmp_path / "a", {"a": np.ones(5, bool)})
    content = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(content[:-5] + bytes([0, 1, 2, 128, 255]))
    assert run(arrays_tool, tmp_path / "a", "a").stdout == "BOOL 5:0001010101\n"
    assert safetensors.read(tmp_path / "a")["a"].tobytes().hex() == "0001010101"
