"""Installs `backends/`, `templates/` and `examples/` as packages of `catgrad`.

Everything else is in pyproject.toml; only the list of packages is computed, so that a new target
is a new folder and no new line (docs/adr/0002-package-mapping.md).
"""

from setuptools import find_packages, setup

core = find_packages(include=["catgrad", "catgrad.*"])
mapped = find_packages(include=["backends", "backends.*", "templates", "examples", "examples.*"])
setup(packages=core + [f"catgrad.{name}" for name in mapped])
