"""Attention by warp groups: tails, packed heads and masks agree with the definition; faults; ptxas; SASS."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from catgrad.backends.cuda.machine import MACHINE

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.errors import ToolError
from catgrad.functors import Expand, reverse
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.nest import Item, Kernel, Loop
from catgrad.loops.ir.steps import AttentionPart
from catgrad.loops.passes.gpu.attention import sizes, warpgroups
from catgrad.loops.passes.gpu.grids import side_by_side
from catgrad.loops.reference import run
from catgrad.ops.attention import Attention
from catgrad.programs.program import evaluate, lower
from catgrad.terms.term import singleton
from catgrad.types import widened
from tests.faults import planted
from tests.kernels import prepared
from tests.unit.cuda import nvcc
from tests.unit.cuda.build import NEEDS_CXX, ORDERS
from tests.unit.cuda.nvcc import NEEDS_NVCC, NEEDS_NVDISASM, kernels, require_clean
from tests.unit.cuda.test_tensor_attention import (
    CUDA,
    arrays_for,
    assert_close,
    attention,
    called,
    emitted,
    exact,
)

CASES = {
    "causal": ("bf16", (2,), 300, 300, 64, True),
    "one tile": ("bf16", (1, 2), 128, 128, 64, True),
    "half": ("f16", (), 129, 129, 128, True),
    "all keys": ("bf16", (2,), 130, 300, 64, False),
    "whole tiles": ("f16", (), 128, 256, 128, False),
    "few keys": ("bf16", (), 100, 20, 64, False),
}
"""The dtype, batch, queries, keys and features of operands, and whether the mask is causal."""


T = Dim("t")


def definition(causal, arrays):
    """Compute attention of the same numbers in float64."""
    wide = [np.asarray(widened(a), np.float64) for a in arrays]
    return evaluate(singleton(Attention(causal), *(NdArrayType(a.shape, Dtype.float64) for a in wide)), *wide)


def fed(artifact):
    """Count the calls that begin products of rows and columns by warp groups: two in a kernel."""
    return str(artifact.files["attention.cu"]).count(" multiply_kept_")


@NEEDS_CXX
@pytest.mark.parametrize("name", CASES)
def test_both_versions_agree_with_the_definition_in_any_order(name, monkeypatch):
    """The output and its reverse, which reads the logarithms of sums that the output's kernel stores."""
    kind, batch, t, s, d, causal = CASES[name]
    dtype = {"bf16": Dtype.bfloat16, "f16": Dtype.float16}[kind]
    term = attention(batch, t, s, d, d, causal, dtype=dtype)
    artifact, arrays = emitted({"f": term}, kind), arrays_for(term, {})
    assert fed(artifact) == 2 * (3 if s > 64 else 2) - (s <= 128)
    model = artifact.load(simulate=True)()
    wanted = exact((d, d, causal, None), arrays)
    for architecture, orders in (("sm_80", ORDERS[:1]), ("sm_90a", ORDERS)):
        monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", architecture)
        bits = set()
        for order in orders:
            monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
            found = called(model.f, arrays)
            assert_close(found, wanted, kind)
            bits.add(b"".join(np.asarray(x).tobytes() for x in found))
        assert len(bits) == 1


def packed(x):
    """Causal attention of two heads that are parts of the rows of one array."""
    parts = (
        ops.permute(ops.reshape(part, 2, 200, 2, 64), 0, 2, 1, 3) for part in ops.split(x, (128,) * 3, -1)
    )
    return ops.reshape(ops.permute(ops.attention(*parts, True), 0, 2, 1, 3), 2, 200, 128)


@NEEDS_CXX
def test_heads_of_a_packed_projection_are_read_where_they_lie():
    term = reverse(build(packed, [NdArrayType((2, 200, 384), Dtype.bfloat16)]))
    artifact, arrays = emitted({"f": term}, "bf16"), arrays_for(term, {})
    text = re.sub(r"\s+", " ", str(artifact.files["attention.cu"]))
    boxes = {places: text.count(f"{{64, 200, 2, 2}}, {{384, 76800, 64}}, {places}}}") for places in (128, 64)}
    assert boxes == {128: 3 + 3 + 2, 64: 1}  # of the output, of the queries and of the keys
    wanted = evaluate(reverse(build(packed, [NdArrayType((2, 200, 384))])), *map(widened, arrays))
    assert_close(called(artifact.load(simulate=True)().f, arrays), wanted, "bf16")


@NEEDS_CXX
@pytest.mark.parametrize(("s", "d", "causal"), [(150, 64, False), (T, 128, True)])
def test_the_number_of_queries_may_be_a_symbol(s, d, causal):
    """Warp groups compute a part, at least, as lengths that symbols are expected to have decide the tiles."""
    term = attention((), T, s, d, d, causal)
    artifact = emitted({"f": term}, "bf16")
    assert fed(artifact) > 0
    model = artifact.load(simulate=True)()
    for length in (1, 70, 193):
        arrays = arrays_for(term, {"t": length})
        assert_close(called(model.f, arrays), exact((d, d, causal, None), arrays), "bf16")


@pytest.mark.parametrize(
    ("t", "s", "d", "causal", "window"),
    [
        (256, 256, 96, True, None),
        (256, 256, 64, True, 100),
        (256, 128, 64, True, None),
        (64, 64, 64, True, None),
        (Dim("t"), Dim("s"), 64, False, None),
    ],
)
def test_other_attention_has_one_version(t, s, d, causal, window):
    assert fed(emitted({"f": attention((2,), t, s, d, d, causal, window)}, "bf16")) == 0


def by_warpgroups(items: list[Item]) -> list[Item]:
    """Choose the versions for warp groups."""
    chosen = []
    for item in items:
        if not isinstance(item, Loop):
            chosen.append(item)
        elif item.axis is Axis.EITHER:
            chosen.append(item.body[-1])
        else:
            chosen.append(replace(item, body=by_warpgroups(item.body)))
    return chosen


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.long)])
def test_the_schedule_means_what_the_step_means(causal, monkeypatch):
    """Tiles of a warp, and heads of eight features, as the interpreter takes its time."""
    monkeypatch.setattr(
        warpgroups,
        "SHAPES",
        {
            (AttentionPart.OUTPUT, 8): (16, 16),
            (AttentionPart.QUERIES, 8): (16, 8),
            (AttentionPart.KEYS, 8): (16, 8),
        },
    )
    monkeypatch.setattr(sizes, "WIDTHS", ((16, 8, 1),))
    monkeypatch.setattr(sizes, "FRAGMENT_BYTES", 16)
    monkeypatch.setattr(side_by_side, "MAX_BLOCKS", 0)
    term = attention((), 24, 24, 8, 8, causal)
    lowered = compile_kernels(prepared(lower(Expand(CUDA.has)(term))), MACHINE)
    steps = [Kernel(by_warpgroups(step.body)) for step in lowered.steps]
    of_blocks = [x for step in steps for x in step.body[0].body if isinstance(x, Loop)]
    assert sum(x.axis is Axis.BLOCK for x in of_blocks) == 3
    arrays = arrays_for(term, {})
    wanted = exact((8, 8, causal, None), arrays)
    assert_close(run(replace(lowered, steps=steps), *arrays), wanted, "bf16")


FAULTS = {
    "no wait for a tile": ("    fed.wait_for_tile(fed.next++);\n", "    fed.next++;\n"),
    "the other parity": ("number / stages % 2);", "number / stages % 2 ^ 1);"),
    "no wait for the queries": ("    wait_for_phase(fed.arrived(), 0);\n", ""),
    "no wait for a free stage": (
        "    wait_for_phase(fed.empty(fed.next), fed.next / fed.stages % 2 ^ 1);\n",
        "",
    ),
    "a tile released early": (
        "arrive_at_barrier(fed.empty(fed.next - pending - done + i))",
        "arrive_at_barrier(fed.empty(fed.next - 1))",
    ),
    "a tile of one consumer": ("fed.empty(i), fed.consumers / 128);", "fed.empty(i), 1);"),
    "fewer bytes": (
        "expect_bytes(fed.full(fed.next), fed.tile_bytes)",
        "expect_bytes(fed.full(fed.next), 16384)",
    ),
    "a producer of all lanes": (" && elect_thread()", ""),
    "no fence": ("    fence_products();\n", ""),
    "no commit": ("    commit_products();\n", ""),
    "scores that are not awaited": ("await_product<1, 1>(fed);", ""),
    "an output that is not awaited": ("await_product<0, 1>(fed);", ""),
    "a tile in another order": ("bring_tile(fed, maps.values, 0,", "bring_tile(fed, maps.values, 128,"),
    "queries of the other consumer": ("threadIdx.x / 128 * 8192", "(1 - threadIdx.x / 128) * 8192"),
    "boxes at the same place": ("tile + box * 2 * rows", "tile"),
    "another offset": ("fed.tile(number), 16384, 1024)", "fed.tile(number), 8192, 1024)"),
    "features of the first box": ("right + i / 4 * 1024 + i % 4 * 2", "right + i % 4 * 2"),
    "weights of other keys": (
        "memcpy(pairs, weights + 8 * i, 16)",
        "memcpy(pairs, weights + 8 * (i ^ 1), 16)",
    ),
    "a turn that other threads have not seen": ("fed.turn(group), 4)", "fed.turn(group), 1)"),
    "a turn that never comes": ("arrive_at_barrier(fed.turn(1 -", "arrive_at_barrier(fed.turn("),
    "too many registers": ("? 232 : 216", "? 240 : 216"),
}
"""Changes of the kernel of the output, and of the functions of the runtime for it."""
REVERSE_FAULTS = {
    "a tile released while another product needs it": (
        "await_product<1, 0>(fed);",
        "await_product<1, 1>(fed);",
    ),
    "tiles that are never released": ("await_product<0, 2>(fed);", "await_product<0, 1>(fed);"),
    "sums that are not awaited": ("await_product<0, 2>(fed);", ""),
    "products that are not awaited": ("await_product<0, 0>(fed);", ""),
    "scores or products that are not awaited": ("await_product<1, 0>(fed);", ""),
    "the other tile": (", of_scores, fed, 2);", ", of_scores, fed, 1);"),
    "a later tile": (", weights, fed, 1);", ", weights, fed, 0);"),
    "the other rows": ("(products, fed, 1);", "(products, fed, 0);"),
    "rows at the same place": ("bring_rows(fed, 1,", "bring_rows(fed, 0,"),
    "bytes of one operand": ("kept * fed.row_bytes", "fed.row_bytes"),
    "rows of the first box": ("left + i / 4 * (8 * rows) + i % 4 * 2", "left + i % 4 * 2"),
    "another offset": ("fed.tile(number), 4096, 1024)", "fed.tile(number), 8192, 1024)"),
    "registers of a block that is alone": ("share_multiprocessor(fed.blocks)", "share_multiprocessor(1)"),
    "too many registers": ("? 232 : 216", "? 232 : 224"),
}
"""Changes of the kernels of the reverse, and of the functions of the runtime for them."""


@NEEDS_CXX
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_an_error_or_gives_other_numbers_in_some_order(fault, monkeypatch):
    assert is_found(*FAULTS[fault], False, monkeypatch)


@NEEDS_CXX
@pytest.mark.parametrize("fault", REVERSE_FAULTS)
def test_a_planted_fault_of_the_reverse_is_found_too(fault, monkeypatch):
    assert is_found(*REVERSE_FAULTS[fault], True, monkeypatch)


def is_found(old, new, is_reverse, monkeypatch):
    """Tell whether a change of one file gives an error or other numbers in some order of threads."""
    term, right = faulty(is_reverse)
    wrong = planted(right, old, new, times=None)
    assert sum(wrong.text(name) != right.text(name) for name in right.files) == 1
    for order in ORDERS:
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        if not is_right(term, wrong):
            return True
    return False


@cache
def faulty(is_reverse):
    """Return attention of three tiles of keys or more, in a ring of fewer stages than products."""
    forward = singleton(Attention(True), *[NdArrayType((300, 128), Dtype.bfloat16)] * 3)
    term = reverse(forward) if is_reverse else forward
    artifact = emitted({"f": term}, "bf16")
    assert is_right(term, artifact)
    return term, artifact


def is_right(term, artifact):
    """Tell whether attention is right, without an error."""
    arrays = arrays_for(term, {})
    wanted = exact((128, 128, True, None), arrays) if len(arrays) > 3 else definition(True, arrays)
    try:
        found = called(artifact.load(simulate=True)().f, arrays)
        assert_close(found if len(wanted) > 1 else [found], wanted, "bf16")
    except (ToolError, AssertionError):
        return False
    return True


# ---- nvcc


def instructions(code):
    """List the instructions of a kernel, without what decides whether they run."""
    return re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?(.*?)\s*;", code)


def overwritten(code):
    """Find instructions that write left factors in registers before products have been awaited."""
    factors, found = set(), []
    for line in instructions(code):
        if product := re.match(r"HGMMA\S*\s+R\d+, R(\d+), gdesc", line):
            factors |= {*range(int(product[1]), int(product[1]) + 4)}
        elif "DEPBAR.LE gsb0, 0x0" in line:
            factors = set()
        elif (target := re.match(r"(?!ST|HGMMA)\S+\s+R(\d+)\b", line)) and int(target[1]) in factors:
            found.append(line)
    return found


def in_flight(code):
    """Find instructions that access sums of products before the groups of these have been awaited."""
    groups, found = [set()], []
    for line in instructions(code):
        if product := re.match(r"HGMMA\.64x(\d+)x\d+\S*\s+R(\d+)", line):
            columns, first = map(int, product.groups())
            groups[-1] |= {*range(first, first + columns // 2)}
            groups += [set()] if "gsb0" in line else []
        elif wait := re.search(r"DEPBAR\.LE gsb0, 0x(\d)", line):
            groups = groups[-1 - int(wait[1]) :]
        elif set().union(*groups) & {*map(int, re.findall(r"\bR(\d+)\b", line))}:
            found.append(line)
    return found


def test_sums_that_are_read_in_flight_are_found():
    products = (
        "HGMMA.64x8x16.F32.BF16 R0, gdesc[UR4], RZ, !UPT, gsb0",
        "HGMMA.64x8x16.F32.BF16 R4, R8, gdesc[UR4], R4, gsb0",
    )
    lines = (*products, "WARPGROUP.DEPBAR.LE gsb0, 0x1", "FADD R9, R3, R3", "FADD R9, R4, R3")
    assert in_flight("".join(f"/*{16 * n:04x}*/ {line} ;\n" for n, line in enumerate(lines))) == [lines[-1]]


@NEEDS_NVCC
@NEEDS_NVDISASM
@pytest.mark.parametrize("options", [(), ("-DNDEBUG",)], ids=["bounded waits", "unbounded"])
def test_scores_are_exponentiated_while_tensor_cores_multiply(options, tmp_path):
    """Two thirds or more between the waits for scores and for the product behind them, without spills.

    The output's kernel has those of its first tile before the loop, too.
    """
    terms = {f"f{d}": attention((8,), 512, 512, d, d, True) for d in (64, 128)}
    emitted(terms, "bf16").write(tmp_path)
    require_clean(nvcc.compiled("attention.cu", tmp_path, "-arch=sm_90a", *options), 6)
    found = {n: code for n, code in kernels(tmp_path / "attention.cubin").items() if "attention_maps" in n}
    counts = []
    for name, code in found.items():
        assert not re.search(r"\b(LDL|STL|HMMA|LDGSTS)\b", code) and "UTMALDG.4D" in code
        assert not overwritten(code) and not in_flight(code)
        assert max(map(int, re.findall(r"\bR(\d+)\b", code))) < 216
        exponentials = code.count("MUFU.EX2") // (2 if "logsumexp" in name else 1)
        _, behind = code.split("WARPGROUP.DEPBAR.LE gsb0, 0x1", 1)
        meanwhile, _ = re.split("WARPGROUP.DEPBAR.LE gsb0, 0x.", behind, maxsplit=1)
        assert meanwhile.count("MUFU.EX2") >= exponentials * 2 / 3
        counts.append((exponentials, len(re.findall(r"HGMMA\S*\s+R\d+, R\d+, gdesc", code))))
    of_output, of_queries, of_keys = (66, 16), {(64, 8), (32, 4)}, {(32, 8), (16, 4)}
    assert Counter(counts) == {of_output: 2} | dict.fromkeys(of_queries | of_keys, 1)
