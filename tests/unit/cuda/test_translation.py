"""CUDA as C++ for the simulator: translation of launches and dynamic arrays, and compilation."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import pytest
from catgrad.backends.c.compiler import shared_library
from catgrad.backends.cuda_simulator import TOOLCHAIN, library, translate

from catgrad.errors import TextError, ToolError
from tests.unit.cuda.build import NEEDS_CXX

pytestmark = NEEDS_CXX


@pytest.mark.parametrize(
    ("cuda", "cpp"),
    [
        ("k<<<1, 2>>>(x);", "SIMULATOR_LAUNCH(k, 1, 2)(x);"),
        (
            "k <<<\n f(a >> 1, (b)), c[d]\n>>> (x,\ny);",
            "SIMULATOR_LAUNCH(k, \n f(a >> 1, (b)), c[d]\n) (x,\ny);",
        ),
        (
            "k<<<g, b>>>(h(1)); l<<<g, b>>>();",
            "SIMULATOR_LAUNCH(k, g, b)(h(1)); SIMULATOR_LAUNCH(l, g, b)();",
        ),
        ("k /* <<<1, 2>>> */ <<<1, 2>>>();", "SIMULATOR_LAUNCH(k, /* <<<1, 2>>> */ 1, 2)();"),
        ("extern __shared__ T x[];", "T *const x = (T *)::simulator::dynamic_shared;"),
        (
            "extern __shared__ __align__(16)\n unsigned char x[];",
            "unsigned char *const x = (unsigned char *)::simulator::dynamic_shared\n;",
        ),
        ("__shared__ alignas(16) float x[2];", "__shared__ __align__(16) float x[2];"),
    ],
)
def test_launches_and_dynamic_arrays_are_translated(cuda, cpp):
    assert re.sub(r" +", " ", translate(cuda)) == re.sub(r" +", " ", cpp)
    assert translate(cuda).count("\n") == cuda.count("\n")


@pytest.mark.parametrize(
    "source",
    [
        "// k<<<1, 2>>>(x)\n",
        '"k<<<1, 2>>>(x)" R"(k<<<1, 2>>>(x))" R"mark()" k<<<1>>>(x))mark"',
        "'<' \"\\\"<<<\" a << b >> c; 1'000 << 2",
        'extern "C" int f(int); extern int x[];',
        'extern "C" { __global__ void k() { __shared__ float x[4]; } }',
        "#define ADD(a, b) \\\n  ((a) + (b))\n/* extern __shared__ float x[]; */",
        "alignas(16) __shared__ float x[2]; struct alignas(16) S {};",
        "unterminated \" ' /* é",
    ],
)
def test_all_else_stays_as_it_is(source):
    assert translate(source) == source


@pytest.mark.parametrize(
    "source", ["<<<1, 2>>>(x);", "\n\nk<int><<<1, 2>>>(x);", "k<<<1, 2;", "k<<<1, 2)>>>(x)"]
)
def test_a_launch_names_a_kernel_and_ends(source):
    with pytest.raises(TextError, match=rf"line {source.count(chr(10)) + 1}\b"):
        translate(source)


def test_an_error_of_the_compiler_names_the_line_of_the_source(tmp_path, monkeypatch):
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path))
    source = "#include <cuda_runtime.h>\n__global__ void k(int *x) {\n    x[0] = nothing;\n}\n"
    with pytest.raises(ToolError, match=r"bad\.cu:3:\d+: error: .*nothing"):
        library({"bad.cu": source}, "bad.cu", "bad")


def test_headers_of_the_simulator_are_part_of_what_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "headers").mkdir()
    header = tmp_path / "headers/answer.h"
    toolchain = replace(TOOLCHAIN, headers=header.parent)
    answers = []
    for answer in (1, 2):
        header.write_text(f"#define ANSWER {answer}\n")
        files = {"x.cu": '#include <answer.h>\nextern "C" int answer() { return ANSWER; }\n'}
        path = shared_library("x", files, "x.cu", ["-x", "c++"], toolchain)
        answers.append(ctypes.CDLL(str(path)).answer())
    assert answers == [1, 2]


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolError, match=r"there is no C\+\+ compiler: \$CXX is 'no-such-compiler'"):
        library({"x.cu": ""}, "x.cu", "x")
