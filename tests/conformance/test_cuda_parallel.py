"""Data-parallel training on the target cuda: a step on shards is a step on their whole batch."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
from ctypes import c_void_p
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, emit, layers, mse, ops, optimisers, sgd
from catgrad.errors import OptionError
from catgrad.learn.rows import shared_rows
from catgrad.programs.ports import Role
from catgrad.tools import run
from tests.conformance.c_models import DRAWING
from tests.models import BATCH, INPUT, mlp
from tests.unit.cuda.build import LIMIT, NEEDS_CXX
from tests.unit.cuda.ranks import Parallel, Rank, ranks, reduce

pytestmark = NEEDS_CXX
TOLERANCES = {Dtype.float32: 1e-6, Dtype.float64: 1e-14, Dtype.float16: 2e-3, Dtype.bfloat16: 1.6e-2}
INVALID_VALUE, CUDA_NOT_READY = 1, 600  # of CUDA
NULL, BAD_INDEX, NCCL = 2, 4, 2000  # of an emitted library
UNHANDLED_CUDA_ERROR, INVALID_USAGE = 1, 5  # of NCCL


@cache
def library(dtype=Dtype.float32):
    return Parallel(mlp(optimisers.sgd(0.1, momentum=0.9), dtype))


def batch(dtype=Dtype.float32, examples=6, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(examples, n)).astype(dtype.numpy) for n in (4, 3)]


def shards(arrays, count):
    return zip(*(np.split(array, count) for array in arrays), strict=True)


def close(result, expected, tolerance):
    return all(
        np.linalg.norm(r - e) <= tolerance * (1 + np.linalg.norm(e))
        for r, e in zip(result, expected, strict=True)
    )


@pytest.mark.covering
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("count", [1, 3])
def test_a_step_on_all_shards_is_a_step_on_the_whole_batch(dtype, count):
    whole, parts = Rank(library(dtype)), ranks(library(dtype), count)
    for seed in range(2):
        arrays = batch(dtype, seed=seed)
        whole.step(*arrays)
        for rank, shard in zip(parts, shards(arrays, count), strict=True):
            rank.step_parallel(*shard)
    for rank in parts:
        assert rank.synchronise() == 0
        assert close(rank.values(), whole.values(), TOLERANCES[dtype])
        assert all(np.array_equal(x, y) for x, y in zip(rank.values(), parts[0].values(), strict=True))


@pytest.mark.covering(0)
@pytest.mark.parametrize("name", DRAWING)
def test_ranks_draw_by_the_row_of_the_whole_batch(name):
    model, rng = DRAWING[name], np.random.default_rng(0)
    drawing = Parallel(shared_rows(model.task()))
    whole, parts = Rank(drawing), ranks(drawing, 3)
    for _ in range(3):
        arrays = model.draw(rng, 6)
        whole.step(*arrays)
        for rank, shard in zip(parts, shards(arrays, 3), strict=True):
            rank.step_parallel(*shard)
    for rank in parts:
        assert rank.synchronise() == 0
        for found, expected in zip(rank.parameters(), whole.parameters(), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_buffers_must_be_given_to_a_step_that_draws_by_row():
    drawing = Parallel(shared_rows(DRAWING["dropped_mlp"].task()))
    [rank] = ranks(drawing, 1)
    rank.put(*DRAWING["dropped_mlp"].draw(np.random.default_rng(0), 2))
    rank.tables[Role.BUFFER][-1] = SimpleNamespace(address=0)
    assert rank.enqueue("step_parallel", parallel=True) == NULL


def test_arrays_apart_give_the_same_bits():
    found = []
    for contiguous in (True, False):
        parts = ranks(library(), 2, contiguous)
        for rank, shard in zip(parts, shards(batch(), 2), strict=True):
            rank.step_parallel(*shard)
        found.append(parts[1].values())
    assert all(np.array_equal(x, y) for x, y in zip(*found, strict=True))


def test_captured_steps_are_those_that_were_not():
    eager, parts = ranks(library(), 2), ranks(library(), 2)
    graphs = []
    for rank, shard in zip(parts, shards(batch(), 2), strict=True):
        graph = c_void_p()
        native = rank.library.native
        rank.put(*shard)
        assert native("begin_capture", rank.stream) == 0
        assert rank.enqueue("step_parallel", parallel=True) == 0
        assert native("end_capture", rank.stream, ctypes.byref(graph)) == 0
        graphs.append(graph.value)
    for _ in range(3):
        for rank, shard in zip(eager, shards(batch(), 2), strict=True):
            rank.step_parallel(*shard)
        assert all(
            native("launch", graph, rank.stream) == 0 for graph, rank in zip(graphs, parts, strict=True)
        )
    for one, other in zip(eager, parts, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(one.values(), other.values(), strict=True))
    assert all(native("free_graph", graph) == 0 for graph in graphs)


@cache
def embedded():
    ids, rows = NdArrayType((Dim("batch"),), Dtype.int64), NdArrayType((3,))
    model = layers.embedding(ids, 5, rows)
    return Parallel(Task(model, sgd(0.5), mse, "embedded"))


def test_after_a_bad_index_on_one_rank_no_rank_updates():
    parts = ranks(embedded(), 3)
    before = [rank.values()[:-1] for rank in parts]
    for indices, rank in zip(([0, 1], [2, 5], [3, 4]), parts, strict=True):
        rank.step_parallel(np.array(indices), np.ones((2, 3), np.float32))
    for rank, values in zip(parts, before, strict=True):
        assert rank.synchronise() == 0
        assert rank.status() == BAD_INDEX
        assert all(np.array_equal(x, y) for x, y in zip(rank.values()[:-1], values, strict=True))


# ---- errors


def test_errors_of_nccl_have_codes_and_texts():
    [rank] = ranks(library(), 1)
    rank.communicator = None
    rank.put(*batch())
    assert rank.enqueue("step_parallel", parallel=True) == NULL
    assert library().native("group_end") == INVALID_USAGE
    assert library().named(NCCL + INVALID_USAGE) == "invalid usage"
    assert library().named(1000 + CUDA_NOT_READY) == "device not ready"


def test_a_rank_waits_for_all_others():
    first, second = ranks(library(), 2)
    arrays = [rank.library.empty((3,), np.dtype(np.float32)) for rank in (first, second)]
    for value, array in enumerate(arrays):
        array.put(np.full(3, value, np.float32))
    assert reduce(first, arrays[0], 3) == 0
    assert first.synchronise() == CUDA_NOT_READY
    assert "work of other ranks" in library().said
    assert library().native("clear_error") == CUDA_NOT_READY
    assert reduce(second, arrays[1], 3) == 0
    assert (first.synchronise(), second.synchronise()) == (0, 0)
    assert [array.get().tolist() for array in arrays] == [[0.5] * 3] * 2


def test_a_group_is_enqueued_at_its_end():
    first, second = ranks(library(), 2)
    array = library().empty((3,), np.dtype(np.float32))
    array.put(np.ones(3, np.float32))
    assert library().native("group_start") == 0
    assert [reduce(rank, array, 3) for rank in (first, second)] == [0, 0]
    assert first.synchronise() == 0
    assert library().native("group_end") == 0
    assert first.synchronise() == 0
    assert array.get().tolist() == [1, 1, 1]


def test_arrays_of_different_lengths_are_an_error():
    first, second = ranks(library(), 2)
    array = library().empty((3,), np.dtype(np.float32))
    assert reduce(first, array, 3) == 0
    assert reduce(second, array, 2) == UNHANDLED_CUDA_ERROR
    assert library().native("clear_error") == INVALID_VALUE
    assert "rank 0 passes 3 elements" in library().said


def test_a_program_without_training_is_refused():
    functions = Functions({"squashed": build(ops.tanh, [BATCH + INPUT])}, "squashed")
    with pytest.raises(OptionError, match="must train parameters"):
        emit(functions, "cuda", nccl=True)


# ---- compilers


@pytest.fixture
def folder(tmp_path):
    library().artifact.write(tmp_path)
    return tmp_path


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc on this machine")
def test_the_header_is_c99_and_does_not_need_that_of_nccl(folder):
    done = run(
        ["gcc", "-std=c99", "-pedantic", "-Wall", "-Werror", "-fsyntax-only", str(folder / "mlp.h")], LIMIT
    )
    assert (done.returncode, done.stderr) == (0, "")


def headers():
    """Find the headers of NCCL's package from PyPI, or those that the system has."""
    try:
        package = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        package = None
    places = [Path(p) / "include" for p in package.submodule_search_locations] if package else []
    return next(
        (p for p in [*places, Path("/usr/include"), Path("/usr/local/include")] if (p / "nccl.h").exists()),
        None,
    )


@pytest.mark.skipif(not shutil.which("nvcc"), reason="there is no nvcc")
@pytest.mark.skipif(not headers(), reason="there is no nccl.h: pip install nvidia-nccl-cu13")
def test_nvcc_compiles_it_without_warnings(folder):
    options = ["-std=c++17", "-arch=sm_90", "-Werror", "all-warnings", "-I", str(headers())]
    done = run(["nvcc", *options, "-c", "-o", str(folder / "mlp.o"), str(folder / "mlp.cu")], LIMIT)
    assert (done.returncode, done.stderr) == (0, "")
