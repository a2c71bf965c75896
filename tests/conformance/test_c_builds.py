"""Emitted C built by several compilers, for several machines, with sanitizers and with threads."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, ops
from catgrad import build as build_term
from tests.conformance.c_calls import library
from tests.conformance.c_models import MODELS, Written, parsed, written
from tests.covering import some
from tests.unit.c.build import NEEDS_C, SANE, STRICT, built, run
from tests.unit.c.watched import FLAGS as WATCHED
from tests.unit.c.watched import NEEDS_WATCHER, assert_no_race, compiler

STEPS, TOLERANCE = 3, 1e-5
FLAGS = ["-std=c11", "-fno-math-errno", "-fno-trapping-math", *STRICT]
SIMD = "-fopenmp-simd"
SMALL_PRODUCTS = "-DGEMM_PARALLEL_FLOPS=1e3"  # so that threads share products of small models too
CBLAS = Path(__file__).parent / "cblas"
WASI = Path(__file__).parent / "c_wasi.mjs"

pytestmark = NEEDS_C
NEEDS_GCC = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc on this machine")
NEEDS_ZIG = pytest.mark.skipif(
    not importlib.util.find_spec("ziglang"),
    reason="ziglang, the compiler for other machines, is not installed",
)
NEEDS_NODE = pytest.mark.skipif(not shutil.which("node"), reason="no node on this machine")
QEMU = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
NEEDS_QEMU = pytest.mark.skipif(not QEMU, reason="no qemu-aarch64 on this machine (Debian: qemu-user)")
NEEDS_VALGRIND = pytest.mark.skipif(
    not shutil.which("valgrind") or not Path("/usr/include/valgrind/memcheck.h").exists(),
    reason="no valgrind on this machine, or not its header",
)


REPEATED = {"double_mlp"}
"""Models whose kernels are those of others, in another dtype."""


@pytest.fixture(
    scope="module",
    params=some(MODELS, MODELS.keys() - REPEATED),
)
def model(request, tmp_path_factory) -> Written:
    return written(request.param, tmp_path_factory.mktemp(request.param))


def build(model: Written, *flags: str, to: str = "program", compiler: tuple[str, ...] = ("gcc",)) -> Path:
    files = ["main.c", f"{model.name}.c", "-o", to, "-lm"]
    built(*compiler, *FLAGS, *flags, *files, cwd=model.folder)
    return model.folder / to


def output(*command, **environment: str) -> str:
    done = run(*command, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_right(model: Written, text: str) -> None:
    found = parsed(text)
    assert found.keys() == model.wanted.keys()
    for name, wanted in model.wanted.items():
        np.testing.assert_allclose(found[name], wanted, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


@NEEDS_GCC
def test_no_sanitizer_reports(model):
    assert_right(model, output(build(model, "-O0", SIMD, *SANE), STEPS))


@NEEDS_GCC
@NEEDS_VALGRIND
def test_no_undefined_numbers_and_no_heap(model):
    """The only allocation is the buffer of the standard output."""
    program = build(model, "-O0", "-g", SIMD, "-DWITH_VALGRIND")
    done = run("valgrind", "--error-exitcode=9", program, STEPS)
    assert done.returncode == 0, done.stderr
    assert "total heap usage: 1 allocs, 1 frees" in done.stderr
    assert_right(model, done.stdout)


@NEEDS_GCC
def test_results_do_not_depend_on_threads(model):
    """Tolerance of numbers printed with nine digits, which distinguish all floats."""
    fast = ["-O1", "-march=native", "-ffp-contract=fast"]
    alone = output(build(model, *fast, SIMD), STEPS)
    assert_right(model, alone)
    shared = build(model, *fast, "-fopenmp", SMALL_PRODUCTS, to="shared")
    for threads in "123":
        assert output(shared, STEPS, OMP_NUM_THREADS=threads) == alone


@NEEDS_WATCHER
def test_no_data_race(model):
    files = ["main.c", f"{model.name}.c", "-o", "watched", "-lm"]
    built(compiler(), *WATCHED, SMALL_PRODUCTS, *files, cwd=model.folder)
    assert_right(model, assert_no_race(model.folder / "watched", STEPS))


ZIG = (sys.executable, "-m", "ziglang", "cc")


@pytest.mark.covering
@NEEDS_ZIG
@pytest.mark.parametrize("machine", ["aarch64-linux-musl", "x86_64-windows-gnu"])
def test_cross_compiled_programs(model, machine):
    for source in (f"{model.name}.c", "main.c"):
        flags = ["-O0", SIMD, "-target", machine]
        built(*ZIG, *FLAGS, *flags, "-c", source, "-o", "out.o", cwd=model.folder)


NATIVE = {
    "without extensions of C11": ("-O1", "-DGEMM_SCALAR"),
    "a cblas": (
        "-O1",
        SIMD,
        "-DMODEL_USE_CBLAS",
        "-DGEMM_CBLAS_FLOPS=0",
        "-Wno-unused-function",
        f"-I{CBLAS}",
    ),
}
NEON = ("-O2", SIMD, "-ffp-contract=fast", "-static", "-target", "aarch64-linux-musl")
WEBASSEMBLY = {
    "vectors of WebAssembly": ("-O2", "-msimd128", SIMD, "-target", "wasm32-wasi", "-Wl,--strip-all"),
    "WebAssembly": ("-O1", "-DGEMM_SCALAR", SIMD, "-target", "wasm32-wasi"),
}


def run_by_node(program: Path) -> str:
    printed = program.with_name("printed.txt")  # no pipe, for Node.js drops what is written to a full one
    with printed.open("w") as file:
        subprocess.run(["node", "--no-warnings", WASI, program, str(STEPS)], stdout=file, check=True)
    return printed.read_text()


WAYS = [
    *(pytest.param("gcc", flags, id=name, marks=NEEDS_GCC) for name, flags in NATIVE.items()),
    *(
        pytest.param("node", flags, id=name, marks=[NEEDS_ZIG, NEEDS_NODE, *long])
        for name, flags in WEBASSEMBLY.items()
        for long in [[pytest.mark.long] * (name == "WebAssembly")]
    ),
    pytest.param("qemu", NEON, id="neon", marks=[NEEDS_ZIG, NEEDS_QEMU]),
]
"""Programs that run others, and flags of compilers.

For each processor, ziglang builds a standard library, with symbols or, as for the target wasm, without.
"""


@pytest.mark.covering
@pytest.mark.parametrize(("runner", "flags"), WAYS)
def test_builds_compute_the_same(model, runner, flags):
    program = build(model, *flags, to=runner, compiler=("gcc",) if runner == "gcc" else ZIG)
    if runner == "node":
        assert_right(model, run_by_node(program))
    else:
        assert_right(model, output(*([QEMU] if runner == "qemu" else []), program, STEPS))


COMPILERS = [
    pytest.param(("gcc",), marks=NEEDS_GCC, id="gcc"),
    pytest.param(ZIG, marks=NEEDS_ZIG, id="clang"),
]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("op", "type"),
    [
        (ops.negate, NdArrayType((3,), Dtype.int64)),
        (ops.argsort, NdArrayType((3,), Dtype.int64)),
        (ops.softmax, NdArrayType((Dim("n"), Dim("m")))),
    ],
)
def test_no_warnings_of_one_operation(tmp_path, compiler, op, type):
    """Emit only the helpers that are called."""
    library("one", [build_term(op, [type])]).write(tmp_path)
    built(*compiler, *FLAGS, SIMD, "-c", "one.c", "-o", "out.o", cwd=tmp_path)


def test_builders_define_the_macros_that_the_source_tests(tmp_path):
    model = written("mlp", tmp_path)
    source = (tmp_path / f"{model.name}_runtime.h").read_text()
    builders = [(tmp_path / name).read_text() for name in ("Makefile", "CMakeLists.txt")]
    for defined in (r"-D(\w+)", r"target_compile_definitions\(\w+ PRIVATE (\w+)\)"):
        names = re.findall(defined, "".join(builders))
        assert names
        for name in names:
            assert re.search(rf"#ifn?def {name}\n", source), name
