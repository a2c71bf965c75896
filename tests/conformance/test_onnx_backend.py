"""ONNX's own backend test suite: each case passes, or is refused with a typed error."""

from __future__ import annotations

import pytest

from benchmarks.compiler.onnx_backend import KINDS, PAGE, outcomes, tables
from tests.covering import some

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")


@pytest.fixture(scope="module", params=some((1, 5), (5,)))
def step(request):
    """Run all cases, or every fifth."""
    return request.param


@pytest.fixture(scope="module")
def rows(step):
    return list(outcomes(step=step))


@pytest.mark.parametrize("kind", KINDS)
def test_no_case_is_wrong(rows, kind, step):
    assert [row for row in rows if row.kind == kind and row.result == "wrong"] == []
    assert sum(row.kind == kind and row.result == "passed" for row in rows) > 5 // step


@pytest.mark.long
def test_the_page_has_the_counts():
    page = PAGE.read_text(encoding="utf-8")
    if f"onnx {onnx.__version__})" not in page:
        pytest.skip("the counts are those of another version of onnx")
    for table in tables(list(outcomes())):
        assert table in page
