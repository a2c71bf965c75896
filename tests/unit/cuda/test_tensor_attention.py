"""Attention on tensor cores: tiles of any sizes agree with the definition, in any order of threads."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from catgrad.backends.cuda.machine import MACHINE
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.functors import Expand, reverse
from catgrad.loops.compile import canonical, compile_kernels
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import index
from catgrad.loops.ir.nest import Store, Substituted, loops, statements
from catgrad.loops.ir.scalar import Masked
from catgrad.loops.ir.steps import Attend
from catgrad.loops.passes.gpu.attention import sizes as attention_sizes
from catgrad.loops.passes.gpu.attention.sizes import MAX_SUMS, sizes
from catgrad.loops.passes.gpu.products.ring import RING_BYTES
from catgrad.loops.reference import run
from catgrad.ops.attention import Attention, shared_heads
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.term import singleton
from catgrad.testing import draw_arrays
from catgrad.types import widened
from tests.covering import some
from tests.kernels import prepared
from tests.targets import UNSHRUNK
from tests.unit.cuda import nvcc
from tests.unit.cuda.build import NEEDS_CXX, ORDERS
from tests.unit.cuda.nvcc import NEEDS_NVCC, NEEDS_NVDISASM, kernels, require_clean

CUDA = get_backend("cuda")
B, T, S = Dim("b"), Dim("t"), Dim("s")
DTYPES = {
    "bf16": (Dtype.bfloat16, 2**-6),
    "f16": (Dtype.float16, 2**-9),
    "tf32": (Dtype.float32, 2**-9),
    "bf16x6": (Dtype.float32, 2**-20),
}
"""Dtypes of 16 bits, and options `math` for float32; the greatest errors, relative to the greatest number
of a result, or to 1."""
MATHS = some(DTYPES, DTYPES.keys() - {"f16"})
KINDS = [
    (64, 64, False, None),
    (64, 64, True, None),
    (16, 5, True, None),
    (72, 33, False, None),
    (128, 128, True, None),
    (72, 33, True, 20),
    (32, 32, True, 1),
    (64, 96, True, 100),
]
LENGTHS = st.integers(1, 200)


def kinds_of(math):
    """Return all kinds for bfloat16, and for others those with the least and the greatest sizes of heads."""
    return KINDS if math == "bf16" else KINDS[2:6]


def attention(b, t, s, d, e, causal=False, window=None, dtype=Dtype.bfloat16):
    """Attention and its reverse, as one term."""
    types = (NdArrayType(shape, dtype) for shape in ((*b, t, d), (*b, s, d), (*b, s, e)))
    return reverse(singleton(Attention(causal, window), *types))


def emitted(terms, kind):
    functions = tuple(lower(Expand(CUDA.has)(term), name) for name, term in terms.items())
    math = kind if DTYPES[kind][0] is Dtype.float32 else "float32"
    return CUDA.configured(math=math).emit(Program("attention", functions))


@cache
def compiled(kind):
    """Functions with symbolic sizes, one for each kind of attention."""
    dtype, kinds = DTYPES[kind][0], kinds_of(kind)
    terms = {
        f"f{n}": attention((B,), T, S if each[3] is None else T, *each, dtype) for n, each in enumerate(kinds)
    }
    model = emitted(terms, kind).load(simulate=True)()
    return {each: (terms[f"f{n}"], getattr(model, f"f{n}")) for n, each in enumerate(kinds)}


def arrays_for(term, sizes, seed=0):
    return draw_arrays([type.substitute(sizes) for type in term.source.table], (-1.0, 1.0), seed)


def exact(each, arrays):
    """Compute attention and its reverse from the same numbers in float64."""
    arrays = [np.asarray(widened(a), np.float64) for a in arrays]
    types = (NdArrayType(a.shape, Dtype.float64) for a in arrays[:3])
    return evaluate(reverse(singleton(Attention(*each[2:]), *types)), *arrays)


def assert_close(found, wanted, kind):
    for x, y in zip(found, wanted, strict=True):
        error = np.abs(np.asarray(widened(np.asarray(x)), np.float64) - y).max(initial=0)
        assert error <= DTYPES[kind][1] * max(1, np.abs(y).max(initial=0))


def called(function, arrays):
    return function(*(widened(a) if a.dtype.name == "bfloat16" else a for a in arrays))


@NEEDS_CXX
@pytest.mark.parametrize("kind", MATHS)
@settings(max_examples=8, phases=UNSHRUNK)
@given(st.integers(0, 7), LENGTHS, LENGTHS, st.integers(1, 2), st.integers(0, 9))
def test_tiles_of_any_sizes_agree_with_the_definition(kind, number, t, s, b, seed):
    each = kinds_of(kind)[number % len(kinds_of(kind))]
    term, function = compiled(kind)[each]
    arrays = arrays_for(term, {"b": b, "t": t, "s": s}, seed)
    assert_close(called(function, arrays), exact(each, arrays), kind)


@NEEDS_CXX
@pytest.mark.parametrize("kind", MATHS)
def test_orders_of_threads_give_the_same_bits(kind, monkeypatch):
    term, function = compiled(kind)[72, 33, True, 20]
    arrays = arrays_for(term, {"b": 2, "t": 90})
    runs = []
    for order in (*ORDERS, "forward"):
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        runs.append([np.asarray(x).tobytes() for x in called(function, arrays)])
    assert all(each == runs[0] for each in runs)


@NEEDS_CXX
def test_tiles_before_the_window_are_not_read():
    """A weight of 0 times NaN would be NaN; rows of a block have the first key in their tile, others not."""
    term, function = compiled("bf16")[32, 32, True, 1]
    q, k, v, dy = arrays_for(term, {"b": 1, "t": 200})
    v[:, 0] = np.nan
    found = called(function, (q, k, v, dy))[0]
    np.testing.assert_array_equal(np.asarray(found)[:, 128:], widened(v)[:, 128:])


def packed_heads(x):
    """Attention of four heads, of which two share keys and values, that are parts of one array."""
    parts = zip(ops.split(x, (32, 16, 16), -1), (4, 2, 2), strict=True)
    heads = (ops.permute(ops.reshape(part, 2, 48, n, 8), 0, 2, 1, 3) for part, n in parts)
    q, k, v = (shared_heads(head, 4) for head in heads)
    return ops.reshape(ops.permute(ops.attention(q, k, v, True), 0, 2, 1, 3), 2, 48, 32)


@NEEDS_CXX
def test_packed_projections_and_shared_keys_are_copied_from_where_they_lie():
    term = reverse(build(packed_heads, [NdArrayType((2, 48, 64), Dtype.bfloat16)]))
    artifact = emitted({"f": term}, "bf16")
    text = str(artifact.files["attention.cu"])
    copies = re.findall(r"copy_async<16>\(\s*(\w+)_tile[^,]*,\s*(\w+) ", text.partition("\n}\n")[0])
    assert copies == [("queries", "x0"), ("keys", "x0"), ("values", "x0")]
    arrays = arrays_for(term, {})
    found, wide = called(artifact.load(simulate=True)().f, arrays), Dtype.float64
    exact_term = reverse(build(packed_heads, [NdArrayType((2, 48, 64), wide)]))
    assert_close(found, evaluate(exact_term, *(np.asarray(widened(a), np.float64) for a in arrays)), "bf16")


@NEEDS_CXX
def test_under_a_causal_mask_blocks_with_most_tiles_come_first():
    """The first blocks have the last queries, or the first keys, of all heads."""
    each = (64, 64, True, None)
    term = attention((2,), 300, 300, *each)
    artifact = emitted({"f": term}, "bf16")
    firsts = re.findall(
        r"const int (\w+_tile\w*) = block / (\d+) \* 128;", str(artifact.files["attention.cu"])
    )
    assert firsts == [("query_tile_from_last", "2")] * 2 + [("key_tile", "2")]
    arrays = arrays_for(term, {})
    assert_close(called(artifact.load(simulate=True)().f, arrays), exact(each, arrays), "bf16")


def masks(items):
    """Return the statements among items that mask scores."""
    return [
        s
        for s in statements(items)
        if isinstance(s, Store) and isinstance(s.scalar, Masked) and s.buffer.name == "scores"
    ]


def masked_kernels(term):
    """Return the kernels of the output, and of the cotangents of queries and of keys."""
    steps = compile_kernels(prepared(lower(Expand(CUDA.has)(term))), MACHINE).steps
    return [kernel for kernel in steps if masks(kernel.body)]


@pytest.mark.parametrize(("window", "counts"), [(None, [2, 2, 2]), (20, [4, 4, 3])])
def test_only_tiles_at_an_edge_are_masked(window, counts):
    """Masks at the diagonal, the end and edges of a window have a condition each, alike for all threads."""
    kernels = masked_kernels(attention((), T, T, 64, 64, True, window))
    assert [len(masks(kernel.body)) for kernel in kernels] == counts
    for kernel in kernels:
        tiles = [loop for loop in loops(kernel.body) if loop.variable.extent == 1 and loop.conditions]
        assert [s for loop in tiles for s in masks(loop.body)] == masks(kernel.body)
        threads = {loop.variable for loop in loops(kernel.body) if loop.axis is Axis.THREAD}
        assert all(threads.isdisjoint(c.index.variables()) for loop in tiles for c in loop.conditions)


def test_no_tile_beyond_the_diagonal_is_fetched():
    """The next tile is fetched on the condition on which it will be multiplied."""
    output, queries, _ = masked_kernels(attention((), 256, 256, 64, 64, True))
    for kernel in (output, queries):
        slices = [loop for loop in loops(kernel.body) if loop.variable.name == "slice"]
        nested = [(tiles, later) for tiles in slices for later in loops(tiles.body)]
        [(tiles, later)] = [pair for pair in nested if pair[1].variable.name == "later"]
        after = Substituted({tiles.variable: index(tiles.variable) + tiles.variable.step})
        assert later.conditions == tuple(map(after.bounds, tiles.conditions)) != ()
        copies = [loop for loop in loops(tiles.body) if loop.axis is Axis.COPY]
        assert copies == [loop for loop in loops(later.body) if loop.axis is Axis.COPY] != []


BUGS = {
    "no wait": ("wait_for_copies<0>();", ""),
    "no barrier": ("__syncthreads();", ""),
    "no diagonal": ("if (-slice - query_tile_from_last + 65 < 0)", "if (false)"),
    "diagonal too late": (
        "if (-slice - query_tile_from_last + 65 < 0)",
        "if (-slice - query_tile_from_last + 129 < 0)",
    ),
    "fetch too late": ("+ 191)", "+ 127)"),
    "too early": ("(slice / 64 + 1) % 2", "(slice / 64 + 2) % 2"),
    "no exchange": ("lanes_maximum_f32(best[query * 2 + query_1])", "best[query * 2 + query_1]"),
}
"""Changes of kernels; the third one overwrites the tile that is multiplied."""


@NEEDS_CXX
@pytest.mark.parametrize("bug", some(BUGS, ["no wait", "too early", "diagonal too late"]))
def test_a_bug_gives_other_numbers(bug):
    each = (32, 32, True, None)  # warp groups compute those of 64
    term = attention((), 200, 200, *each)
    artifact, (part, instead) = emitted({"f": term}, "bf16"), BUGS[bug]
    text = str(artifact.files["attention.cu"])
    assert part in text
    artifact.files["attention.cu"] = text.replace(part, instead)
    arrays = [a * 8 for a in arrays_for(term, {})]
    with pytest.raises(AssertionError):
        assert_close(called(artifact.load(simulate=True)().f, arrays), exact(each, arrays), "bf16")


# ---- kernels


@pytest.mark.long
@pytest.mark.parametrize("window", [None, 3])
def test_schedules_mean_what_the_steps_mean(window, monkeypatch):
    """Tiles of one warp, of few features, as the interpreter takes its time."""
    monkeypatch.setattr(attention_sizes, "WIDTHS", ((32, 16, 2),))
    monkeypatch.setattr(attention_sizes, "FRAGMENT_BYTES", 32)
    term = attention((), 19, 19, 4, 1, True, window)
    function, arrays = prepared(lower(Expand(CUDA.has)(term))), arrays_for(term, {})
    wanted = exact((4, 1, True, window), arrays)
    assert_close(run(canonical(function, MACHINE), *arrays), wanted, "bf16")
    assert_close(run(compile_kernels(function, MACHINE), *arrays), wanted, "bf16")


@pytest.mark.parametrize("kind", DTYPES)
def test_tiles_of_all_head_sizes_fit(kind):
    dtype, _ = DTYPES[kind]
    for d in (1, 32, 64, 80, 96, 128):
        for t in (8, 64, 1000, T):
            term = attention((), t, t, d, d, dtype=dtype)
            steps = canonical(prepared(lower(Expand(CUDA.has)(term))), MACHINE).steps
            for step in (step for step in steps if isinstance(step, Attend)):
                found = sizes(step, dtype)
                assert found.feature % 16 == found.column % 16 == found.rows % found.columns == 0
                assert found.fragments * found.feature // 2 <= MAX_SUMS[found.fragments]
                assert found.rows * (found.feature + found.padding) * dtype.itemsize <= RING_BYTES


INSTRUCTIONS = {
    "bf16": ("STG.E.64", "HMMA.16816.F32.BF16", "LDSM.16.M88.4", "LDSM.16.MT88.4"),
    "tf32": ("STG.E.128", "HMMA.1688.F32.TF32", "LDSM.16.M88.4"),
    "bf16x6": ("STG.E.128", "HMMA.16816.F32.BF16", "LDSM.16.M88.4"),
}
"""Stores of results, products, and loads of fragments; ordinary loads transpose elements of 32 bits."""


@NEEDS_NVCC
@NEEDS_NVDISASM
@pytest.mark.parametrize("architecture", [pytest.param("sm_80", marks=pytest.mark.long), "sm_90a"])
@pytest.mark.parametrize("kind", INSTRUCTIONS)
def test_kernels_load_and_multiply_by_instructions_of_tensor_cores_without_spills(
    kind, architecture, tmp_path
):
    terms = {f"f{d}": attention((8,), 512, 512, d, d, True, dtype=DTYPES[kind][0]) for d in (32, 64, 128)}
    emitted(terms, kind).write(tmp_path)
    require_clean(nvcc.compiled("attention.cu", tmp_path, f"-arch={architecture}"), 9)
    found = kernels(tmp_path / "attention.cubin")
    fed = {name for name in found if architecture == "sm_90a" and "attention_maps" in name}
    others = fed | {name for name in found if "inner_products" in name or "loaded_code" in name}
    attending = [code for name, code in found.items() if name not in others]
    assert len(attending) == 9 - len(fed) and len(fed) == (
        6 if (kind, architecture) == ("bf16", "sm_90a") else 0
    )
    store, product, *loads = INSTRUCTIONS[kind]
    for kernel in attending:
        assert {*re.findall(r"STG\.\S+", kernel)} <= {store, "STG.E"}  # logarithms of sums have 32 bits
        assert {*re.findall(r"HMMA\.\S+", kernel)} == {product}
        assert {*re.findall(r"LDSM\.\S+", kernel)} == {*loads}
        assert "LDGSTS.E.BYPASS.128" in kernel
        assert "MUFU.EX2" in kernel
        assert "FFMA.SAT" not in kernel  # the accurate exponential has it
        assert "FCHK" not in kernel  # divisions of outputs have it; reciprocals of rows do not
        assert not re.search(r"\b(LDL|STL)\b", kernel)
