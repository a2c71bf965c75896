"""Cached builds of projects by CMake."""

import ctypes

from catgrad.backends.c.cmake import library
from catgrad.backends.ggml.tools import GGML

from tests.ggml import NEEDS_GGML

PROJECT = """cmake_minimum_required(VERSION 3.16)
project(number CXX)
add_library(number SHARED number.cpp)
"""


@NEEDS_GGML
def test_a_library_is_built_anew_with_other_flags(tmp_path, monkeypatch):
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path))
    files = {"CMakeLists.txt": PROJECT, "number.cpp": 'extern "C" int number(void) { return NUMBER; }\n'}
    for number in (1, 2, 1):
        monkeypatch.setenv("CXXFLAGS", f"-DNUMBER={number}")
        assert ctypes.CDLL(library("number", files, GGML)).number() == number
