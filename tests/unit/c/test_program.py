"""Emitted C: calls from C and C++, the build files, and weights in the source."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.errors import OptionError, ShapeError
from catgrad.formats import safetensors
from tests.targets import emit
from tests.unit.c.build import COMPILERS, NEEDS_C, PROGRAMS, SANE, STRICT, built, run
from tests.unit.line import emitted, line

BATCH = Dim("batch")
pytestmark = NEEDS_C


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("line")
    emitted().write(path)
    return path


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("source", ["line.c", "line_files.c", "train.c"])
def test_no_warnings(folder, compiler, source):
    if not COMPILERS[compiler]:
        pytest.skip(f"no {compiler} on this machine")
    built(
        *COMPILERS[compiler],
        "-std=c11",
        "-O2",
        "-fopenmp-simd",
        *STRICT,
        "-c",
        source,
        "-o",
        "out.o",
        cwd=folder,
    )


@pytest.mark.parametrize("compiler", COMPILERS)
def test_compilers_suggest_no_parentheses(tmp_path, compiler):
    if not COMPILERS[compiler]:
        pytest.skip(f"no {compiler} on this machine")

    def mixed(x, y, i, j):
        either = ops.logical_or(ops.logical_and(x < y, x > 0), y > 1)
        same = ops.equal(x < 2, ops.logical_and(y < x, y > 2))
        return either, same, (i & 3) | (j ^ 1), (i + j) & 7, (i | j) ^ (i + 1)

    real, whole = NdArrayType((5,)), NdArrayType((5,), Dtype.uint32)
    term = build(mixed, [real, real, whole, whole])
    emit(Functions({"mixed": term}, "mixed"), "c").write(tmp_path)
    built(*COMPILERS[compiler], "-std=c11", *STRICT, "-c", "mixed.c", "-o", "out.o", cwd=tmp_path)


def test_calls_from_c(folder):
    source = [PROGRAMS / "calls.c", "line.c"]
    built("gcc", "-std=c11", *STRICT, *SANE, "-I.", *source, "-o", "calls", "-lm", cwd=folder)
    done = run(folder / "calls")
    assert done.returncode == 0, done.stdout + done.stderr


def equations(header, name):
    """The equations in the comment above a declaration."""
    above = header[: header.index(f"int line_{name}(")].rpartition("/*")[2]
    return [line.removeprefix(" *     ") for line in above.splitlines() if line.startswith(" *     ")]


def test_each_entry_point_is_declared_with_its_equations():
    header = emitted().text("line.h")
    prediction = "predict(x[batch, 4]; buffers, parameters)"
    loss = f"loss = criterion({prediction}, y[batch, 3])"
    assert {name: equations(header, name) for name in ("predict", "loss", "rev", "grads", "update")} == {
        "predict": [f"y_hat[batch, 3] = {prediction}".replace("buffers, ", "")],
        "loss": [loss.replace("buffers, ", "")],
        "rev": [
            "y_hat = predict(x[batch, 4]; parameters)",
            "gradients = d_y_hat[batch, 3] . d y_hat / d parameters",
            "d_x[batch, 4] = d_y_hat[batch, 3] . d y_hat / d x",
        ],
        "grads": [
            loss,
            "gradients = d loss / d parameters",
            "buffers := those that predict leaves in training",
        ],
        "update": ["state, parameters := update(gradients; state, parameters)"],
    }
    assert equations(header, "step") == [
        loss,
        "state, parameters := update(d loss / d parameters; state, parameters)",
        "buffers := those that predict leaves in training",
    ]
    assert equations(header, "step_many") == [
        "losses[t] = step(x[t], y[t]) for t = 0, ..., steps - 1,",
        "with x[steps, batch, 4], y[steps, batch, 3]",
    ]


def test_any_other_function_is_declared_with_its_arguments_and_results():
    halves = Functions(
        {"halves": build(lambda x: [x / 2, ops.sum(x)], [NdArrayType((Dim("n"), 2), Dtype.float16)])}, "line"
    )
    assert equations(emit(halves, "c").text("line.h"), "halves") == [
        "f16 y_hat_0[n, 2], f16 y_hat_1 = halves(f16 x[n, 2])"
    ]


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ on this machine")
def test_calls_from_cpp(folder, tmp_path):
    built("make", "BUILD=cpp", "cpp/libline.a", cwd=folder)
    source = [PROGRAMS / "wrapper.cpp", "cpp/libline.a"]
    built("g++", "-std=c++17", *STRICT, *SANE, "-I.", *source, "-o", "wrapper", "-lm", cwd=folder)
    done = run(folder / "wrapper", tmp_path / "weights.safetensors")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "no such file: the file cannot be opened\n"


@pytest.mark.skipif(not shutil.which("make"), reason="no make on this machine")
def test_make_debug_has_the_flags_of_its_options(tmp_path):
    batch, width = NdArrayType((Dim("batch"),)), NdArrayType((64,))
    emit(Task(layers.dense(batch, width, width), sgd(0.1), mse, "wide"), "c", openmp=True).write(tmp_path)
    done = run("make", "--dry-run", "debug", cwd=tmp_path)
    compiled = [line for line in done.stdout.splitlines() if " -c " in line]
    assert compiled and all("-fopenmp " in line and "-fsanitize=" in line for line in compiled)


USER = """\
cmake_minimum_required(VERSION 3.18)
project(user C)
find_package(line REQUIRED)
add_executable(calls calls.c)
target_link_libraries(calls PRIVATE line::line)
"""


@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake on this machine")
def test_cmake_installs_a_package(folder, tmp_path):
    made, prefix = tmp_path / "made", tmp_path / "installed"
    built("cmake", "-S", folder, "-B", made, "-DLINE_OPENMP=ON")
    built("cmake", "--build", made)
    assert run(made / "train", "--help").returncode == 0
    built("cmake", "--install", made, "--prefix", prefix)
    user = tmp_path / "user"
    user.mkdir()
    shutil.copy(PROGRAMS / "calls.c", user)
    (user / "CMakeLists.txt").write_text(USER)
    built("cmake", "-S", user, "-B", user, f"-DCMAKE_PREFIX_PATH={prefix}")
    built("cmake", "--build", user)
    assert run(user / "calls").returncode == 0


def test_manifest(folder):
    told = json.loads((folder / "manifest.json").read_text())
    assert [array["name"] for array in told["tables"]["parameters"]] == ["dense.weight", "dense.bias"]
    step = next(f for f in told["functions"] if f["name"] == "line_step")
    assert step["changed"] == ["state", "buffers", "parameters"]
    assert step["inputs"][0] == {"name": "x", "dtype": "float32", "shape": ["batch", 4]}


WEIGHTS = """
#include <stdio.h>
#include "line_weights.h"

int main(void)
{
    line_parameters parameters;
    line_parameters_point(&parameters);
    for (int i = 0; i < 12; i++) {
        printf("%a\\n", (double)parameters.dense_weight[i]);
    }
    return 0;
}
"""


def test_weights_in_the_source(tmp_path):
    rng = np.random.default_rng(0)
    weight = (rng.normal(size=(4, 3)) * 10.0 ** rng.integers(-38, 38, (4, 3))).astype(np.float32)
    weight[0] = [np.inf, -np.inf, 0.1]
    bias = np.zeros(3, np.float32)
    path = tmp_path / "weights.safetensors"
    safetensors.write(path, {"dense.weight": weight, "dense.bias": bias})
    emitted(weights=str(path)).write(tmp_path)
    (tmp_path / "print.c").write_text(WEIGHTS)
    built("gcc", "-std=c11", *STRICT, "-Wno-unused-function", "print.c", "-o", "print", cwd=tmp_path)
    found = [float.fromhex(text) for text in run(tmp_path / "print").stdout.split()]
    assert np.array_equal(np.float32(found).reshape(4, 3), weight)
    assert "0.1f" in (tmp_path / "line_weights.h").read_text()


def test_weights_that_do_not_fit_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "weights.safetensors"
    safetensors.write(path, {"dense.weight": np.zeros((4, 3)), "dense.bias": np.zeros(3, np.float32)})
    with pytest.raises(ShapeError, match=r"must hold dense\.weight as float32\[4, 3\]"):
        emitted(weights=str(path))
    monkeypatch.setattr("catgrad.backends.c.constants.MAX_SOURCE_BYTES", 50)
    with pytest.raises(OptionError, match="60"):
        emitted(weights=str(path))


def test_options_are_checked():
    with pytest.raises(OptionError, match="openmp must be true or false"):
        emitted(openmp="yes")
    with pytest.raises(
        OptionError, match="must not be used by C, C.. or the emitted files, but it is 'train'"
    ):
        emitted(line(name="train"))


def test_layers_of_one_shape_share_the_kernels_of_their_first_values():
    """The stream of random numbers is an argument, and so is the number of elements."""
    batch, width = NdArrayType((Dim("batch"),)), NdArrayType((4,))
    model = layers.dense(batch, width, width) >> layers.dense(batch, width, width)
    artifact = emit(Task(model, sgd(0.1), mse, "twice"), "c")
    assert artifact.source.count("uniform_f32(random_bits(") == 1  # for weights and for biases
    weight, bias, other, other_bias = artifact.load()().init(3)
    assert not np.array_equal(weight, other) and not np.array_equal(bias, other_bias)
