"""The wheel has every module, template and data file, and runs, also inside a checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

pytest.importorskip(
    "setuptools", minversion="77", reason="setuptools, which builds the wheel, is not installed"
)

ROOT = Path(__file__).parents[3]
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
FOLDERS = {
    "catgrad": "catgrad",
    "backends": "catgrad/backends",
    "templates": "catgrad/templates",
    "examples": "catgrad/examples",
}

BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
"""The call by which pip builds a wheel, here with the setuptools that is installed."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Copy the files that a wheel is built from; setuptools leaves its own files beside them."""
    copy = tmp_path_factory.mktemp("source")
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return ZipFile(next(folder.glob("*.whl")))


def test_a_wheel_has_every_file(source, wheel):
    expected = {
        f"{package}/{file.relative_to(source / folder).as_posix()}"
        for folder, package in FOLDERS.items()
        for file in (source / folder).rglob("*")
        if file.is_file()
    }
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == expected
    assert "catgrad/templates/kernels/ops.j2" in packed
    assert "catgrad/examples/data/genesis.txt" in packed


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return a function that runs Python with the wheel's files, and without those of this checkout."""
    site = tmp_path_factory.mktemp("site")
    wheel.extractall(site)
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), *libraries])}

    def run(*arguments, folder):
        """`-S` leaves out the finders of editable installs."""
        command = [sys.executable, "-S", "-W", "error", *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)

    return run


@pytest.mark.parametrize("place", ["a checkout", "elsewhere"])
def test_an_installation_runs(installed, place, tmp_path):
    """Python imports the folder `catgrad` of a checkout before the installed one."""
    folder = ROOT if place == "a checkout" else tmp_path
    out = str(tmp_path / "out")
    emit = ("-m", "catgrad.cli", "emit", "catgrad.examples.iris:hidden", "-o", out, "--target")
    for command in (
        [*emit, "numpy"],
        [*emit, "scratch"],
        ["-m", "catgrad.examples.iris", "hidden", "--steps", "20"],
        ["-m", "catgrad.examples.microcontroller", "--help"],
    ):
        done = installed(*command, folder=folder)
        assert done.returncode == 0, done.stderr
    found = installed("-c", "import catgrad.examples.iris as it; print(it.__file__)", folder=folder)
    assert found.stdout.startswith(str(ROOT)) == (place == "a checkout")


EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if "__main__" in path.read_text())


HELP = """
import contextlib, io, json, runpy, sys

said = {}
for name in sys.argv[1:]:
    sys.argv = [name, "--help"]
    sys.modules.pop(f"catgrad.examples.{name}", None)  # imported by another
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            runpy.run_module(f"catgrad.examples.{name}", run_name="__main__")
        except SystemExit as done:
            said[name] = done.code, output.getvalue()
print(json.dumps(said))
"""
"""Ask examples for help, all in one process."""


def test_examples_run_outside_a_checkout(installed, tmp_path):
    done = installed("-c", HELP, *EXAMPLES, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [name for name in EXAMPLES if said[name][0] or "Usage" not in said[name][1]] == []
