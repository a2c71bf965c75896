"""A package outside the tree adds a kernel language: JavaScript, in at most 500 lines with its templates.

Its emitted modules run in Node.js, and must compute what `ref` says, as those of every target.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import catgrad.backend
from catgrad.backend import backends, get_backend

PACKAGE = Path(__file__).parent / "javascript"
MOST_LINES = 500


@pytest.fixture(scope="module", autouse=True)
def installed():
    """The package on the path, and its entry point among those of the installed ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PACKAGE)
        known, new = backends(), __import__("catgrad_javascript").provide()
        patch.setattr(catgrad.backend, "backends", lambda: {**known, **new})
        get_backend.cache_clear()
        if reason := get_backend("javascript").missing():
            pytest.skip(f"target javascript: {reason}")
        yield
    get_backend.cache_clear()
