"""A copy of a checkout runs without an installation, as on a machine that it was copied to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("catgrad", "backends", "templates", "examples", "benchmarks")


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """Return a function that runs Python in a copy, with all packages but catgrad."""
    folder, site = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("site")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    installed = [Path(path) for path in sys.path if path.endswith("site-packages")]
    for entry in (entry for path in installed for entry in path.iterdir()):
        if "catgrad" not in entry.name and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)

    def run(*arguments):
        """`-S` leaves out the finders of editable installs."""
        command = [sys.executable, "-S", *map(str, arguments)]
        environment = os.environ | {"PYTHONPATH": str(site)}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)

    return run


def test_a_copy_has_the_built_in_targets(copied, tmp_path):
    done = copied("-m", "catgrad.cli", "emit", "examples.iris:hidden", "-t", "cuda", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "hidden.cu").exists()


@pytest.mark.long
def test_benchmarks_of_cuda_run_in_a_copy(copied):
    """Take the steps of a model in the simulator, as the check of a device does on it."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    script = "from benchmarks.cuda import check, command; print(check.agrees('iris', simulate=True))"
    done = copied("-c", script)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
