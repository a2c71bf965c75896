"""Instructions in QEMU: a log is counted exactly, and a program that is wrong is an error."""

from __future__ import annotations

from importlib import import_module

import pytest

from benchmarks.neon import build
from benchmarks.neon.build import executed
from benchmarks.neon.libraries import KLEIDIAI
from benchmarks.records import Row
from catgrad.errors import ToolError, VerificationError

LOG = """----------------
IN: main
0x00400844:  a9b67bfd  stp      x29, x30, [sp, #-0xa0]!
0x00400848:  910003fd  mov      x29, sp

Trace 0: 0x7f67e4 [0000000001009331/0000000000400844/00000001/00000200] main
----------------
IN: main
0x0040084c:  b5ffffe1  cbnz     x1, #0x40084c

Trace 0: 0x7f67e5 [0000000001009331/000000000040084c/00000001/00000200] main
Trace 0: 0x7f67e5 [0000000001009331/000000000040084c/00000001/00000200] main
Trace 0: 0x7f67e4 [0000000001009331/0000000000400844/00000001/00000200] main
""".splitlines()
MISSING = build.GCC.missing() or build.QEMU.missing()
NEEDS_TOOLS = pytest.mark.skipif(bool(MISSING), reason=str(MISSING))


def test_a_block_counts_as_often_as_it_is_executed():
    assert executed(LOG) == 2 * 2 + 2 * 1


@NEEDS_TOOLS
def test_a_multiplication_of_a_tile_takes_less_than_an_instruction(tmp_path):
    """A vector has four: a quarter at least, and a processor's loads and loops."""
    program = build.catgrad(tmp_path / "catgrad", "-O1")
    found = build.instructions(program, ["f", "NN", "16", "16", "64"], 1e-6)
    assert 0.25 <= found["product"] / (16 * 16 * 64) < 1
    assert found["packing"] < 50


@NEEDS_TOOLS
def test_a_wrong_product_is_an_error(tmp_path):
    (tmp_path / "wrong.c").write_text(
        '#include "product.h"\n'
        "void pack(const product *x) { (void)x; }\nvoid multiply(const product *x) { (void)x; }\n"
        "double result(const product *x, ptrdiff_t i, ptrdiff_t j) { return (double)(x->m + i + j); }\n"
    )
    program = build.linked(tmp_path, [tmp_path / "wrong.c"], [])
    with pytest.raises(VerificationError, match="same product"):
        build.instructions(program, ["f", "NN", "4", "4", "4"], 1e-6)


def test_a_library_must_have_its_commit(tmp_path):
    with pytest.raises(ToolError, match=KLEIDIAI.commit[:7]):
        KLEIDIAI.require(tmp_path)


def test_the_table_has_a_dash_where_nothing_was_packed_before():
    neon = import_module("benchmarks.neon.__main__")
    row = Row("int8", {"catgrad": {"product": 0.12}, "KleidiAI": {"product": 0.09, "packing": 0.17}})
    assert "| int8 | 0.120 | – | KleidiAI | 0.090 | 0.170 |" in neon.tables([row])[0]
