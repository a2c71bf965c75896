"""Selection of Scratch's virtual machines for tests."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from catgrad.backends.scratch.machine.projects import missing

FOLDER = Path(__file__).parent


def on_machines(test, long=()):
    """Parametrise a test by virtual machine; those that cannot run here are skipped with the reason."""

    def machine(vm):
        skipped = pytest.mark.skipif(bool(missing(vm)), reason=f"Scratch: {missing(vm)}")
        return pytest.param(vm, marks=[skipped, pytest.mark.long] if vm in long else [skipped])

    return pytest.mark.parametrize("vm", [machine(vm) for vm in ("vanilla", "turbowarp")])(test)


on_scratch = functools.partial(on_machines, long=("turbowarp",))
"""Parametrise a test by Scratch's own machine, and by TurboWarp's with `pytest -m long`."""


def same(x, y):
    """Return whether two values are identical; zeros and types are distinguished, NaNs are not."""
    return type(x) is type(y) and (repr(x) == repr(y))
