"""The GGUF format: arrays and metadata return from files, foreign files are read or refused."""

from __future__ import annotations

import random

import gguf as package
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from catgrad import emit
from catgrad.errors import ArtifactError, ToolError
from catgrad.formats import gguf, weights
from catgrad.learn.fit import checkpoint
from catgrad.learn.fit.loop import fit
from catgrad.naming import MAX_NAME_CHARACTERS
from tests.models import mlp

Quantised = package.GGMLQuantizationType

names = st.text("abc._0", min_size=1, max_size=MAX_NAME_CHARACTERS)
some_arrays = st.dictionaries(
    names,
    st.sampled_from(["f4", "f8", "f2", "i4", "i8", "u4", "?"]).flatmap(
        lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=6, max_side=3))
    ),
    max_size=4,
)


def types_of(found):
    return {name: (array.shape, array.dtype) for name, array in found.items()}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@given(some_arrays)
def test_arrays_return_in_their_types(place, expected):
    gguf.write(place / "a.gguf", expected, {"made.by": "a test", "alpha": 0.5})
    found = gguf.read(place / "a.gguf", types_of(expected))
    assert list(found) == list(expected)
    assert types_of(found) == types_of(expected)
    assert all(found[name].tobytes() == array.tobytes() for name, array in expected.items())
    known = gguf.read_metadata(place / "a.gguf")
    assert {"general.architecture": "catgrad", "made.by": "a test", "alpha": 0.5}.items() <= known.items()
    gguf.write(place / "b.gguf", found, {"made.by": "a test", "alpha": 0.5})
    assert (place / "a.gguf").read_bytes() == (place / "b.gguf").read_bytes()


@given(st.sets(names))
def test_names_fit_into_files_and_differ(some):
    stored = {gguf.file_name(name) for name in some}
    assert len(stored) == len(some)
    assert all(len(name.encode()) <= gguf.MAX_NAME_BYTES for name in stored)


@given(array_shapes(min_dims=0, max_dims=6, min_side=1, max_side=3))
def test_shapes_have_one_to_four_axes_and_the_same_elements(shape):
    stored = gguf.file_shape(shape)
    assert 1 <= len(stored) <= gguf.MAX_AXES
    assert np.prod(stored) == np.prod(shape)
    assert gguf.file_shape(stored) == stored


def test_the_package_reads_written_files(tmp_path):
    written = {"b.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "step": np.int64(7)}
    gguf.write(tmp_path / "a.gguf", written)
    tensors = {t.name: t for t in package.GGUFReader(tmp_path / "a.gguf").tensors}
    assert tensors["b.weight"].shape.tolist() == [3, 2]
    np.testing.assert_array_equal(tensors["b.weight"].data, written["b.weight"])
    assert tensors["step"].data.tolist() == [7]


@pytest.mark.parametrize("kind", [Quantised.F16, Quantised.BF16, Quantised.Q8_0, Quantised.Q4_0])
def test_quantised_arrays_are_read_as_float32(tmp_path, kind):
    array = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    writer = package.GGUFWriter(tmp_path / "a.gguf", "other")
    writer.add_tensor("w", package.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = weights.read(tmp_path / "a.gguf", types_of({"w": array}))["w"]
    bits = {Quantised.F16: 11, Quantised.BF16: 8, Quantised.Q8_0: 8, Quantised.Q4_0: 4}[kind]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, array, atol=2.0**-bits * np.abs(array).max())


def test_an_array_of_another_type_stays_as_it_is(tmp_path):
    gguf.write(tmp_path / "a.gguf", {"w": np.ones((2, 3), np.float32)})
    for shape, dtype in [((3, 2), "float32"), ((2, 3), "int32"), ((2, 3), "float16"), ((2, 3), "uint32")]:
        found = gguf.read(tmp_path / "a.gguf", {"w": (shape, np.dtype(dtype))})["w"]
        assert (found.shape, found.dtype) == ((2, 3), np.float32)


def test_arrays_that_gguf_lacks_are_refused(tmp_path):
    for array in (np.zeros(2, complex), np.zeros((2, 0)), np.zeros(3, np.uint16)):
        with pytest.raises(ArtifactError, match=r"elements of float32, .*, but 'w' is .*; save it as safe"):
            gguf.write(tmp_path / "a.gguf", {"w": array})
    with pytest.raises(ArtifactError, match="metadata must be texts and floats, but 'k' is 1"):
        gguf.write(tmp_path / "a.gguf", {}, {"k": 1})
    with pytest.raises(ArtifactError, match="must be writable"):
        gguf.write(tmp_path / "none" / "a.gguf", {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["a\0b", ".", "none"])
def test_paths_without_a_file(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    for read in (gguf.read, gguf.read_metadata):
        with pytest.raises(ArtifactError, match="must be readable"):
            read(path)


def test_without_the_package_the_reason_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("catgrad.tools.find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"must have gguf, but there is no gguf; pip install gguf"):
        gguf.write(tmp_path / "a.gguf", {})


@pytest.fixture(scope="module")
def whole_file(place):
    values = {"w": np.ones((2, 3), np.float32), "n" * 80: np.int64(1)[...]}
    gguf.write(place / "good.gguf", values, {"k": "v", "f": 1.0})
    return (place / "good.gguf").read_bytes()


@given(st.integers(0, 2**32), st.sampled_from(["bits", "number", "length"]))
@settings(max_examples=200)
def test_a_damaged_file_is_read_or_refused(place, whole_file, seed, damage):
    rng, content = random.Random(seed), bytearray(whole_file)
    at = rng.randrange(len(content) - 8)
    if damage == "bits":
        content[at] ^= 1 << rng.randrange(8)
    elif damage == "number":
        content[at : at + 8] = rng.choice([0, 1, 9, 2**31, 2**63, 2**64 - 1]).to_bytes(8, "little")
    (place / "bad.gguf").write_bytes(content[:at] if damage == "length" else content)
    for read in (gguf.read, gguf.read_metadata):
        try:
            found = read(place / "bad.gguf")
        except ArtifactError:
            continue
        assert all(isinstance(name, str) for name in found)


def test_training_resumes_from_a_gguf_checkpoint(tmp_path):
    model = emit(mlp()).load()()
    data = np.random.default_rng(0).normal(size=(8, 4)), np.random.default_rng(1).normal(size=(8, 3))
    whole, halves = model.learner(0), model.learner(0)
    fit(whole, data, epochs=4, batch_size=4, progress=False)
    path = tmp_path / "run.gguf"
    fit(halves, data, epochs=2, batch_size=4, checkpoint=path, progress=False)
    resumed = model.learner(1)
    fit(resumed, data, epochs=4, batch_size=4, checkpoint=path, resume=True, progress=False)
    for name, array in whole.parameters.items():
        assert np.array_equal(array, resumed.parameters[name])


@pytest.mark.parametrize("target", ["c", "scratch"])
def test_programs_are_emitted_with_weights_of_gguf_files(tmp_path, target):
    checkpoint.save(emit(mlp()).load()().learner(3), tmp_path / "w.gguf")
    checkpoint.save(emit(mlp()).load()().learner(3), tmp_path / "w.safetensors")
    one, other = (emit(mlp(), target, weights=str(tmp_path / f"w.{end}")) for end in ("gguf", "safetensors"))
    assert {k: v for k, v in one.files.items() if "json" not in k} == {
        k: v for k, v in other.files.items() if "json" not in k
    }
