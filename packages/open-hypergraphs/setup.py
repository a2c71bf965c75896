"""Repackages open-hypergraphs 0.1.3 from PyPI, which requires NumPy 1.26, with the bounds of pyproject.toml.

Its hash is in upstream.txt. A local version, 0.1.3+numpy2, satisfies a requirement of 0.1.3 (PEP 440).
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from setuptools import setup

HERE = Path(__file__).parent
DOWNLOAD = ("-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes")

with TemporaryDirectory() as folder:
    subprocess.run([sys.executable, *DOWNLOAD, "-r", HERE / "upstream.txt", "-d", folder], check=True)
    [wheel] = Path(folder).glob("*.whl")
    ZipFile(wheel).extractall(HERE / "upstream")

setup()
