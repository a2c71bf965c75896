"""Every target agrees with the reference at edges: infinite numbers, NaN, empty axes, single indices."""

from __future__ import annotations

import pytest

from catgrad.programs.program import lower, operations
from catgrad.targets import backends
from catgrad.terms.structural import Constant
from tests.differential import check_programs
from tests.edges import EDGES
from tests.targets import TOGETHER, on

TARGETS = {*backends()} - {"torch-module"}
"""All but the one that prints models only."""

DIFFERENT = {
    "torch": lambda op: op.macro in ("Gelu", "Fmod"),
    "jax": lambda op: isinstance(op, Constant) and 1e38 < op.value < float("inf"),
}
"""Differences of libraries: PyTorch's gelu of ∞ and fmod of far numbers are NaN; XLA takes 1 / 3e38 for 0."""


@pytest.mark.covering
@on(*sorted(TARGETS), long=TARGETS - {"numpy", "onnx"})
@pytest.mark.parametrize("edge", EDGES)
def test_edges(target, edge):
    differs, most = DIFFERENT.get(target, lambda op: False), TOGETHER.get(target, 64)
    programs = [p for p in EDGES[edge]() if not any(map(differs, operations(lower(p.term))))]
    for first in range(0, len(programs), most):
        check_programs(target, programs[first : first + most])
