"""The training programs of the targets c, cuda, in its simulator, and ggml, which train alike."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, ops, sgd
from catgrad.formats import gguf, safetensors
from catgrad.learn.layers.parts import parameter
from catgrad.learn.losses import cross_entropy
from catgrad.learn.schedules import adjustable
from tests.ggml import NEEDS_GGML, built_by_cmake
from tests.targets import emit
from tests.unit.c.build import NEEDS_C, SANE, built, run
from tests.unit.cuda.build import NEEDS_CXX
from tests.unit.cuda.programs import simulated
from tests.unit.line import W, line

BATCH = Dim("batch")
TARGETS = [
    pytest.param("c", marks=NEEDS_C),
    pytest.param("cuda", marks=[NEEDS_C, NEEDS_CXX]),
    pytest.param("ggml", marks=[NEEDS_GGML, pytest.mark.long]),
]
IN_C = [
    TARGETS[0],
    *(pytest.param(*each.values, marks=[*each.marks, pytest.mark.long]) for each in TARGETS[1:]),
]
"""Targets of tests of the part of the programs that is C on all."""


def program(folder, task, target, *flags):
    """Return the training program of a task."""
    emit(task, target).write(folder)
    if target == "c":
        built("make", *(["debug"] if flags else []), cwd=folder)
        return folder / ("build/debug/train" if flags else "train")
    if target == "ggml":
        return built_by_cmake(folder, flags)
    return simulated(folder, task.name, folder / "train.cu", flags, "train")


@pytest.fixture(scope="module")
def trainers(tmp_path_factory):
    """Return the training program of a target, cached."""
    return functools.cache(lambda target: program(tmp_path_factory.mktemp("line"), line(), target))


@pytest.fixture(params=TARGETS)
def trainer(request, trainers):
    return trainers(request.param)


def write_data(path, examples=50, classes=3):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(examples, 4)).astype(np.float32)
    y = (x @ rng.normal(size=(4, classes))).astype(np.float32)
    safetensors.write(path / "data.safetensors", {"x": x, "y": y, "more": np.zeros(3)})
    return x, y


def default(folder):
    """Return the file of weights that a program writes if it is not told another."""
    [path] = folder.glob("weights.*")
    return path


def weights(path):
    return (gguf if path.read_bytes()[:4] == b"GGUF" else safetensors).read(path)


def losses(text):
    return [float(line.split()[-1]) for line in text.splitlines()]


def test_training_resumes(trainer, tmp_path):
    x, y = write_data(tmp_path)
    whole = run(trainer, "--epochs", 6, "--batch", 16, "--out", "whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    assert losses(whole.stdout)[-1] < losses(whole.stdout)[0] / 3
    found = weights(tmp_path / "whole")
    assert found["dense.seen"] == 6 * 4
    error = x @ found["dense.weight"] + found["dense.bias"] - y
    assert np.mean(error**2) < losses(whole.stdout)[0]
    again = run(trainer, "--epochs", 6, "--batch", 16, "--out", "again", cwd=tmp_path)
    assert again.stdout == whole.stdout
    assert (tmp_path / "again").read_bytes() == (tmp_path / "whole").read_bytes()
    for count, given in ((4, ()), (2, ("--weights", "parts"))):
        part = run(trainer, "--epochs", count, "--batch", 16, "--out", "parts", *given, cwd=tmp_path)
        assert part.returncode == 0, part.stderr
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert part.stdout.splitlines() == whole.stdout.splitlines()[4:]
    on = run(trainer, "--weights", "whole", "--epochs", 1, cwd=tmp_path)
    assert losses(on.stdout)[0] < losses(whole.stdout)[-1] * 1.5
    assert weights(default(tmp_path))["dense.seen"] == 6 * 4 + 1


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
        (["--weights", "data.safetensors"], 1, "data.safetensors: the file "),
        (["--out", "no/folder"], 1, "cannot be written"),
    ):
        done = run(trainer, *arguments, cwd=tmp_path)
        assert (done.returncode, word in done.stderr) == (code, True), done.stderr
    write_data(tmp_path, classes=2)
    assert "it has F32 [50, 2]" in run(trainer, cwd=tmp_path).stderr
    write_data(tmp_path, examples=0)
    assert "must have an example" in run(trainer, cwd=tmp_path).stderr


@pytest.mark.parametrize("target", IN_C)
def test_a_fixed_batch(target, tmp_path):
    trainer = program(tmp_path, line(6), target)
    write_data(tmp_path)
    done = run(trainer, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert losses(done.stdout)[-1] < losses(done.stdout)[0]
    assert weights(default(tmp_path))["dense.seen"] == 10 * 8
    assert "A step takes 6 examples" in run(trainer, "--help", cwd=tmp_path).stdout
    assert run(trainer, "--batch", 3, cwd=tmp_path).returncode == 2


@NEEDS_C
@NEEDS_CXX
def test_cuda_trains_like_c(trainers, tmp_path):
    write_data(tmp_path)
    done = {
        target: run(trainers(target), "--epochs", 3, "--batch", 16, "--out", target, cwd=tmp_path)
        for target in ("c", "cuda")
    }
    np.testing.assert_allclose(losses(done["cuda"].stdout), losses(done["c"].stdout), rtol=1e-4)
    expected, found = (safetensors.read(tmp_path / target) for target in ("c", "cuda"))
    assert found.keys() - expected.keys() == {"learning_rate"}
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS[:2])
def test_the_learning_rate_is_an_option_if_it_is_in_the_state(target, trainers, tmp_path):
    """A program whose rate is set trains as one that was emitted with this rate, and its file keeps it."""
    write_data(tmp_path)
    task = line(rate=adjustable(0.3))
    adjusted = trainers(target) if target == "cuda" else program(tmp_path / "adjusted", task, target)
    done = run(adjusted, "--rate", 0.1, "--epochs", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert losses(done.stdout) == losses(run(trainers(target), "--epochs", 2, cwd=tmp_path).stdout)
    again = run(adjusted, "--rate", 0.05, "--out", "slow", cwd=tmp_path)
    assert again.returncode == 0 and weights(tmp_path / "slow")["learning_rate"] == 0.05
    on = [
        run(adjusted, "--weights", "slow", "--epochs", 1, *rate, cwd=tmp_path)
        for rate in ([], ["--rate", 0.05])
    ]
    assert on[0].stdout == on[1].stdout
    wrong = run(adjusted, "--rate", "fast", cwd=tmp_path)
    assert (wrong.returncode, "must be a positive number" in wrong.stderr) == (2, True)
    assert run(trainers("c"), "--rate", 0.1, cwd=tmp_path).returncode == 2


def classifier():
    """Build a classifier with ignored labels, and rows of symbolic size."""
    types = [NdArrayType(shape) for shape in ((BATCH, 4), (BATCH, Dim("time"), 0))]

    def forward(x, z):
        middle = ops.sum(ops.sort(ops.sum(z, 2))[0], 1)
        return x @ parameter("weight", W) + ops.broadcast(middle, (BATCH, 3), (1,))

    labels = (NdArrayType((BATCH,), Dtype.int64),)
    return Task(build(forward, types), sgd(4.0), cross_entropy, "classes", labels)


FLAGS = {"c": SANE, "cuda": (*SANE, "-DMAX_RESIDENT_BYTES=0"), "ggml": SANE}
"""Flags of sanitizers, by which C++ would end without memory, and one that keeps examples off the GPU."""


@pytest.fixture(scope="module", params=IN_C)
def trained(request, tmp_path_factory):
    """Return a folder with the training program of a classifier, its data, and trained weights."""
    folder = tmp_path_factory.mktemp("classes")
    trainer = program(folder, classifier(), request.param, *FLAGS[request.param])
    rng = np.random.default_rng(0)
    x = 0.1 * rng.normal(size=(6, 4)).astype(np.float32)
    data = {"x_0": x, "x_1": np.zeros((6, 2, 0), np.float32), "y": np.array([0, 1, 2, 0, 1, 2])}
    assert train(trainer, folder, data).returncode == 0
    return trainer, folder, data


def train(trainer, folder, data, *options):
    safetensors.write(folder / "data.safetensors", data)
    return run(trainer, "--epochs", 1, *options, cwd=folder)


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
            "data.safetensors: (a size is negative or too small, or|there is too little memory)",
        ),
    ],
)
def test_failed_training_leaves_the_weights(trained, change, says):
    trainer, folder, data = trained
    before = default(folder).read_bytes()
    done = train(trainer, folder, data | change)
    assert done.returncode == 1
    assert re.match(says, done.stderr)
    assert done.stderr.count("\n") == 1
    assert default(folder).read_bytes() == before


def test_labels_may_be_ignored(trained):
    trainer, folder, data = trained
    done = train(trainer, folder, data | {"y": np.array([0, -100, 2, 0, -100, 2])}, "--batch", 4)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("target", IN_C)
def test_no_sanitizer_reports(target, tmp_path):
    trainer = program(tmp_path, line(), target, *SANE)
    write_data(tmp_path)
    done = run(trainer, "--epochs", 2, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
