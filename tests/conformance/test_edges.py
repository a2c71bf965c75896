"""Every target agrees with the reference at edges: infinite numbers, NaN, empty axes, single indices."""

from __future__ import annotations

import pytest

from catgrad.backend import backends
from tests.differential import check_programs
from tests.edges import EDGES
from tests.targets import TOGETHER, on

TARGETS = {*backends()} - {"torch-module"}
"""All but the one that prints models only."""


@on(*sorted(TARGETS), long=TARGETS - {"numpy", "onnx"})
@pytest.mark.parametrize("edge", EDGES)
def test_edges(target, edge):
    programs, most = EDGES[edge](), TOGETHER.get(target, 64)
    for first in range(0, len(programs), most):
        check_programs(target, programs[first : first + most])
