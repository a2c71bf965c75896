"""Selection of Scratch's virtual machines for tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from catgrad.backends.scratch.machine.projects import missing

FOLDER = Path(__file__).parent


def on_machines(test):
    """Parametrise a test by virtual machine; those that cannot run here are skipped with the reason."""
    kinds = [
        pytest.param(vm, marks=pytest.mark.skipif(bool(missing(vm)), reason=f"Scratch: {missing(vm)}"))
        for vm in ("vanilla", "turbowarp")
    ]
    return pytest.mark.parametrize("vm", kinds)(test)


def same(x, y):
    """Return whether two values are identical; zeros and types are distinguished, NaNs are not."""
    return type(x) is type(y) and (repr(x) == repr(y))
