"""Tools: `catgrad doctor` detects them, reports missing ones, and survives any behaviour of programs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest

from catgrad import emit, tools
from catgrad.backend import Backend
from catgrad.cli import main
from catgrad.errors import CatgradWarning, ToolError
from catgrad.targets import backends, get_backend, loaded_backends
from catgrad.tools import Executable, Package, version_in
from tests.models import mlp


def doctor(capsys, monkeypatch):
    """Run the command; return the text of each row by its first cell."""
    monkeypatch.setenv("COLUMNS", "500")
    with pytest.raises(SystemExit) as end:
        main(["doctor"])
    said = capsys.readouterr()
    assert (end.value.code, said.err) == (0, "")
    return {re.split(" {2,}", line.strip())[0]: line for line in said.out.splitlines()}


def test_each_target_declares_its_tools(capsys, monkeypatch):
    rows = doctor(capsys, monkeypatch)
    for name in backends():
        reason = get_backend(name).missing()
        assert re.search(r"\byes\b", rows[name]) if reason is None else reason in rows[name]
        for tool in get_backend(name).needs:
            assert name in rows[tool.name]
            assert tool.is_installed() or tool.remedy() in rows[tool.name]


def test_a_missing_tool_comes_with_its_installation(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    rows = doctor(capsys, monkeypatch)
    assert "there is no C compiler: none of cc, gcc, clang is one; install gcc" in rows["c"]
    assert "there is no JAX; pip install jax" in rows["jax"]
    assert "there is no program `node`; install Node.js" in rows["scratch"]
    assert "there is no PyTorch; pip install torch" in rows["torch-module"]
    assert "apt install graphviz" in rows["graphviz's program `dot`"]
    assert "yes" in rows["numpy"]
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    assert "$CC is 'no-such-compiler -O2', which names no program" in get_backend("c").missing()
    monkeypatch.setenv("CC", "a quotation 'without end")
    assert "which names no program" in get_backend("c").missing()


SCRIPTS = {
    "says its version": ("echo 'cc (Somewhere 12.2.0-14) 12.2.1'", "12.2.0"),
    "says it elsewhere": ("echo; echo 'release 12.4, V12.4.131' >&2; exit 3", "12.4"),
    "has a version of another kind": ("echo ' r2024b of this '", "r2024b of this"),
    "says nothing": ("exit 0", ""),
    "hangs": ("while :; do :; done", ""),
    "waits for an answer": ("read answer; echo 1.$answer.0", "1..0"),
    "never stops": ("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyy; done", "y" * 24),
    "prints garbage": (r"printf '\377\376\000\033[31m\r\n\342\200\256'", r"��\x00\x1b[31m"),
    "leaves a child behind": ("(while :; do :; done) & echo 3.1", "3.1"),
    "says only a very long word": (f"echo {'x' * 1000}", "x" * 40),
}


ENDLESS = {"hangs": 0.5, "leaves a child behind": 3}
"""Timeout in seconds for programs that do not end."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_program_may_do_anything_when_asked_for_its_version(tmp_path, monkeypatch, name):
    script, version = SCRIPTS[name]
    (tmp_path / "odd").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "odd").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "SECONDS", ENDLESS.get(name, 60))
    odd = Executable(name="odd", names=("odd",), install="do")
    assert odd.missing() is None
    assert odd.version() == version


def test_a_program_that_cannot_be_run_is_here_and_has_no_version(tmp_path, monkeypatch):
    (tmp_path / "odd").write_bytes(b"\x00\x01")
    (tmp_path / "odd").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    odd = Executable(name="odd", names=("odd",), install="do")
    assert (odd.is_installed(), odd.version()) == (True, "")


def test_a_doctor_among_hanging_programs(capsys, monkeypatch, tmp_path):
    for name in ("cc", "make", "node", "dot", "chromium"):
        (tmp_path / name).write_text("#!/bin/sh\nwhile :; do :; done\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(tools, "SECONDS", 0.2)
    rows = doctor(capsys, monkeypatch)
    assert "yes" in rows["c"]
    assert all("unknown" in rows[name] for name in ("C compiler", "make", "Node.js", "Chromium"))


@pytest.mark.parametrize("found", [None, "", "\x1b[31m", metadata.PackageNotFoundError("numpy"), OSError()])
def test_metadata_may_be_broken(monkeypatch, found):
    def version(name):
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(metadata, "version", version)
    numpy = Package(name="NumPy", module="numpy", install="pip install numpy")
    assert numpy.is_installed()
    assert numpy.version() in ("", r"\x1b[31m")


def test_a_folder_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "hollow").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not Package(name="Hollow", module="hollow", install="do").is_installed()


@pytest.mark.parametrize(("text", "version"), [("v20.1.0\n", "20.1.0"), ("\n\n\t\n", ""), ("7", "7")])
def test_versions_are_found_in_texts(text, version):
    assert version_in(text) == version


def test_a_tool_is_required_by_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ToolError, match="^flying must have a broom, but there is no program `broom`; buy one$"
    ):
        Executable(name="a broom", names=("broom",), install="buy one").require("flying")


def test_doctor_imports_no_slow_library():
    program = """
import sys
from catgrad.cli import main
try:
    main(["doctor"])
except SystemExit:
    sys.exit([m for m in ("torch", "jax", "ml_dtypes", "graphviz", "lark") if m in sys.modules] or 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ)
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def broken(monkeypatch):
    """Install two packages: one that does not load, and one with a target that does not load."""
    from catgrad.targets import entry_points

    def provide():
        return {"broken": lambda: 1 / 0, "odd": lambda: Backend("odd", "odd", (), {}, load=None)}

    added = [
        SimpleNamespace(value="x.broken:provide", load=lambda: provide),
        SimpleNamespace(value="x.lost:provide", load=lambda: __import__("x.lost")),
    ]
    monkeypatch.setattr("catgrad.targets.entry_points", lambda group: [*entry_points(group=group), *added])


def test_a_plug_in_that_does_not_load_breaks_no_other(broken):
    with pytest.warns(CatgradWarning) as warned:
        assert {"numpy", "odd"} <= loaded_backends().keys() <= backends().keys() - {"broken"}
    said = {str(warning.message) for warning in warned}
    assert any("the targets of x.lost:provide do not load" in text for text in said)
    assert any(
        "the target broken must load, but its package raised ZeroDivisionError" in text for text in said
    )
    with pytest.warns(CatgradWarning), pytest.raises(ToolError, match="repair the package, or uninstall it"):
        emit(mlp(), "broken")


def test_commands_work_without_a_plug_in_that_does_not_load(broken, capsys):
    for command, listed in (("targets", "numpy"), ("doctor", "repair the package"), ("ops", "Sigmoid")):
        with pytest.warns(CatgradWarning), pytest.raises(SystemExit) as end:
            main([command])
        said = capsys.readouterr()
        assert end.value.code == 0
        assert listed in " ".join(said.out.split())


def test_programs_beside_python_are_found(monkeypatch, tmp_path):
    """Packages such as cmake install programs there, which is on the PATH in an active environment only."""
    program = tmp_path / "broom"
    program.write_text("#!/bin/sh\necho broom 1.2\n")
    program.chmod(0o755)
    broom = Executable(name="a broom", names=("broom",), install="buy one")
    assert not broom.is_installed()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert (broom.command(), broom.version()) == ([str(program)], "1.2")
