"""The runtime of emitted C as a library: its functions over arrays, and its products of matrices."""

import ctypes
import math
import shutil
from pathlib import Path

import jinja2
import numpy as np
from catgrad.backends.c.compiler import Toolchain, shared_library
from catgrad.backends.c.machine import PACKING

from catgrad.tools import Executable

GCC = shutil.which("gcc")
ROOT = Path(__file__).parents[1]
FLAGS = ["-std=c11", "-fno-math-errno", "-fno-trapping-math"]
FLAGS += ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]
SHARED = ["-fopenmp", "-DGEMM_PARALLEL_FLOPS=0"]
TILES = ["-DGEMM_HEIGHT=10", "-DGEMM_DEPTH=48", "-DGEMM_COLUMNS=192"]
LEAST_TILES = ["-DGEMM_HEIGHT=4", "-DGEMM_DEPTH=16", "-DGEMM_COLUMNS=64", "-DGEMM_FAR=4096"]
BUILDS = {
    "native": ["-O3", "-march=native", *SHARED, "-ffp-contract=fast"],
    "other tiles": ["-O1", "-march=native", "-ffp-contract=fast", *TILES],
    "least tiles": ["-O1", "-march=native", *SHARED, "-ffp-contract=fast", *LEAST_TILES],
    "baseline": ["-O2", "-fopenmp-simd", "-DGEMM_HEIGHT=4"],
    "scalar": ["-O1", "-DGEMM_SCALAR"],
}


def sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


MAPS = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "erf": np.vectorize(math.erf, otypes=[float]),
    "sin": np.sin,
    "cos": np.cos,
}
USED = [f"{name}_f32" for name in (*MAPS, "maximum", "minimum", "sign")]
USED += ["near_sin_f32", "near_cos_f32", "pow_f32"]
USED += ["maximum_f64", "minimum_f64", "sign_f64", "sigmoid_f64", "gemm_f32", "gemm_f64"]
USED += ["gemm_nested_f32", "gemm_nested_f64"]
USED += ["gemm_packed_f32", "gemm_packed_f64", "f16_to_f32", "f32_to_f16", "bf16_to_f32", "f32_to_bf16"]


def compiled_runtime(build):
    """Compile the runtime by the flags of a build, unless it is cached: the native one takes 15 seconds."""
    loader = jinja2.FileSystemLoader([ROOT / "templates" / "c", ROOT / "tests" / "unit" / "c"])
    environment = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.get_template("functions.c.j2").render(
        used=set(USED), names=USED, inline="static inline", packing=PACKING
    )
    gcc = Executable(name="GCC", names=("gcc",), install="apt install gcc")
    toolchain = Toolchain(language="C", compiler=gcc, flags=(*FLAGS, *BUILDS[build]))
    return ctypes.CDLL(shared_library("runtime", {"runtime.c": text}, "runtime.c", toolchain=toolchain))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)
