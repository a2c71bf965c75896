"""Products of emitted C for aarch64, run in QEMU: right in all layouts, and no read beyond an operand."""

from __future__ import annotations

import sys

import jinja2
import pytest
from catgrad.backends.c.machine import PACKING

from benchmarks.neon.build import GCC, QEMU
from tests.c_runtime import FLAGS, ROOT
from tests.conformance.test_c_builds import NEEDS_QEMU, NEEDS_ZIG
from tests.unit.c.build import built, run

DOTS = "-march=armv8.2-a+dotprod"
CLANG = (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu")
"""GCC links what it compiles, as ziglang would build a C library first."""
NEEDS_GCC = pytest.mark.skipif(not GCC.is_installed(), reason=f"{GCC.absence()}; {GCC.install}")
BUILDS = {
    "gcc": (None, "-O3"),
    "gcc, dot products": (None, "-O3", DOTS),
    "gcc, unoptimised dot products": (None, "-O0", DOTS),
    "gcc, higher tiles": (None, "-O1", "-DGEMM_HEIGHT=10"),
    "clang": (CLANG, "-O1"),
    "clang, dot products": (CLANG, "-O1", "-mcpu=generic+dotprod"),
}
"""A compiler, or that of GCC, and flags."""
REPEATED = ("gcc, unoptimised dot products", "gcc, higher tiles", "clang")
"""Builds of what others have too, by other instructions."""


def marked(name):
    needs = [NEEDS_GCC, NEEDS_ZIG] if name.startswith("clang") else [NEEDS_GCC]
    return pytest.param(name, marks=[*needs, *([pytest.mark.long] if name in REPEATED else [])])


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    loader = jinja2.FileSystemLoader([ROOT / "templates" / "c", ROOT / "tests" / "conformance"])
    environment = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    used = {"gemm_f32", "gemm_f64", "gemm_i8", "gemm_nested_i8"}
    path = tmp_path_factory.mktemp("aarch64") / "products.c"
    path.write_text(
        environment.get_template("aarch64_products.c.j2").render(used=used, packing=PACKING) + "\n"
    )
    return path


@NEEDS_QEMU
@pytest.mark.parametrize("build", [*map(marked, BUILDS)])
def test_products_are_exact_on_whole_numbers(source, build):
    compiler, *flags = BUILDS[build]
    flags = [*FLAGS, "-ffp-contract=fast", *flags]
    built(*(compiler or GCC.command()), *flags, "-c", source.name, "-o", "products.o", cwd=source.parent)
    built(*GCC.command(), "-static", "products.o", "-lm", "-o", "products", cwd=source.parent)
    done = run(*QEMU.command(), "-cpu", "max", source.parent / "products")
    assert done.stdout == "right\n", (done.stdout, done.stderr)
