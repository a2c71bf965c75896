"""Files that compilers write in tests are cached by all that decides them."""

from __future__ import annotations

import shutil

import pytest

from catgrad import tools
from tests.compiled import compiled_once

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc on this machine")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Record the commands that run, with an empty cache."""
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path / "cache"))
    found, run = [], tools.run

    def recorded(command, *rest, **more):
        found.append(command[0])
        return run(command, *rest, **more)

    monkeypatch.setattr(tools, "run", recorded)
    return found


def program(folder, number, *flags):
    """Compile a program that returns a number, and run it."""
    folder.mkdir(exist_ok=True)
    (folder / "number.h").write_text(f"#define NUMBER {number}\n")
    (folder / "main.c").write_text('#include "number.h"\nint main(void) { int unused; return NUMBER; }\n')
    done = compiled_once("gcc", *flags, "main.c", "-o", folder / "main", cwd=folder)
    return done.stderr, tools.run([str(folder / "main")], 10).returncode


def test_the_same_files_are_compiled_once_in_any_folder(runs, tmp_path):
    first, second = (program(tmp_path / name, 3, "-Wall") for name in ("a", "b"))
    assert first == second and "unused" in first[0] and first[1] == 3
    assert runs.count("gcc") == 1


def test_other_headers_and_flags_are_compiled(runs, tmp_path):
    assert [program(tmp_path / "a", number)[1] for number in (3, 4, 3)] == [3, 4, 3]
    program(tmp_path / "a", 3, "-O1")
    assert runs.count("gcc") == 3


def test_a_flag_that_names_the_folder_is_that_of_another_program(runs, tmp_path):
    for name in ("a", "b"):
        program(tmp_path / name, 3, f"-Wl,-rpath,{tmp_path / name}")
    assert runs.count("gcc") == 2


def test_errors_are_not_kept(runs, tmp_path):
    (tmp_path / "main.c").write_text("int main(void) { return nothing; }\n")
    assert all(compiled_once("gcc", "main.c", cwd=tmp_path).returncode for _ in range(2))
    assert runs.count("gcc") == 2
