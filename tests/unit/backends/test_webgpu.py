"""Emission of WebGPU, without a device: refusals of what devices lack, and names of the runtime."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.errors import DtypeError
from catgrad.functors.expand import Expand
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend
from tests.models import mlp
from tests.targets import emit

WEBGPU = get_backend("webgpu")


def emitted(function, *types):
    term = Expand(WEBGPU.has)(build(function, types))
    return WEBGPU.emit(Program("case", (lower(term, "f", doc="A case."),))).source


def test_numbers_of_64_and_16_bits_are_refused():
    with pytest.raises(DtypeError, match="no arrays of float64"):
        emit(mlp(dtype=Dtype.float64), "webgpu")
    with pytest.raises(DtypeError, match="at least 32 bits"):
        emit(mlp(dtype=Dtype.float16), "webgpu")
    with pytest.raises(DtypeError, match="must have 32 bits, but case has the constant 1099511627776"):
        emitted(lambda n: n + 2**40, NdArrayType((2,), Dtype.int64))


def test_names_of_the_runtime_are_reserved():
    types = [NdArrayType((), Dtype.bool), NdArrayType((Dim("n"),))]
    source = emitted(lambda c, x: ops.cond(c, ops.sin, ops.cos, x), *types)
    declared = re.findall(r"^(?:fn|const|var<\w+>|function|class) (\w+)", source, re.MULTILINE)
    assert {"exp_f32", "skip", "MAX_BLOCKS", "to_device", "Recording", "ensure_indices"} <= set(declared)
    own = ("record_", "main")
    unknown = {
        name
        for name in declared
        if not name.startswith(own) and not any(fnmatchcase(name, word) for word in WEBGPU.dialect.reserved)
    }
    assert unknown == set()
