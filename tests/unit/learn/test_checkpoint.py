"""Checkpoints round trip through files; inconsistent files are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from catgrad import (
    Dim,
    Dtype,
    NdArrayType,
    Task,
    build,
    emit,
    layers,
    losses,
    ops,
    optimisers,
    schedules,
    sgd,
)
from catgrad.errors import ArtifactError, ShapeError, UnknownName
from catgrad.formats import safetensors
from catgrad.initialisers import Normal
from catgrad.learn.fit import checkpoint
from catgrad.terms.state import LEARNING_RATE
from catgrad.types import as_numpy
from tests.models import mlp, rectified
from tests.targets import on, on_learners, on_targets_with

some_arrays = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
    st.sampled_from(["f4", "f8", "f2", "i4", "i8", "?"]).flatmap(
        lambda dtype: arrays(dtype, array_shapes(min_dims=0, min_side=0, max_side=3))
    ),
    max_size=4,
)


@given(some_arrays)
def test_written_arrays_are_read_back(tmp_path_factory, given_arrays):
    path = tmp_path_factory.mktemp("weights") / "weights.safetensors"
    safetensors.write(path, given_arrays, {"made": "by a test"})
    found = safetensors.read(path)
    assert list(found) == list(given_arrays)
    for name, array in given_arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_the_safetensors_library_agrees(tmp_path):
    import safetensors.numpy as library

    rng = np.random.default_rng(0)
    weights = {
        "b.weight": rng.normal(size=(3, 2)),
        "a": np.arange(4, dtype=np.int32),
        "scalar": np.float32(2)[...],
    }
    safetensors.write(tmp_path / "ours", weights)
    library.save_file(weights, tmp_path / "theirs")
    for found in (library.load_file(tmp_path / "ours"), safetensors.read(tmp_path / "theirs")):
        assert found.keys() == weights.keys()
        assert all(np.array_equal(found[name], weights[name]) for name in weights)


def test_16_bits_agree_with_the_safetensors_library(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import safetensors.torch as library

    weights = {name: torch.randn(3, 2).to(getattr(torch, name)) for name in ("bfloat16", "float16")}
    safetensors.write(tmp_path / "ours", weights)
    library.save_file(weights, tmp_path / "theirs")
    found = library.load_file(tmp_path / "ours")
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    for name, array in safetensors.read(tmp_path / "theirs").items():
        assert array.dtype == Dtype[name].numpy
        np.testing.assert_array_equal(array.astype(np.float32), weights[name].float())
    safetensors.write(tmp_path / "again", safetensors.read(tmp_path / "theirs"))
    assert (tmp_path / "again").read_bytes() == (tmp_path / "ours").read_bytes()


def file_of(header: object, data: bytes = b"\0" * 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
LIES = {
    "empty": b"",
    "short": b"\1\2",
    "a header longer than the file": (10**6).to_bytes(8, "little") + b"{}",
    "no JSON": file_of(b"{"),
    "no table": file_of([1]),
    "a name twice": file_of(b'{"a": 1, "a": 2}'),
    "no offsets": file_of({"a": {"dtype": "F32", "shape": [2]}}),
    "an unknown dtype": file_of({"a": {**GOOD, "dtype": "F99"}}),
    "a negative size": file_of({"a": {**GOOD, "shape": [-2]}}),
    "a fractional size": file_of({"a": {**GOOD, "shape": [2.0]}}),
    "a shape that does not fit": file_of({"a": {**GOOD, "shape": [3]}}),
    "beyond the end": file_of({"a": {**GOOD, "shape": [4], "data_offsets": [0, 16]}}),
    "a hole": file_of({"a": {**GOOD, "shape": [1], "data_offsets": [4, 8]}}),
    "an overlap": file_of({"a": GOOD, "b": GOOD}),
    "left over": file_of({"a": GOOD}, b"\0" * 12),
    "words for offsets": file_of({"a": {**GOOD, "data_offsets": ["0", "8"]}}),
}


@pytest.mark.parametrize("lie", LIES)
def test_inconsistent_files_are_refused(tmp_path, lie):
    path = tmp_path / "weights"
    path.write_bytes(LIES[lie])
    with pytest.raises(ArtifactError):
        safetensors.read(path)


def test_unreadable_and_unwritable_files_are_refused(tmp_path):
    with pytest.raises(ArtifactError, match="must be readable"):
        safetensors.read(tmp_path / "none")
    with pytest.raises(ArtifactError, match="must be writable"):
        safetensors.write(tmp_path / "none" / "weights", {})
    with pytest.raises(ArtifactError, match="'z' is complex128"):
        safetensors.write(tmp_path / "weights", {"z": np.zeros(2, complex)})
    assert not list(tmp_path.iterdir())


@on_learners
def test_ten_steps_are_five_save_load_five(tmp_path, target):
    make = emit(mlp(optimisers.adamw(0.05)), target).load()
    rng = np.random.default_rng(0)
    data = [(rng.normal(size=(5, 4)), rng.normal(size=(5, 3))) for _ in range(10)]
    straight, first = make().learner(0), make().learner(0)
    for batch in data:
        straight.step(*batch)
    for batch in data[:5]:
        first.step(*batch)
    for file in ("weights", "weights.gguf"):
        checkpoint.save(first, tmp_path / file)
        second = make().learner(1)
        checkpoint.load(second, tmp_path / file)
        for batch in data[5:]:
            second.step(*batch)
        for name, array in straight.parameters.items():
            assert np.array_equal(array, second.parameters[name])


@on("torch", "jax", "c")
def test_weights_are_portable_between_targets(target, tmp_path):
    numpy, other = (emit(mlp(), name).load()().learner(seed) for seed, name in enumerate(("numpy", target)))
    checkpoint.save(other, tmp_path / "weights")
    checkpoint.load(numpy, tmp_path / "weights")
    x = np.random.default_rng(0).normal(size=(3, 4))
    np.testing.assert_allclose(numpy.predict(x), other.predict(x), rtol=1e-6)
    checkpoint.save(numpy, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "weights").read_bytes()


def test_weights_of_another_model_are_refused(tmp_path):
    checkpoint.save(emit(mlp()).load()().learner(), tmp_path / "weights")
    other = emit(rectified()).load()().learner()
    before = dict(other.parameters)
    with pytest.raises(ShapeError, match=r"it differs in 0\.weight"):
        checkpoint.load(other, tmp_path / "weights")
    assert all(other.parameters[name] is array for name, array in before.items())


def test_weights_without_state_reset_the_optimiser(tmp_path):
    learner = emit(mlp(optimisers.adam())).load()().learner()
    safetensors.write(tmp_path / "weights", learner.parameters)
    checkpoint.load(learner, tmp_path / "weights")
    assert not any(np.any(array) for array in learner.state.values())


def tied() -> Task:
    """Build a model whose embedding and scores share a parameter."""
    tokens = NdArrayType((Dim("batch"),), Dtype.int64)

    def forward(x):
        table = layers.parameter("wte.weight", NdArrayType((5, 3)), Normal())
        return ops.gather(table, x) @ ops.transpose(table)

    return Task(build(forward, [tokens]), sgd(0.1), losses.cross_entropy, "tied", (tokens,))


def test_a_file_without_a_learning_rate_does_not_change_that_of_the_learner(tmp_path):
    """Load a checkpoint of a program with a constant rate into one whose rate can be set."""
    tasks = [replace(rectified(), optimiser=sgd(r, momentum=0.9)) for r in (0.1, schedules.adjustable(0.1))]
    learners = [emit(task, "numpy").load()().learner(seed) for seed, task in enumerate(tasks)]
    learners[1].state["learning_rate"] = np.float64(0.01)
    checkpoint.save(learners[0], tmp_path / "a")
    checkpoint.load(learners[1], tmp_path / "a")
    assert learners[1].state["learning_rate"] == 0.01
    for name, array in learners[0].parameters.items():
        assert np.array_equal(array, learners[1].parameters[name])


@on_targets_with("learner")
def test_a_tied_weight_is_saved_once_and_found_by_its_alias(tmp_path, target):
    model = emit(tied(), target).load()()
    learner, other = model.learner(1), model.learner(2)
    checkpoint.save(learner, tmp_path / "a", aliases={"lm_head.weight": "wte.weight"})
    assert [name for name in safetensors.read(tmp_path / "a") if name != LEARNING_RATE] == ["wte.weight"]
    assert json.loads(safetensors.read_metadata(tmp_path / "a")["aliases"]) == {
        "lm_head.weight": "wte.weight"
    }
    wanted = np.asarray(learner.parameters["wte.weight"])
    both = {"wte.weight": wanted, "lm_head.weight": wanted}
    for held in (both, {"lm_head.weight": wanted}):
        safetensors.write(tmp_path / "b", held)
        checkpoint.load(other, tmp_path / "b", aliases={"lm_head.weight": "wte.weight"})
        assert np.array_equal(np.asarray(other.parameters["wte.weight"]), wanted)
    safetensors.write(tmp_path / "c", {"wte.weight": wanted, "lm_head.weight": wanted + 1})
    with pytest.raises(ShapeError, match="an alias must equal the array it stands for"):
        checkpoint.load(other, tmp_path / "c", aliases={"lm_head.weight": "wte.weight"})
    with pytest.raises(UnknownName, match="a weight must be one of .*wte.weight"):
        checkpoint.save(learner, tmp_path / "d", aliases={"lm_head.weight": "wpe.weight"})
    assert not (tmp_path / "d").exists()
    with pytest.raises(UnknownName, match=r"it is 'wpe.weight'; did you mean 'wte.weight'\?"):
        checkpoint.load(other, tmp_path / "b", aliases={"lm_head.weight": "wpe.weight"})


@on_targets_with("learner", "16 bits")
def test_a_learner_of_16_bits_resumes_bit_for_bit(tmp_path, target):
    task = mlp(optimisers.adam(0.01, epsilon=1e-3), Dtype.bfloat16)
    model = emit(task, target).load()()
    whole, halves = model.learner(0), model.learner(0)
    x, y = np.ones((2, 4), np.float32), np.zeros((2, 3), np.float32)
    for step in range(6):
        whole.step(x, y)
        halves.step(x, y)
        if step == 2:
            checkpoint.save(halves, tmp_path / "half")
            halves = model.learner(9)
            checkpoint.load(halves, tmp_path / "half")
    for name, array in whole.parameters.items():
        assert as_numpy(array).tobytes() == as_numpy(halves.parameters[name]).tobytes()
