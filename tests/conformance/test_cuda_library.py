"""Matrix products by cuBLASLt on the target cuda: the numbers of the reference, and what it promises."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.errors import OptionError, ToolError
from catgrad.formats import safetensors
from catgrad.programs.program import evaluate
from catgrad.tools import run
from tests.compiled import compiled_once
from tests.conformance.c_models import MODELS, SEED, numbers
from tests.gpu import limits
from tests.targets import emit
from tests.unit.cuda.build import LIMIT, NEEDS_CXX
from tests.unit.cuda.programs import PROGRAMS, simulated
from tests.unit.cuda.ranks import Parallel, Rank, ranks

N = Dim("n")
CALL = re.compile(r"TRY_PRODUCT\(multiply\(libraries, (\w+), ([^,]+),")
TOLERANCES = {Dtype.float32: 1e-6, Dtype.float64: 1e-14, Dtype.float16: 2e-3, Dtype.bfloat16: 1.6e-2}


def emitted(task, **options):
    """Emit a task with limits so low that cuBLASLt computes its products."""
    with limits("small"):
        return emit(task, "cuda", products="cublaslt", **options)


# ---- functions

SHAPES = {
    "plain": (lambda x, w: x @ w, [(N, 9), (9, 7)]),
    "turned": (lambda x, w: ops.transpose(x @ ops.transpose(w)), [(N, 9), (7, 9)]),
    "terms": (lambda x, y: ops.transpose(x) @ y, [(N, 9), (N, 7)]),
    "added_terms": (lambda x, y, z: z + ops.transpose(x) @ y, [(N, 9), (N, 7), (9, 7)]),
    "batched": (lambda x, w: x @ w, [(3, N, 9), (3, 9, 7)]),
    "looped": (lambda x, w: x @ w, [(2, N, 5, 9), (2, N, 9, 7)]),
    "bias": (lambda x, w, b: x @ w + ops.broadcast(b, (N, 7)), [(N, 9), (9, 7), (7,)]),
    "relu": (lambda x, w: ops.relu(x @ w), [(N, 9), (9, 7)]),
    "whole": (
        lambda x, w, b, y: ops.relu(y + x @ w + ops.broadcast(b, (N, 7))),
        [(N, 9), (9, 7), (7,), (N, 7)],
    ),
    "inner": (lambda x, y, b: ops.relu(x @ y + ops.broadcast(b, (9, 7))), [(9, N), (N, 7), (7,)]),
    "batch_of_sums": (
        lambda x, w, b, y: y + (x @ w + ops.broadcast(b, (3, N, 7))),
        [(3, N, 9), (3, 9, 7), (7,), (3, N, 7)],
    ),
    "loop": (
        lambda x, w, y: ops.scan(lambda h, each: (ops.tanh(h) @ w + each, h @ w), x, y),
        [(N, 9), (9, 9), (3, N, 9)],
    ),
    "branch": (
        lambda x, w: ops.cond(ops.sum(x) > 0, lambda x, w: x @ w, lambda x, w: ops.relu(x @ -w), x, w),
        [(N, 9), (9, 7)],
    ),
}
"""Products of matrices by name; 5, 7 and 9 are no multiples of what aligned loads take at once."""

WITH_KERNELS = ("loop", "branch")


def types(name, dtype):
    return [NdArrayType(shape, dtype) for shape in SHAPES[name][1]]


@cache
def term(name, dtype):
    return build(SHAPES[name][0], types(name, dtype))


@cache
def functions():
    every = {f"{name}_{dtype.value}": term(name, dtype) for name in SHAPES for dtype in TOLERANCES}
    return emitted(Functions(every, "products"))


LIBRARIES = {
    "all": ("", ""),
    "no algorithm": ("if (count == 0)", "if (count > 0)"),
    "a status": (
        "TRY_CUBLAS(cublasLtMatmulAlgoGetHeuristic(",
        "TRY_CUBLAS(CUBLAS_STATUS_NOT_SUPPORTED);\n    TRY_CUBLAS(cublasLtMatmulAlgoGetHeuristic(",
    ),
}
"""Libraries by what they support, as changes of the call: one has no algorithm, or says that it has none."""


@cache
def loaded(library="all"):
    """Load the functions, of which cuBLASLt computes all products, or none."""
    whole, file = functions(), "products_runtime.cuh"
    part, instead = LIBRARIES[library]
    assert not part or whole.text(file).count(part) == 1
    files = {**whole.files, file: whole.text(file).replace(part, instead) if part else whole.files[file]}
    return replace(whole, files=files).load(simulate=True)()


@pytest.mark.covering(2)
@NEEDS_CXX
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", SHAPES)
def test_products_are_those_of_the_reference(name, dtype, library):
    """Compare products at any size of a batch, 0 included, by cuBLASLt and by the kernels beside it."""
    body = functions().source.split(f"int products_{name}_{dtype.value}(")[1].split("\n}\n")[0]
    assert CALL.search(body)
    assert ("<<<" in body) == (name in WITH_KERNELS)
    for n in (0, 1, 6):
        rng = np.random.default_rng(n)
        shapes = [t.substitute({"n": n}).shape for t in types(name, dtype)]
        arrays = [rng.normal(size=shape).astype(dtype.numpy) for shape in shapes]
        results = getattr(loaded(library), f"{name}_{dtype.value}")(*arrays)
        for result, expected in zip(results, evaluate(term(name, dtype), *arrays), strict=True):
            assert result.shape == expected.shape
            error = np.linalg.norm(result.astype(float) - expected.astype(float))
            assert error <= TOLERANCES[dtype] * (1 + np.linalg.norm(expected.astype(float)))


@NEEDS_CXX
def test_an_error_of_the_library_is_a_tool_error(monkeypatch):
    device, nothing = loaded().library, (ctypes.c_void_p * 3)()
    monkeypatch.setattr(device, "last", (ctypes.addressof(nothing), device.stream))
    arrays = [np.ones(t.substitute({"n": 5}).shape, np.float32) for t in types("plain", Dtype.float32)]
    with pytest.raises(ToolError, match="plain_f32 fails: cuBLASLt: "):
        loaded().plain_f32(*arrays)


# ---- training


@cache
def artifact(name):
    return emitted(MODELS[name].task())


def learner(name):
    return artifact(name).load(simulate=True)().learner(SEED)


@NEEDS_CXX
@pytest.mark.covering(0)
@pytest.mark.parametrize("name", ["cnn", "char_gpt", "lstm"])
def test_models_train_as_on_numpy(name):
    model, rng = MODELS[name], np.random.default_rng(0)
    batches = [model.draw(rng, size) for size in model.sizes]
    assert CALL.search(artifact(name).source)
    own = learner(name)
    found = {f"step {i}": own.step(*batch) for i, batch in enumerate(batches)}
    found |= {"loss": own.loss(*batches[0]), "predict": own.predict(batches[0][0])}
    found |= {f"parameters {name}": own.parameters[name] for name in own.parameters}
    wanted = numbers(model.task(), batches)
    for name, array in found.items():
        np.testing.assert_allclose(np.ravel(array), wanted[name], rtol=1e-5, atol=1e-5, err_msg=name)


@NEEDS_CXX
def test_after_a_bad_index_no_array_changes():
    own, ids = learner("char_gpt"), np.zeros((2, 16), np.int64)
    tables = (own.parameters, own.state)
    before = [{name: table[name].copy() for name in table} for table in tables]
    with pytest.raises(IndexError):
        own.step(ids + 99, ids)
    for table, arrays in zip(tables, before, strict=True):
        assert all(np.array_equal(table[name], array) for name, array in arrays.items())


def net(batch=Dim("batch"), dtype=Dtype.float32):
    """A network with biases, relu and a sum of two arrays, all of whose products are calls."""
    n, i, h, o = (NdArrayType(shape, dtype) for shape in ((batch,), (9,), (10,), (10,)))
    block = layers.dense(n, h, h, activation=layers.relu) >> layers.linear(n, h, o, name="down")
    return Task(layers.linear(n, i, h, name="up") >> layers.residual(block), sgd(0.02), mse, "net")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("net")
    emitted(net()).write(path)
    return path


@NEEDS_CXX
def test_the_class_and_graphs_in_cpp(folder):
    done = run([str(simulated(folder, "net", PROGRAMS / "products.cpp"))], LIMIT)
    assert (done.returncode, done.stdout) == (0, "an invalid value was passed\n")


@NEEDS_CXX
def test_the_training_program(folder, tmp_path):
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(50, n)).astype(np.float32) for name, n in (("x", 9), ("y", 10))}
    safetensors.write(tmp_path / "data.safetensors", arrays)
    train = str(simulated(folder, "net", folder / "train.cu", out="train"))
    runs = [run([train, "--epochs", "3", "--batch", "16", "--out", out], LIMIT, cwd=tmp_path) for out in "ab"]
    assert [done.returncode for done in runs] == [0, 0], runs[0].stderr
    losses = [float(line.split()[-1]) for line in runs[0].stdout.splitlines()]
    assert losses[-1] < losses[0]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@NEEDS_CXX
def test_several_gpus():
    with limits("small"):
        library = Parallel(net(), products="cublaslt")
    whole, parts = Rank(library), ranks(library, 2)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(6, n)).astype(np.float32) for n in (9, 10)]
    whole.step(*arrays)
    for rank, shard in zip(parts, zip(*(np.split(a, 2) for a in arrays), strict=True), strict=True):
        rank.step_parallel(*shard)
    reference = emit(net(), "numpy").load()().learner(0)
    assert whole.values()[-1] == pytest.approx(reference.step(*arrays), rel=1e-5)
    for rank in parts:
        assert rank.synchronise() == 0
        for result, expected in zip(rank.values(), whole.values(), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@NEEDS_CXX
@pytest.mark.parametrize(
    ("preference", "promise"), [("MIN_ALIGNMENT_B_BYTES", "aligned"), ("REDUCTION_SCHEME_MASK", "atomically")]
)
def test_the_simulator_refuses_what_a_gpu_may_not_do(preference, promise):
    """Rely on defaults: arrays begin at multiples of 256 bytes, and algorithms may add atomically."""
    careful = emitted(Functions({"f": term("looped", Dtype.float32)}, "careless"))
    statement = (
        rf"    TRY_CUBLAS\(cublasLtMatmulPreferenceSetAttribute\(&preference, \w+{preference},[^;]+;\n"
    )
    careless, count = re.subn(statement, "", careful.text("careless_runtime.cuh"))
    assert count == 1
    f = replace(careful, files={**careful.files, "careless_runtime.cuh": careless}).load(simulate=True)().f
    with pytest.raises(ToolError, match=f"cuBLASLt: .*{promise}"):
        f(np.ones((2, 1, 5, 9), np.float32), np.ones((2, 1, 9, 7), np.float32))


# ---- precision


@NEEDS_CXX
def test_tf32_rounds_factors_to_11_bits():
    task = Functions({"f": build(lambda x, w: x @ w, [NdArrayType((8, 8))] * 2)}, "rounded")
    f = emitted(task, math="tf32").load(simulate=True)().f
    x, eye = np.full((8, 8), 1 + 2**-10 + 2**-12, np.float32), np.eye(8, dtype=np.float32)
    assert f(x, eye)[0].tolist() == np.full((8, 8), 1 + 2**-10).tolist()


@pytest.mark.parametrize("math", ["float32", "tf32"])
def test_only_the_option_allows_tf32(math):
    text = emitted(net(), math=math, single_file=True).source
    assert ("CUBLAS_COMPUTE_32F_FAST_TF32" in text) == (math == "tf32")


# ---- what is emitted


def test_the_default_names_no_library():
    for text in emit(net(), "cuda").files.values():
        assert "cublas" not in str(text).lower()


def test_files_name_the_library_that_they_need():
    files = emitted(net()).files
    assert "LDLIBS ?= -lcublasLt" in files["Makefile"]
    assert "CUDA::cublasLt" in files["CMakeLists.txt"]
    assert "cuBLASLt" in files["README.md"]


def test_another_library_is_refused():
    with pytest.raises(OptionError, match="products"):
        emit(net(), "cuda", products="cublas")


def test_small_products_are_kernels():
    assert not CALL.search(emit(net(), "cuda", products="cublaslt").source)


def headers():
    """Find the headers of cuBLAS: those of its packages from PyPI, or of the system."""
    places = [Path(p) / "include" for p in ("/usr/local/cuda", "/usr/local", "/usr")]
    for name in ("nvidia.cu13", "nvidia.cublas"):
        try:
            package = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            package = None
        places += [Path(p) / "include" for p in package.submodule_search_locations] if package else []
    return next((place for place in places if (place / "cublasLt.h").exists()), None)


@pytest.mark.skipif(not shutil.which("nvcc"), reason="there is no nvcc")
@pytest.mark.skipif(not headers(), reason="there is no cublasLt.h: pip install nvidia-cublas")
@pytest.mark.parametrize("name", ["products", "net"])
def test_nvcc_compiles_it_without_warnings(name, tmp_path):
    source = functions() if name == "products" else emitted(net(), math="tf32")
    source.write(tmp_path)
    options = ["-std=c++17", "-arch=sm_90", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra"]
    command = ["nvcc", *options, "-I", str(headers()), "-c", "-o", f"{name}.o", f"{name}.cu"]
    done = compiled_once(*command, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
