"""Fixtures of several files of tests."""

import pytest

from tests.c_runtime import BUILDS, compiled_runtime


@pytest.fixture(scope="session", params=BUILDS)
def library(request):
    """The runtime of emitted C, compiled in each of several ways."""
    return compiled_runtime(request.param)
