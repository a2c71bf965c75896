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


def declared(source):
    return set(re.findall(r"^(?:fn|const|var<\w+>|function|class) (\w+)", source, re.MULTILINE))


def test_names_of_the_runtime_are_reserved():
    def every(c, seed, x, n, m):
        waves = ops.cond(c, ops.sin, ops.cos, x)
        floats = [f(x) for f in (ops.exp, ops.erf, ops.log1p, ops.expm1, ops.tanh, ops.sign, ops.is_finite)]
        floats += [f(x, waves) for f in (ops.fmod, ops.power, ops.minimum, ops.maximum)]
        whole = [f(k, k) for k in (n, m) for f in (ops.floor_divide, ops.remainder)]
        whole += [f(k, k) for k in (n, m) for f in (ops.shift_left, ops.shift_right)]
        sums = [f(each, (0,)) for each in (x, n, m) for f in (ops.sum, ops.max)]
        casts = [ops.cast(x, dtype) for dtype in (Dtype.int32, Dtype.uint32)]
        return (*floats, *whole, *sums, *casts, ops.random_uniform((3,), 1, seed, seed), x <= 1)

    of = [NdArrayType((Dim("n"),), dtype) for dtype in (Dtype.float32, Dtype.int32, Dtype.uint32)]
    names = declared(emitted(every, NdArrayType((), Dtype.bool), NdArrayType((), Dtype.int64), *of))
    assert {"exp_f32", "skip", "MAX_BLOCKS", "to_device", "Recording", "ensure_indices", "quarter"} <= names
    own = ("record_", "main")
    unknown = {
        name
        for name in names
        if not name.startswith(own) and not any(fnmatchcase(name, word) for word in WEBGPU.dialect.reserved)
    }
    assert unknown == set()


def test_a_kernel_is_compiled_with_the_functions_that_the_program_calls():
    functions = {"exp_f32", "log_f32", "erf_f32", "quarter", "fmod_f32", "block_add_f32", "parts_f32"}
    assert not functions & declared(emitted(lambda x: x + 1, NdArrayType((3,))))
    assert functions & declared(emitted(ops.log1p, NdArrayType((3,)))) == {"log_f32"}
