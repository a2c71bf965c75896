"""The wheel has every module, template and data file; editable installs, which tests use, read the tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

pytest.importorskip(
    "setuptools", minversion="77", reason="setuptools, which builds the wheel, is not installed"
)

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
FOLDERS = {"catgrad": "catgrad", "backends": "catgrad/backends", "templates": "catgrad/templates"}

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


def test_a_wheel_has_every_file(source, tmp_path):
    expected = {
        f"{package}/{file.relative_to(source / folder).as_posix()}"
        for folder, package in FOLDERS.items()
        for file in (source / folder).rglob("*")
        if file.is_file()
    }
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)], cwd=source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == expected
    assert "catgrad/templates/kernels/ops.j2" in packed
