"""Fixtures of several files."""

from __future__ import annotations

import pytest
from catgrad.backends.ggml.tools import GGML

from tests.newest_ggml import missing_newest, newest

ENDS = [
    "installed",
    pytest.param("newest", marks=pytest.mark.skipif(bool(missing_newest()), reason=missing_newest())),
]


@pytest.fixture(scope="module", params=ENDS)
def ggml_version(request, tmp_path_factory):
    """Build on one end of ggml's versions."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "newest":
            patch.setenv(GGML.variable, str(newest(tmp_path_factory.mktemp("ggml"))))
        yield request.param
