"""Emitted CUDA: calls from C++, captured graphs, build files, and the alignment of arrays."""

from __future__ import annotations

import os
import re
import shutil
from ctypes import CDLL, c_size_t, c_ssize_t
from dataclasses import replace
from pathlib import Path

import pytest
from catgrad.backends.c.compiler import shared_library
from catgrad.backends.cuda import loading
from catgrad.backends.cuda.loading import LIBRARIES, compile_library, memory, toolchain
from catgrad.backends.cuda_simulator import library
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dim, Functions, NdArrayType, Task, build, layers, mse, ops, optimisers
from catgrad.dims import coefficients
from catgrad.errors import OptionError, ToolError
from catgrad.loops.memory_plan import rounded
from tests.targets import emit
from tests.unit.c.build import SANE, built, run, uses_package, write_page
from tests.unit.cuda.build import NEEDS_CXX
from tests.unit.cuda.programs import NEEDS_NVCC, PROGRAMS, WARNED, simulated
from tests.unit.line import line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("line")
    emit(line(), "cuda").write(path)
    return path


@NEEDS_CXX
def test_every_function_can_be_captured(folder):
    done = run(simulated(folder, "line", PROGRAMS / "captured.cpp", SANE, "captured"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@NEEDS_CXX
def test_calls_from_cpp(folder, tmp_path):
    program = simulated(folder, "line", PROGRAMS / "wrapper.cpp", SANE, "wrapper")
    # So that a device can be out of memory.
    settings = os.environ | {"ASAN_OPTIONS": "allocator_may_return_null=1"}
    done = run(program, tmp_path / "weights.safetensors", env=settings)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == "no such file: the file cannot be opened\n"


@NEEDS_CXX
def test_the_program_of_the_page_runs(tmp_path):
    write_page(Path(__file__).parents[3] / "docs/howto/cuda.md", tmp_path)
    done = run(simulated(tmp_path, "net", tmp_path / "main.cpp"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert 0 <= float(done.stdout.removeprefix("loss ")) < 0.02
    assert (tmp_path / "weights.safetensors").exists()


@NEEDS_NVCC
def test_nvcc_has_no_warnings(folder):
    built("make", "ARCH=sm_90", "BUILD=out", f"NVCCFLAGS={WARNED}", cwd=folder)
    assert run(folder / "out/train", "--help").returncode == 0


@NEEDS_NVCC
def test_nvcc_takes_the_flags_of_a_loaded_library():
    """Without a GPU, `-arch=native` is nvcc's default."""
    artifact = emit(line(), "cuda")
    files = {name: str(text) for name, text in artifact.files.items()} | {"memory.cu": memory(artifact)}
    path = shared_library("line", files, "memory.cu", toolchain=toolchain("native"))
    assert CDLL(str(path)).line_step_workspace_bytes


@pytest.mark.long
@NEEDS_NVCC
@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake on this machine")
def test_cmake(folder, tmp_path):
    """The library is installed without the program, and found by a project in C++."""
    made, user, prefix = tmp_path / "made", tmp_path / "user", tmp_path / "installed"
    built("cmake", "-S", folder, "-B", made, "-DCMAKE_CUDA_ARCHITECTURES=90", "-DLINE_PROGRAM=OFF")
    built("cmake", "--build", made)
    assert not (made / "train").exists()
    built("cmake", "--install", made, "--prefix", prefix)
    uses_package(user, "line", "CXX", "return line_step_workspace_bytes(1) == 0;")
    built("cmake", "-S", user, "-B", user, f"-DCMAKE_PREFIX_PATH={prefix}")
    built("cmake", "--build", user)
    assert run(user / "uses").returncode == 0


def test_host_files_are_those_of_c():
    same = replace(line(), runtime_learning_rate=True)
    ours, theirs = (emit(same, target).files for target in ("cuda", "c"))
    assert ours["line_files.c"] == theirs["line_files.c"]
    comment = "All arrays here\n * are memory of the host"
    assert comment in ours["line_files.h"]
    assert ours["line_files.h"].partition("#ifndef")[2] == theirs["line_files.h"].partition("#ifndef")[2]


def test_a_program_that_does_not_train_has_no_files_of_tables():
    double = Functions({"double": build(lambda x: x + x, [NdArrayType((Dim("n"),))])}, "double")
    assert list(emit(double, "cuda").files) == [
        "double.cu",
        "double.h",
        "double_runtime.cuh",
        "Makefile",
        "CMakeLists.txt",
        "manifest.json",
        "README.md",
    ]


def test_readme_lists_the_parameters():
    readme = emit(line(), "cuda").text("README.md")
    assert "    nvcc -std=c++17 -O3 -arch=native -c line.cu\n" in readme.partition("##")[0]
    assert "| `parameters` | `dense_bias` | [3] | float32 | 64 | `dense.bias` |" in readme


def test_blocks_whose_threads_share_registers_have_a_bound():
    dense = layers.dense(NdArrayType((32,)), NdArrayType((4,)), NdArrayType((3,)), name="dense")
    text = emit(Task(dense, optimisers.sgd(0.1), mse, "small"), "cuda").files["small.cu"]
    launched = {(name, int(threads)) for name, threads in re.findall(r"(\w+)<<<.*?, (\d+), 0, stream", text)}
    bounds = re.findall(r"__launch_bounds__\((\d+), 1\) (\w+)\(", text)
    assert {(name, int(threads)) for threads, name in bounds} == {each for each in launched if each[1] > 257}
    assert len(bounds) == text.count("__launch_bounds__") > 0


def test_a_product_has_no_loop_of_one_iteration_and_factored_indices():
    term = build(lambda x, w: x + ops.matmul(x, w), [NdArrayType((4096, 32)), NdArrayType((32, 32))])
    text = emit(Functions({"residual": term}, "residual"), "cuda").files["residual.cu"]
    assert "[(row_tile + row_thread * 8 + row_thread_1 * 2 + row_1) * 32 + " in " ".join(text.split())
    assert "if (threadIdx.x < 128) {" in text
    loops = re.findall(r"= threadIdx\.x; \w+ < (\d+); \w+ \+= (\d+)", text)
    assert all(int(count) > int(threads) for count, threads in loops)


def test_alignment_is_stated_of_arrays_of_several_elements_only():
    dense = layers.dense(NdArrayType((Dim("batch"),)), NdArrayType((64,)), NdArrayType((1024,)), name="dense")
    text = emit(Task(dense, optimisers.sgd(0.1), mse, "wide"), "cuda").files["wide.cu"]
    aligned = {name for each in re.findall(r"assume_aligned\(([^;]*)\);", text) for name in each.split(", ")}
    assert "learning_rate[0]" in text
    assert "dense_weight" in aligned and "learning_rate" not in aligned


def named(name, layer):
    """Emit a task of a name, with a layer of another; returns its header."""
    dense = layers.dense(NdArrayType((2,)), NdArrayType((4,)), NdArrayType((3,)), name=layer)
    return emit(Task(dense, optimisers.sgd(0.1), mse, name), "cuda").text(f"{name}.h")


@pytest.mark.parametrize("name", ["gpt2", "vgg16", "llama_3", "resnet_34"])
def test_names_may_end_in_numbers_and_begin_with_words_of_cuda(name):
    header = named(name, "block_0")
    assert f"int {name}_step(" in header
    assert "float *block_0_weight; /* [4, 3] block_0.weight */" in header


@pytest.mark.parametrize("name", ["float2", "ulonglong4", "double4_16a", "dim3", "multiply_tiles_f32_2_2"])
def test_names_of_cuda_are_refused(name):
    with pytest.raises(OptionError, match="must not be used"):
        named(name, "dense")


def doubled(*shape):
    """Emit a function that doubles an array."""
    return emit(Functions({"double": build(lambda x: x + x, [NdArrayType(shape)])}, "double"), "cuda")


def test_indices_of_large_arrays_have_64_bits():
    for rows, index in ((2**15, "int"), (2**17, "ptrdiff_t")):
        assert f"const {index} i = ({index})blockIdx.x * 256 + " in doubled(rows, 2**15).files["double.cu"]


@NEEDS_CXX
def test_symbolic_sizes_that_indices_of_32_bits_exceed_are_refused():
    files = {name: str(text) for name, text in doubled(Dim("n"), 2**15).files.items()}
    functions = CDLL(str(library(files, "double.cu", "double")))
    functions.double_workspace_bytes.restype = c_size_t
    sizes = [functions.double_workspace_bytes(c_ssize_t(n)) for n in (2**15, 2**16 - 4, 2**16, 2**40)]
    assert sizes == [64, 64, 2**64 - 1, 2**64 - 1]
    assert functions.double_double(c_ssize_t(2**16), *[None] * 4) == 1


@given(sizes=st.lists(st.integers(1, 100), min_size=1, max_size=3), unit=st.sampled_from([8, 16, 64]))
def test_offsets_of_symbolic_arrays_are_aligned_whatever_the_sizes_are(sizes, unit):
    size = sum((n * Dim(name) for n, name in zip(sizes, "abc", strict=False)), sizes[0])
    larger = rounded(size, unit)
    assert all(c % unit == 0 for c in coefficients(larger).values())
    assert all(0 <= c - coefficients(size)[m] < max(unit, 64) for m, c in coefficients(larger).items())


@pytest.mark.parametrize("hidden", [1, 3, 5])
def test_temporaries_are_aligned_for_every_batch(hidden):
    rows, columns = NdArrayType((Dim("batch"),)), [NdArrayType((n,)) for n in (4, hidden, 3)]
    model = layers.dense(rows, *columns[:2]) >> layers.dense(rows, *columns[1:])
    source = emit(Task(model, optimisers.adam(0.1), mse, "net"), "cuda").source
    offsets = [int(n) for n in re.findall(r"\(memory \+ (?:\()?(\d+) \* batch", source)]
    assert offsets
    assert all(n % 16 == 0 for n in offsets)


@NEEDS_NVCC
def test_a_library_that_was_built_elsewhere_needs_no_compiler(tmp_path, monkeypatch):
    """Without a GPU, the loaded library fails at its first call, and no compiler has run."""
    artifact = emit(line(), "cuda")
    path = compile_library(artifact, tmp_path, ["sm_80", "sm_90a"])
    assert [path] == list(tmp_path.glob("line.*.sm_80.sm_90a.so"))
    assert CDLL(str(path)).line_step_workspace_bytes
    found = []
    monkeypatch.setenv(LIBRARIES, str(tmp_path))
    monkeypatch.setenv("NVCC", "no-such-compiler")
    monkeypatch.setattr(type(loading.GPU), "is_installed", lambda self: True)
    monkeypatch.setattr(loading, "Device", lambda path, *more: found.append(path))
    monkeypatch.setattr(loading, "loaded", lambda *arguments: type("CompiledModel", (), {}))
    artifact.load(simulate=False)
    assert found == [path]
    with pytest.raises(ToolError, match="no-such-compiler"):
        emit(line(name="other"), "cuda").load(simulate=False)
