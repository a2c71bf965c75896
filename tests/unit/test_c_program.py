"""Emitted C: calls from C and C++, the training program, and the build files."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, emit, layers, mse, ops, sgd
from catgrad.errors import OptionError, ShapeError
from catgrad.formats import safetensors
from catgrad.learn.layers.parts import parameter
from catgrad.learn.losses import cross_entropy
from tests.unit.c.build import COMPILERS, NEEDS_C, PROGRAMS, SANE, STRICT, built, run
from tests.unit.line import W, emitted, line

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


@pytest.fixture(scope="module")
def trainer(folder):
    built("make", "BUILD=out", cwd=folder)
    return folder / "out/train"


def write_data(path, examples=50, classes=3):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(examples, 4)).astype(np.float32)
    y = (x @ rng.normal(size=(4, classes))).astype(np.float32)
    safetensors.write(path / "data.safetensors", {"x": x, "y": y, "more": np.zeros(3)})
    return x, y


def losses(text):
    return [float(line.split()[-1]) for line in text.splitlines()]


def test_training_resumes(trainer, tmp_path):
    x, y = write_data(tmp_path)
    whole = run(trainer, "--epochs", 6, "--batch", 16, "--out", "whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    assert losses(whole.stdout)[-1] < losses(whole.stdout)[0] / 3
    found = safetensors.read(tmp_path / "whole")
    assert found["dense.seen"] == 6 * 4
    error = x @ found["dense.weight"] + found["dense.bias"] - y
    assert np.mean(error**2) < losses(whole.stdout)[0]
    again = run(trainer, "--epochs", 6, "--batch", 16, "--out", "again", cwd=tmp_path)
    assert again.stdout == whole.stdout
    assert (tmp_path / "again").read_bytes() == (tmp_path / "whole").read_bytes()
    on = run(trainer, "--weights", "whole", "--epochs", 1, cwd=tmp_path)
    assert losses(on.stdout)[0] < losses(whole.stdout)[-1] * 1.5
    assert safetensors.read(tmp_path / "weights.safetensors")["dense.seen"] == 6 * 4 + 1


def test_the_training_program_trains_and_validates(trainer, tmp_path):
    write_data(tmp_path)
    shown = run(trainer, "--help")
    assert shown.returncode == 0
    assert "x  F32 [n, 4]" in shown.stdout
    for arguments, code, word in (
        (["--epochs", "none"], 2, "must be an integer"),
        (["--epochs"], 2, "--help"),
        (["--speed", "1"], 2, "must be one that --help lists"),
        (["--batch", "0"], 2, "from 1"),
        (["--data", "none"], 1, "none: the file cannot be opened"),
        (["--weights", "data.safetensors"], 1, "array"),
        (["--out", "no/folder"], 1, "cannot be written"),
    ):
        done = run(trainer, *arguments, cwd=tmp_path)
        assert (done.returncode, word in done.stderr) == (code, True), done.stderr
    write_data(tmp_path, classes=2)
    assert "it has F32 [50, 2]" in run(trainer, cwd=tmp_path).stderr
    write_data(tmp_path, examples=0)
    assert "must have an example" in run(trainer, cwd=tmp_path).stderr


def test_a_fixed_batch(tmp_path):
    emitted(line(6)).write(tmp_path)
    built("make", cwd=tmp_path)
    write_data(tmp_path)
    done = run("./train", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert losses(done.stdout)[-1] < losses(done.stdout)[0]
    assert safetensors.read(tmp_path / "weights.safetensors")["dense.seen"] == 10 * 8
    assert "A step takes 6 examples" in run("./train", "--help", cwd=tmp_path).stdout
    assert run("./train", "--batch", 3, cwd=tmp_path).returncode == 2


def classifier():
    """Build a classifier with ignored labels, and rows of symbolic size."""
    types = [NdArrayType(shape) for shape in ((BATCH, 4), (BATCH, Dim("time"), 0))]

    def forward(x, z):
        middle = ops.sum(ops.sort(ops.sum(z, 2))[0], 1)
        return x @ parameter("weight", W) + ops.broadcast(middle, (BATCH, 3), (1,))

    labels = (NdArrayType((BATCH,), Dtype.int64),)
    return Task(build(forward, types), sgd(4.0), cross_entropy, "classes", labels)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a folder with the training program of a classifier, its data, and trained weights."""
    folder = tmp_path_factory.mktemp("classes")
    emitted(classifier()).write(folder)
    built("make", "debug", cwd=folder)
    rng = np.random.default_rng(0)
    x = 0.1 * rng.normal(size=(6, 4)).astype(np.float32)
    data = {"x_0": x, "x_1": np.zeros((6, 2, 0), np.float32), "y": np.array([0, 1, 2, 0, 1, 2])}
    assert train(folder, data).returncode == 0
    return folder, data


def train(folder, data):
    safetensors.write(folder / "data.safetensors", data)
    return run("build/debug/train", "--epochs", 1, cwd=folder)


LARGE = np.float32([[3e38, 0, 0, 0]]).repeat(6, 0)
"""Examples with a finite loss and a step that is not finite."""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y": np.array([0, 1, 3, 0, 1, 2])}, "data.safetensors: an index lies outside its array\n"),
        ({"y": np.array([0, 1, -1, 0, 1, 2])}, "data.safetensors: an index lies outside its array\n"),
        ({"x_0": np.full((6, 4), np.nan, np.float32)}, "the loss must be finite, but in epoch 1 it is not"),
        ({"x_0": np.full((6, 4), np.inf, np.float32)}, "the loss must be finite, but in epoch 1 it is not"),
        ({"x_0": LARGE, "y": np.zeros(6, int)}, "each parameter must be finite, but in epoch 1 it is not"),
        (
            {"x_1": np.zeros((6, 2**58, 0), np.float32)},
            "data.safetensors: a size is negative or too small, or",
        ),
    ],
)
def test_failed_training_leaves_the_weights(trained, change, says):
    folder, data = trained
    before = (folder / "weights.safetensors").read_bytes()
    done = train(folder, data | change)
    assert done.returncode == 1
    assert done.stderr.startswith(says)
    assert done.stderr.count("\n") == 1
    assert (folder / "weights.safetensors").read_bytes() == before


def test_labels_may_be_ignored(trained):
    folder, data = trained
    done = train(folder, data | {"y": np.array([0, -100, 2, 0, -100, 2])})
    assert (done.returncode, done.stderr) == (0, "")


def test_no_sanitizer_reports(folder, tmp_path):
    built("make", "debug", cwd=folder)
    write_data(tmp_path)
    done = run(folder / "build/debug/train", "--epochs", 2, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake on this machine")
def test_cmake(folder, tmp_path):
    built("cmake", "-S", folder, "-B", tmp_path / "made")
    built("cmake", "--build", tmp_path / "made")
    assert run(tmp_path / "made/train", "--help").returncode == 0


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
    """The stream of random numbers is an argument."""
    batch, width = NdArrayType((Dim("batch"),)), NdArrayType((4,))
    model = layers.dense(batch, width, width) >> layers.dense(batch, width, width)
    artifact = emit(Task(model, sgd(0.1), mse, "twice"), "c")
    assert artifact.source.count("uniform_f32(random_bits(") == 2  # for weights and for biases
    weight, bias, other, other_bias = artifact.load()().init(3)
    assert not np.array_equal(weight, other) and not np.array_equal(bias, other_bias)
