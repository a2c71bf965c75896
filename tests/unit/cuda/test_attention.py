"""Attention on GPUs: tiles agree with the definition, in any order of threads, without stored scores."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from catgrad.backends.cuda.machine import MACHINE
from catgrad.backends.cuda_simulator import COMPILER
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, losses, ops, optimisers
from catgrad.functors import Expand, reverse
from catgrad.loops.compile import canonical, compile_kernels
from catgrad.loops.ir.steps import Attend
from catgrad.loops.memory_plan import planned
from catgrad.loops.reference import run
from catgrad.ops.attention import Attention
from catgrad.programs.ports import Kind
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.term import singleton
from catgrad.testing import draw_arrays
from catgrad.tools import run as run_tool
from catgrad.types import widened
from examples import char_gpt
from tests.kernels import prepared
from tests.models import arguments
from tests.targets import UNSHRUNK, emit
from tests.unit.cuda.build import LIMIT, NEEDS_CXX, sanitized
from tests.unit.cuda.nvcc import ARCHITECTURES, NEEDS_NVCC

B, T, S = Dim("b"), Dim("t"), Dim("s")
CUDA = get_backend("cuda")
FEATURES = ((1, 1), (3, 72), (16, 5), (64, 64), (72, 33))
KINDS = [(d, e, causal, None) for (d, e), causal in product(FEATURES, (False, True))]
WINDOWS = [(16, 5, True, 1), (72, 33, True, 20)]
ORDERS = ("forward", "backward", "random:1", "random:2")


def attention(b, t, s, d, e, causal=False, window=None, dtype=Dtype.float32):
    """Attention and its reverse, as one term."""
    types = (NdArrayType(shape, dtype) for shape in ((*b, t, d), (*b, s, d), (*b, s, e)))
    return reverse(singleton(Attention(causal, window), *types))


def function_of(term, name="f"):
    return lower(Expand(CUDA.has)(term), name)


@cache
def compiled():
    """Functions with symbolic sizes, one for each kind of attention."""
    kinds = [*KINDS, *WINDOWS]
    terms = [attention((B,), T, T if kind in WINDOWS else S, *kind) for kind in kinds]
    functions = tuple(function_of(term, f"f{n}") for n, term in enumerate(terms))
    model = CUDA.emit(Program("attention", functions)).load()()
    return {
        kind: (term, getattr(model, f"f{n}")) for n, (kind, term) in enumerate(zip(kinds, terms, strict=True))
    }


def arrays_for(term, sizes, seed):
    return draw_arrays([type.substitute(sizes) for type in term.source.table], (-2.0, 2.0), seed)


def assert_close(found, wanted, tolerance=1e-4):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(widened(np.asarray(x)), widened(y), rtol=tolerance, atol=tolerance)


lengths = st.integers(1, 130)
BATCH, LENGTH = 3, 24


@NEEDS_CXX
@settings(max_examples=12, phases=UNSHRUNK)
@given(st.sampled_from(KINDS), lengths, lengths, st.integers(1, 3), st.integers(0, 9))
def test_tiles_of_any_sizes_agree_with_the_definition(kind, t, s, b, seed):
    term, function = compiled()[kind]
    arrays = arrays_for(term, {"b": b, "t": t, "s": s}, seed)
    assert_close(function(*arrays), evaluate(term, *arrays))


@NEEDS_CXX
@pytest.mark.parametrize("kind", WINDOWS)
@settings(max_examples=4, phases=UNSHRUNK)
@given(t=lengths, seed=st.integers(0, 9))
def test_tiles_of_a_window_agree_with_the_definition(kind, t, seed):
    term, function = compiled()[kind]
    arrays = arrays_for(term, {"b": 1, "t": t}, seed)
    assert_close(function(*arrays), evaluate(term, *arrays))


@NEEDS_CXX
def test_orders_of_threads_give_the_same_bits(monkeypatch):
    term, function = compiled()[72, 33, True, None]
    arrays = arrays_for(term, {"b": 2, "t": 70, "s": 45}, 0)
    runs = []
    for order in ORDERS:
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        runs.append([np.asarray(x).tobytes() for x in function(*arrays)])
    assert all(each == runs[0] for each in runs)


@NEEDS_CXX
def test_tiles_before_the_window_are_not_read():
    """A weight of 0 times NaN would be NaN."""
    term, function = compiled()[16, 5, True, 1]
    q, k, v, dy = arrays_for(term, {"b": 1, "t": 130, "s": 130}, 0)
    v[:, 0] = np.nan
    found = function(q, k, v, dy)[0]
    np.testing.assert_allclose(found[:, 64:], v[:, 64:], rtol=1e-6)


@NEEDS_CXX
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("keys", [slice(None), slice(0, 40), slice(50, 60)])
def test_scores_that_are_not_finite_agree_with_the_definition(causal, value, keys):
    """One query of features (1) has scores of a value for some keys: all, those of the first tile, or few."""
    term, function = compiled()[1, 1, causal, None]
    q, k, v, dy = arrays_for(term, {"b": 1, "t": 66, "s": 66}, 0)
    q, k = np.abs(q) + 1, np.abs(k) + 1
    k[0, keys] = value
    with np.errstate(invalid="ignore"):
        wanted = evaluate(term, q, k, v, dy)[0]
    found = function(q, k, v, dy)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@NEEDS_CXX
@pytest.mark.parametrize("dtype", [Dtype.bfloat16, Dtype.float16])
def test_floats_of_16_bits_are_rounded_once(dtype):
    if dtype is Dtype.bfloat16:
        pytest.importorskip("ml_dtypes")
    term = attention((2,), 33, 40, 16, 24, True, dtype=dtype)
    arrays = draw_arrays(tuple(term.source.table), (-1.0, 1.0), 0)
    [function] = [CUDA.emit(Program("x", (function_of(term),))).load()().f]
    found = function(*(widened(x) if dtype is Dtype.bfloat16 else x for x in arrays))
    assert_close(found, evaluate(term, *arrays), CUDA.tolerance[dtype.value])


# ---- kernels


def steps_of(term, machine=MACHINE):
    return canonical(prepared(function_of(term)), machine).steps


def attends(term):
    return [step for step in steps_of(term) if isinstance(step, Attend)]


def test_steps_with_a_window_mean_the_same():
    term = attention((), 19, 19, 2, 1, True, 7)
    function = prepared(function_of(term))
    arrays = draw_arrays(tuple(term.source.table), (-2.0, 2.0), 0)
    assert_close(run(canonical(function, MACHINE), *arrays), evaluate(term, *arrays))


@pytest.mark.long
def test_schedules_and_steps_mean_the_same():
    term = attention((), 19, 9, 2, 1, True)
    function = prepared(function_of(term))
    arrays = draw_arrays(tuple(term.source.table), (-2.0, 2.0), 0)
    wanted = evaluate(term, *arrays)
    assert_close(run(canonical(function, MACHINE), *arrays), wanted)
    assert_close(run(compile_kernels(function, MACHINE), *arrays), wanted)


def test_the_reverse_reads_what_the_forward_pass_stores():
    parts = [step.part.value for step in attends(attention((), 32, 32, 8, 8))]
    assert parts == ["output", "queries", "keys"]


@pytest.mark.parametrize(
    "term",
    [
        attention((), 8, 8, 129, 1),
        attention((), 4, 8, 2, 2),
        attention((), 8, 8, 2, 2, dtype=Dtype.float64),
        attention((0,), 8, 8, 2, 2),
        attention((), 0, 8, 2, 2),
        attention((), 8, 8, 0, 2),
    ],
    ids=["many features", "few queries", "float64", "no batch", "no queries", "no features"],
)
def test_other_attention_is_lowered_by_its_definition(term):
    assert not attends(term)
    arrays = draw_arrays(tuple(term.source.table), (-1.0, 1.0), 0)
    lowered = compile_kernels(prepared(function_of(term)), MACHINE)
    assert_close(run(canonical(lowered.function, MACHINE), *arrays), evaluate(term, *arrays))


def heads_of_one_array(x):
    """Attention whose queries, keys and values are parts of one array [b, t, 3 · h · d]."""
    q, k, v = (
        ops.permute(ops.reshape(part, 2, 48, 4, 8), 0, 2, 1, 3) for part in ops.split(x, (32,) * 3, -1)
    )
    y = ops.attention(q, k, v, True)
    return ops.reshape(ops.permute(y, 0, 2, 1, 3), 2, 48, 32)


def test_strided_operands_are_read_in_place():
    term = reverse(build(heads_of_one_array, [NdArrayType((2, 48, 96))]))
    lowered = canonical(prepared(function_of(term)), MACHINE)
    x, dy = lowered.arguments
    forward, *rest = (step for step in lowered.steps if isinstance(step, Attend))
    assert {b for b, _ in forward.reads} == {x}
    for step in rest:
        arrays = {b for b, _ in step.reads}
        assert {x, dy} < arrays
        assert {b.name for b in arrays - {x, dy}} == {"logsumexp", "inner_products"}


@cache
def emitted(name):
    """A training step of a small GPT, or of heads that share keys within a window, emitted."""
    if name == "gpt":
        model, loss = char_gpt.gpt(7, BATCH, 1, 32, 2, LENGTH), losses.cross_entropy
        labels = (NdArrayType((BATCH, LENGTH), Dtype.int64),)
    else:
        places, features, labels = NdArrayType((BATCH, LENGTH)), NdArrayType((8,)), None
        model, loss = layers.attention(places, features, 4, True, 10.0, kv_heads=2, window=5), losses.mse
    task = Task(model, optimisers.adamw(0.01), loss, name, labels)
    task = replace(task, runtime_learning_rate=True)
    return task, emit(task, "cuda")


@pytest.mark.parametrize("name", ["gpt", "groups"])
def test_a_training_step_stores_no_scores(name):
    """No temporary array has an element for each pair of positions."""
    lowered = compile_kernels(emitted(name)[1].program.kinds[Kind.STEP], MACHINE)
    shapes = {b.name: b.type.shape for b in planned(lowered).offsets}
    assert {"logsumexp", "inner_products"} <= shapes.keys()
    assert not [name for name, shape in shapes.items() if shape.count(LENGTH) > 1]


def test_equal_layers_share_kernels():
    text = str(emitted("gpt")[1].files["gpt.cu"])
    launches = re.findall(r"(compute_\w+)<<<[^;]*attention\w*,\s+a->\w*logsumexp\w*\);", text)
    assert len(launches) >= 2
    assert len(set(launches)) == 1


@NEEDS_CXX
@pytest.mark.parametrize("name", ["gpt", "groups"])
def test_a_training_step_of_a_transformer_equals_the_reference(name):
    task, artifact = emitted(name)
    drawn = (np.abs(array) for array in arguments(task, "step", {}))
    given = [array % 7 if array.dtype.kind == "i" else array for array in drawn]
    found = artifact.load()().step(*given)
    assert_close(found, evaluate(task.term("step"), *given))


@NEEDS_CXX
@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sanitizers_find_nothing(sanitizer, dtype):
    sections = " -fsanitize-sections=cuda_shared" if sanitizer == "address" else ""
    compiler = f"{COMPILER.command()[0]} -g -fsanitize={sanitizer}{sections}"
    done = sanitized(sanitizer, "tests.unit.cuda.attention", dtype, CXX=compiler, CATGRAD_CUDA_SIMULATE="1")
    assert (done.returncode, done.stderr) == (0, "")


@NEEDS_NVCC
@ARCHITECTURES
def test_registers_suffice_and_shared_memory_is_static(architecture, tmp_path):
    terms = [attention((8,), 256, 256, d, d, True) for d in (64, 128)]
    functions = tuple(function_of(term, f"f{n}") for n, term in enumerate(terms))
    for name, text in CUDA.emit(Program("attention", functions)).files.items():
        if name.endswith((".cu", ".cuh", ".h")) and "train" not in name:
            (tmp_path / name).write_text(text)
    options = ["-std=c++17", f"-arch={architecture}", "-Xptxas", "-v", "-Werror", "all-warnings", "-c"]
    done = run_tool(
        ["nvcc", *options, "-o", str(tmp_path / "object.o"), str(tmp_path / "attention.cu")], LIMIT
    )
    assert done.returncode == 0, done.stderr
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)
    assert len(spills) >= 6
    assert set(spills) == {("0", "0")}
    assert max(map(int, re.findall(r"(\d+) bytes smem", done.stderr))) <= 48 * 2**10
