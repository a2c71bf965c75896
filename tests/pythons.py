"""Other versions of Python on this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def interpreter(version: str) -> str:
    """Return the path of a Python of this version, such as "3.13"; skip the test if there is none."""
    name = f"python{version}"
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/{name}"))
    # pyenv's shims are on the PATH even where the version they stand for is not selected.
    for path in filter(None, [shutil.which(name), *map(str, installed)]):
        if subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return path
    pytest.skip(f"no {name} on this machine")
