"""Fixtures of several files of tests."""

import pytest

from tests.c_runtime import BUILDS, compiled_runtime


@pytest.fixture(scope="session", params=BUILDS)
def library(request, tmp_path_factory):
    """The runtime of emitted C, compiled in each of several ways."""
    return compiled_runtime(tmp_path_factory.mktemp(request.param), request.param)
