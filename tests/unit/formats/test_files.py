"""Atomic file writes: concurrent writers, links, durability, and temporary files of killed writers."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad.errors import ArtifactError
from catgrad.files import STRAY_SECONDS, write_atomically
from catgrad.formats import safetensors
from catgrad.learn.fit import checkpoint
from tests.models import mlp
from tests.targets import emit

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks or links of this kind")


def entries(folder):
    return sorted(path.name for path in folder.iterdir())


@given(
    st.lists(st.binary(max_size=9), max_size=4), st.sampled_from(["a", "[a]*", "é" * 127, "x" * 255, ".a.b"])
)
def test_a_file_has_its_contents_and_leaves_no_temporary_file(tmp_path_factory, blocks, name):
    folder = tmp_path_factory.mktemp("some")
    for content in (blocks, blocks[1:]):
        write_atomically(folder / name, content)
        assert (folder / name).read_bytes() == b"".join(content)
        assert entries(folder) == [name]


# Many writers

WRITER = """
import sys, threading
from pathlib import Path
from catgrad.files import write_atomically

def write(letter):
    for _ in range(10):
        write_atomically(Path(sys.argv[1]), [letter.encode() * 10_000] * 10)

threads = [threading.Thread(target=write, args=(letter,)) for letter in sys.argv[2]]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_concurrent_writers_leave_one_complete_file(tmp_path):
    path, seen = tmp_path / "a", set()
    path.write_bytes(b"-" * 100_000)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, letters], stderr=subprocess.PIPE, text=True)
        for letters in ("abc", "def")
    ]
    while any(writer.poll() is None for writer in writers):
        seen.add(path.read_bytes())
    assert [writer.communicate()[1] for writer in writers] == ["", ""]
    assert seen <= {letter * 100_000 for letter in (b"-", b"a", b"b", b"c", b"d", b"e", b"f")}
    assert entries(tmp_path) == ["a"]


# Links


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text("untouched")
    return path


def test_a_link_at_the_temporary_path_is_not_followed(tmp_path, victim, monkeypatch):
    (tmp_path / f".a.{os.getpid()}").symlink_to(victim)
    write_atomically(tmp_path / "a", [b"new"])
    assert victim.read_text() == "untouched"
    # Not even by one who could guess the name.
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    monkeypatch.setattr("catgrad.files._machine", lambda: "0" * 8)
    planted = tmp_path / f".a.{'0' * 16}.part"
    planted.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "a", [b"newer"])
    assert (tmp_path / "a").read_text() == "new"
    assert planted.is_symlink() and victim.read_text() == "untouched"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_followed(tmp_path, is_there):
    folder = tmp_path / "there"
    folder.mkdir()
    if is_there:
        (folder / "real").write_text("old")
    (tmp_path / "second").symlink_to("there/real")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    write_atomically(tmp_path / "first", [b"new"])
    assert (folder / "real").read_text() == "new"
    assert (tmp_path / "first").is_symlink() and (tmp_path / "second").is_symlink()
    assert entries(folder) == ["real"]


@POSIX
def test_only_regular_files_are_replaced(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("loop", "folder", "pipe"):
        with pytest.raises(OSError, match="neither a file nor a link to one"):
            write_atomically(tmp_path / name, [b"new"])
    assert entries(tmp_path) == ["folder", "loop", "pipe"]


def test_all_writers_follow_links(tmp_path):
    artifact = emit(mlp())
    [name] = artifact.files
    for file in (name, "weights"):
        (tmp_path / file).symlink_to(f"{file}.real")
        (tmp_path / f"{file}.real").write_text("old")
    artifact.write(tmp_path)
    checkpoint.save(artifact.load()().learner(), tmp_path / "weights")
    assert (tmp_path / name).is_symlink() and (tmp_path / f"{name}.real").read_text() == artifact.source
    assert (tmp_path / "weights").is_symlink() and safetensors.read(tmp_path / "weights.real")


# Durability


def test_data_are_on_disk_before_the_rename(tmp_path, monkeypatch):
    done, fsync, replace = [], os.fsync, os.replace

    def recorded_fsync(descriptor):
        status = os.fstat(descriptor)
        done.append("folder" if stat.S_ISDIR(status.st_mode) else status.st_size)
        fsync(descriptor)

    def recorded_replace(old, new):
        done.append(new.name)
        replace(old, new)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    write_atomically(tmp_path / "a", [b"four", b"five."])
    assert done == [9, "a", "folder"]


@POSIX
def test_permissions_of_the_old_file_are_preserved(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", [b"new"])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    (tmp_path / "a").chmod(0o600)
    write_atomically(tmp_path / "a", [b"newer"])
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_failed_write_leaves_the_old_file(tmp_path):
    def blocks():
        yield b"new"
        raise KeyboardInterrupt

    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a", blocks())
    assert (tmp_path / "a").read_text() == "old"
    assert entries(tmp_path) == ["a"]


# Temporary files of killed writers

STUCK = """
import sys, time
from pathlib import Path
from catgrad.files import write_atomically

def blocks():
    yield b"new" * 10_000
    print("under way", flush=True)
    time.sleep(1000)

write_atomically(Path(sys.argv[1]), blocks())
"""


def age(path):
    long_ago = time.time() - STRAY_SECONDS - 60
    os.utime(path, (long_ago, long_ago))


@POSIX
def test_temporary_files_of_killed_writers_are_removed_at_the_next_write(tmp_path):
    with subprocess.Popen([sys.executable, "-c", STUCK, tmp_path / "a"], stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        [stray] = tmp_path.iterdir()
        age(stray)
        write_atomically(tmp_path / "a", [b"new"])
        assert stray.exists(), "its writer lives"
        writer.kill()
    write_atomically(tmp_path / "b", [b"another"])
    assert stray.exists(), "it is another's"
    write_atomically(tmp_path / "a", [b"newest"])
    assert entries(tmp_path) == ["a", "b"]


@POSIX
def test_temporary_files_of_another_machine_are_removed_when_they_are_old(tmp_path):
    """Locks of another machine may not be seen here."""
    theirs = tmp_path / f".a.{'0123456789abcdef'}.part"
    theirs.write_text("left")
    write_atomically(tmp_path / "a", [b"new"])
    assert theirs.exists()
    age(theirs)
    write_atomically(tmp_path / "a", [b"newer"])
    assert entries(tmp_path) == ["a"]


@POSIX
def test_a_writer_of_this_process_keeps_its_file(tmp_path):
    begun, free = threading.Event(), threading.Event()

    def blocks():
        yield b"slow"
        begun.set()
        assert free.wait(60)

    slow = threading.Thread(target=write_atomically, args=(tmp_path / "a", blocks()))
    slow.start()
    assert begun.wait(60)
    [part] = tmp_path.iterdir()
    age(part)
    write_atomically(tmp_path / "a", [b"quick"])
    assert (tmp_path / "a").read_text() == "quick"
    free.set()
    slow.join()
    assert (tmp_path / "a").read_text() == "slow"
    assert entries(tmp_path) == ["a"]


@POSIX
def test_files_that_resemble_temporary_ones_are_left_alone(tmp_path, victim):
    digits = "0123456789abcdef"
    lookalikes = [
        f".a.{digits}.party",
        f".a.{digits[1:]}.part",
        f"a.{digits}.part",
        f".a.{digits.upper()}.part",
    ]
    for name in lookalikes:
        (tmp_path / name).touch()
        age(tmp_path / name)
    (tmp_path / f".a.{digits}.part").symlink_to(victim)
    os.utime(tmp_path / f".a.{digits}.part", (0, 0), follow_symlinks=False)
    os.mkfifo(tmp_path / f".a.{digits[::-1]}.part")
    age(tmp_path / f".a.{digits[::-1]}.part")
    before = entries(tmp_path)
    write_atomically(tmp_path / "a", [b"new"])
    assert entries(tmp_path) == sorted(["a", *before])
    assert victim.read_text() == "untouched"


# Python without assertions

REFUSED = """
import sys
from pathlib import Path
import numpy as np
from catgrad.errors import ArtifactError
from catgrad.formats import safetensors
from catgrad.learn.fit.history import History

folder = Path(sys.argv[1])
(folder / "cut").write_bytes(b"\\x10")
(folder / "a.index.json").write_text('{"weight_map": {"x": "../x"}}')
for refused in (
    lambda: safetensors.read(folder / "cut"),
    lambda: safetensors.read_metadata(folder / "cut"),
    lambda: safetensors.read(folder / "a.index.json"),
    lambda: safetensors.write(folder, {}),
    lambda: safetensors.write(folder / "b", {"__metadata__": np.zeros(1)}),
    lambda: safetensors.write(folder / "b", {}, {"a": 1}),
    lambda: History.from_json('{"losses": [1], "epochs": [{"number": 1, "steps": 1, "loss": "1"}]}', "b"),
):
    try:
        refused()
    except ArtifactError:
        print("refused")
"""


def test_validation_does_not_depend_on_assertions(tmp_path):
    command = [sys.executable, "-O", "-c", REFUSED, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["refused"] * 7, done.stderr
    assert entries(tmp_path) == ["a.index.json", "cut"]


def test_an_artifact_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    artifact = emit(mlp())
    for folder in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "a\0b"):
        with pytest.raises(ArtifactError, match="the output folder must be writable"):
            artifact.write(folder)


def test_weights_are_saved_atomically(tmp_path):
    """An array whose conversion fails leaves the old file."""
    safetensors.write(tmp_path / "a", {"x": np.zeros(2)})
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(ArtifactError):
        safetensors.write(tmp_path / "a", {"x": np.ones(2), "y": np.zeros(2, complex)})
    assert (tmp_path / "a").read_bytes() == before
    assert entries(tmp_path) == ["a"]
