"""catgrad installs into fresh environments of every supported Python, and trains there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.covering import some
from tests.pythons import interpreter
from tests.unit.project.test_wheel import FILES, FOLDERS

uv = pytest.importorskip("uv", reason="uv, which makes fresh environments, is not installed")

ROOT = Path(__file__).parents[3]


def run(*command, folder):
    done = subprocess.run([str(each) for each in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fresh(version, folder):
    """Return the Python of a new environment."""
    run(uv.find_uv_bin(), "venv", "--quiet", "--python", interpreter(version), folder / "venv", folder=folder)
    return folder / "venv/bin/python"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    copy = tmp_path_factory.mktemp("source")
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    for name in (*FOLDERS, "packages"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="module")
def built(source):
    """Build the source distribution, and the wheel from that."""
    run(uv.find_uv_bin(), "build", "--quiet", folder=source)
    return {path.suffix: path for path in (source / "dist").iterdir()}


def assert_trains(python, folder):
    """Run the demo and a line of the README, away from any checkout."""
    printed = run(python, "-m", "catgrad.examples.iris", "hidden", "--steps", "300", folder=folder)
    assert float(printed.rpartition("accuracy: ")[2].partition("%")[0]) > 80
    run(folder / "venv/bin/catgrad", "emit", "catgrad.examples.iris:hidden", "-t", "c", folder=folder)
    run(folder / "venv/bin/catgrad", "draw", "catgrad.examples.iris:hidden", folder=folder)
    assert (folder / "out/hidden.c").exists()
    assert (folder / "model.svg").read_text().rstrip().endswith("</svg>")


@pytest.mark.covering(0)
@pytest.mark.parametrize("kind", [".gz", ".whl"], ids=["sdist", "wheel"])
@pytest.mark.parametrize("version", ["3.12", "3.11"])
def test_a_distribution_installs_and_trains(built, version, kind, tmp_path):
    """A source distribution becomes a wheel, whose files test_wheel.py compares; 3.11 installs the recipe."""
    python = fresh(version, tmp_path)
    run(uv.find_uv_bin(), "pip", "install", "--quiet", "--python", python, built[kind], folder=tmp_path)
    assert_trains(python, tmp_path)


CHOICES = [("3.11", "1.26"), ("3.13", "2"), ("3.11", "2"), ("3.12", "1.26"), ("3.12", "2")]
"""Versions of Python and of NumPy, of which the last three are in other combinations and above."""


@pytest.mark.parametrize("choice", some(CHOICES, CHOICES[:2]), ids="-".join)
def test_the_recipe_installs_beside_any_numpy(source, choice, tmp_path):
    """The package open-hypergraphs of `packages/` has the code of PyPI's, and a wider requirement."""
    version, numpy = choice
    python = fresh(version, tmp_path)
    install = (uv.find_uv_bin(), "pip", "install", "--quiet", "--python", python)
    run(*install, "./packages/open-hypergraphs", ".", f"numpy=={numpy}.*", folder=source)
    run(uv.find_uv_bin(), "pip", "check", "--python", python, folder=tmp_path)
    assert run(python, "-c", "import numpy; print(numpy.__version__)", folder=tmp_path).startswith(numpy)
    assert_trains(python, tmp_path)


def test_without_the_recipe_python_3_13_is_refused_at_once(source, tmp_path):
    """PyPI's open-hypergraphs needs NumPy 1.26, which would be compiled there for half an hour."""
    python = fresh("3.13", tmp_path)
    install = [uv.find_uv_bin(), "pip", "install", "--python", python, "--no-sources", "."]
    done = subprocess.run(list(map(str, install)), cwd=source, capture_output=True, text=True)
    assert done.returncode != 0
    assert "open-hypergraphs==0.1.3+numpy2" in done.stderr


def test_the_demo_leaves_only_files_that_git_ignores():
    command = run("make", "-n", "demo", folder=ROOT).splitlines()[-1]
    picture = command.partition("--plot ")[2]
    ignored = subprocess.run(["git", "check-ignore", picture], cwd=ROOT, capture_output=True, text=True)
    assert ignored.stdout.strip() == picture
