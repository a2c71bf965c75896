"""The training program on ggml does what training on NumPy does, and other targets read its weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from catgrad.backends.c.cmake import CMAKE
from catgrad.backends.c.compiler import CXX
from catgrad.backends.ggml.tools import GGML

from catgrad.errors import OptionError
from catgrad.formats import safetensors
from catgrad.learn.fit import checkpoint
from tests.ggml import NEEDS_GGML, built_by_cmake
from tests.targets import emit, on
from tests.unit.c.build import built, run, uses_package, write_page
from tests.unit.line import X, Y, line

EPOCHS = 20


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Run the program on whole batches, whose order does not matter; returns its weights and losses."""
    folder = tmp_path_factory.mktemp("line")
    emit(line(), "ggml").write(folder)
    trainer = built_by_cmake(folder)
    safetensors.write(folder / "data.safetensors", {"x": X, "y": Y})
    checkpoint.save(emit(line()).load()().learner(1), folder / "first.gguf")
    done = run(trainer, "--epochs", EPOCHS, "--batch", len(X), "--weights", "first.gguf", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "there is no such device (ggml has no device TPU)"
        in run(trainer, "--device", "TPU", cwd=folder).stderr
    )
    return folder / "weights.gguf", [float(text.split()[-1]) for text in done.stdout.splitlines()]


@NEEDS_GGML
@on("numpy", "c")
def test_the_program_trains_like_other_targets(trained, target):
    path, losses = trained
    ours, theirs = (emit(line(), target).load()().learner(seed) for seed in (0, 1))
    expected = [theirs.step(X, Y) for _ in range(EPOCHS)]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert losses[-1] < losses[0] / 2
    checkpoint.load(ours, path)
    for table, arrays in checkpoint.tables(theirs).items():
        for name, array in arrays.items():
            np.testing.assert_allclose(checkpoint.tables(ours)[table][name], array, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5, atol=1e-6)


@NEEDS_GGML
def test_cmake_installs_a_package(tmp_path):
    user, prefix = tmp_path / "user", tmp_path / "installed"
    emit(line(), "ggml").write(tmp_path / "line")
    made = built_by_cmake(tmp_path / "line").parent
    built(*CMAKE.command(), "--install", made, "--prefix", prefix)
    uses_package(user, "line", "CXX", "return line_error_string(0) == nullptr;")
    ggml = GGML.prefix()
    built(*CMAKE.command(), "-S", user, "-B", user, f"-DCMAKE_PREFIX_PATH={prefix};{ggml}")
    built(*CMAKE.command(), "--build", user)
    assert run(user / "uses").returncode == 0


@NEEDS_GGML
@pytest.mark.long
def test_the_program_of_the_page_runs(tmp_path):
    write_page(Path(__file__).parents[2] / "docs/howto/ggml.md", tmp_path)
    build = built_by_cmake(tmp_path).parent
    command = [*CXX.command(), "-std=c++17", "main.cpp", f"-L{build}", "-lnet_ggml", f"-Wl,-rpath,{build}"]
    built(*command, "-Wl,--allow-shlib-undefined", "-o", "main", cwd=tmp_path)
    done = run(tmp_path / "main", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert 0 <= float(done.stdout.removeprefix("no error, loss ")) < 0.02
    assert (tmp_path / "weights.gguf").exists()


def test_the_manifest_lists_arrays_and_functions():
    manifest = json.loads(emit(line(), "ggml").text("manifest.json"))
    weight = {"name": "dense.weight", "member": "dense_weight", "dtype": "float32", "shape": [4, 3]}
    assert weight in manifest["tables"]["parameters"]
    step = next(f for f in manifest["functions"] if f["name"] == "line_step")
    assert step["inputs"][0] == {"name": "x", "dtype": "float32", "shape": ["batch", 4]}
    assert step["changed"] == ["state", "buffers", "parameters"]


@pytest.mark.parametrize("name", ["train", "data", "ggml", "gguf_file"])
def test_a_model_must_not_be_called_like_the_program_or_ggml(name):
    with pytest.raises(OptionError, match="the name of a model in C must not be used"):
        emit(line(name=name), "ggml")


@NEEDS_GGML
@pytest.mark.long
@pytest.mark.parametrize("name", ["class", "dataset", "model"])
def test_a_model_may_have_any_other_name(name):
    ours, theirs = (emit(line(name=name), target).load()().learner(0) for target in ("ggml", "numpy"))
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5, atol=1e-6)
