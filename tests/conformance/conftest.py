"""Fixtures of several files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from catgrad.backends.c import loading
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


AS_USERS_DO = ("test_targets", "test_whole_steps", "test_prepared")
"""Files of tests that load libraries in C as they are compiled by default: operations, and small models."""


@pytest.fixture(scope="module", autouse=True)
def quick_libraries(request):
    """Compile other libraries in C in half the time; their loops are vectorised all the same."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__.rpartition(".")[2] not in AS_USERS_DO:
            flags = ["-O1" if flag == "-O3" else flag for flag in loading.C.flags]
            patch.setattr(loading, "C", replace(loading.C, flags=(*flags,)))
        yield
