"""The safetensors format: foreign files are read or refused, and the library reads written files."""

from __future__ import annotations

import json
import subprocess
import sys
from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.numpy import load_file, save_file

from catgrad.errors import ArtifactError, DtypeError, ShapeError
from catgrad.formats import safetensors
from catgrad.formats.elements import DTYPES
from catgrad.learn.fit import checkpoint
from catgrad.types import Dtype
from tests.unit.line import emitted, line

ELEMENTS = {format: np.dtype(getattr(ml_dtypes, name, name)) for format, name in DTYPES.items()}


def file_of(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: list, data: bytes) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}


# Files of others

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | texts
    | st.sampled_from([*DTYPES]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def changed(draw: st.DrawFn, value: object) -> object:
    """Draw a JSON value with a change somewhere inside."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from([*value]))
        if not draw(st.integers(0, 4)):
            return {draw(texts) if k == key else k: v for k, v in value.items()}
        return value | {key: draw(changed(value[key]))}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        place = draw(st.integers(0, len(value) - 1))
        return [draw(changed(v)) if i == place else v for i, v in enumerate(value)]
    if isinstance(value, int) and draw(st.booleans()):
        return value + draw(st.integers(-9, 9))
    return draw(values)


BITS = {format: 8 * dtype.itemsize for format, dtype in ELEMENTS.items()} | {"F4": 4, "C64": 64}


@st.composite
def headers(draw: st.DrawFn) -> tuple[dict, bytes]:
    """Draw a valid header, and its data."""
    header: dict = {"__metadata__": {"a": "b"}} if draw(st.booleans()) else {}
    data = b""
    for i in range(draw(st.integers(0, 3))):
        dtype = draw(st.sampled_from([*BITS]))
        shape = draw(st.lists(st.integers(0, 4), max_size=3))
        begin = len(data)
        data += draw(st.randoms(use_true_random=False)).randbytes(BITS[dtype] * prod(shape) // 8)
        header[f"a{i}"] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(data)]}
    return header, data


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Draw a file, perhaps damaged: in values of its header, its text, its bits or its length."""
    header, data = draw(headers())
    damage = draw(st.sampled_from(["none", "values", "values", "text", "bits", "length"]))
    if damage == "values":
        header = draw(changed(header))
    text = json.dumps(header).encode()
    if damage == "text":
        place = draw(st.integers(0, len(text)))
        more = draw(st.sampled_from([b"[", b'{"a":', b",", b" ", b"\xff"]))
        text = text[:place] + more * draw(st.sampled_from([1, 100, 10_000])) + text[place:]
    content = bytearray(file_of(text, data))
    if damage == "bits":
        for _ in range(draw(st.integers(1, 3))):
            content[draw(st.integers(0, len(text) + 7))] ^= 1 << draw(st.integers(0, 7))
    return bytes(content[: draw(st.integers(0, len(content)))] if damage == "length" else content)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@given(files())
@settings(max_examples=200)
def test_a_file_is_read_or_refused(place, content):
    path = place / "weights"
    path.write_bytes(content)
    for read, kind in ((safetensors.read, np.ndarray), (safetensors.read_metadata, str)):
        try:
            found = read(path)
        except ArtifactError:
            continue
        assert all(isinstance(name, str) and isinstance(value, kind) for name, value in found.items())
    assert mapped_as_read(path)


def mapped_as_read(path):
    """Tell whether mapping a file gives the arrays that reading it gives, or refuses it too."""
    try:
        expected = safetensors.read(path)
    except ArtifactError:
        with pytest.raises(ArtifactError):
            safetensors.mapped(path)
        return True
    found = safetensors.mapped(path)
    types = [{name: (a.dtype, a.shape, a.tobytes()) for name, a in s.items()} for s in (found, expected)]
    return types[0] == types[1] and [*found] == [*expected]


DEEP = b'{"a":' * 100_000
HUGE = 2**63
F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
ODD = {
    "nested deep": file_of(DEEP),
    "nested deep where nobody looks": file_of(
        b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"b":' + DEEP
    ),
    "a dtype that is a list": file_of({"a": {**F32, "dtype": []}}, bytes(8)),
    "more axes than NumPy has": file_of({"a": {**F32, "shape": [1] * 32 + [2]}}, bytes(8)),
    "an axis longer than NumPy has": file_of({"a": {**F32, "shape": [0, HUGE], "data_offsets": [0, 0]}}),
    "a long number": file_of(
        b'{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"b":1' + b"0" * 5000 + b"}}"
    ),
    "a name twice": file_of(
        b'{"a":' + json.dumps(F32).encode() + b',"a":' + json.dumps(F32).encode() + b"}", bytes(8)
    ),
    "half a surrogate": file_of(b'{"\\ud800":' + json.dumps(F32).encode() + b"}", bytes(8)),
    "metadata that are numbers": file_of({"__metadata__": {"a": 1}}),
    "an array for metadata": file_of({"__metadata__": F32}, bytes(8)),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_files_are_refused(tmp_path, what):
    (tmp_path / "a").write_bytes(ODD[what])
    with pytest.raises(ArtifactError, match="must be a safetensors file") as error:
        safetensors.read(tmp_path / "a")
    assert mapped_as_read(tmp_path / "a")
    assert len(str(error.value)) < 400 + len(str(tmp_path))


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "."])
def test_paths_without_a_file(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    for refused in (
        safetensors.read,
        safetensors.mapped,
        safetensors.read_metadata,
        lambda path: safetensors.write(path, {}),
    ):
        with pytest.raises(ArtifactError, match="able, but"):
            refused(path)
    assert not list(tmp_path.iterdir())


# Dtypes


@pytest.mark.parametrize("format", sorted(set(DTYPES) - {"BOOL"}))
def test_elements_are_read_exactly(tmp_path, format):
    data = np.random.default_rng(0).bytes(6 * ELEMENTS[format].itemsize)
    (tmp_path / "a").write_bytes(file_of({"a": entry(format, [2, 3], data)}, data))
    [found] = safetensors.read(tmp_path / "a").values()
    assert (found.dtype, found.shape, found.tobytes()) == (ELEMENTS[format], (2, 3), data)
    found += found  # it is its own
    safetensors.write(tmp_path / "b", {"a": found})
    [again] = safetensors.read(tmp_path / "b").values()
    assert (again.dtype, again.tobytes()) == (found.dtype, found.tobytes())


def test_every_byte_of_a_truth_value_is_one(tmp_path):
    data = bytes([0, 1, 2, 255])
    (tmp_path / "a").write_bytes(file_of({"a": entry("BOOL", [2, 2], data)}, data))
    [found] = safetensors.read(tmp_path / "a").values()
    assert found.tobytes() == bytes([0, 1, 1, 1])
    assert np.array_equal(found, [[False, True], [True, True]])


@pytest.mark.parametrize(
    ("format", "shape", "data", "raw", "raw_shape"),
    [
        ("C64", [2, 1], bytes(16), "V8", (2, 1)),
        ("F4", [4], b"ab", "V1", (2,)),
        ("C64", [0, 2], b"", "V1", (0, 2)),
    ],
)
def test_dtypes_that_numpy_lacks_are_read_as_bytes(tmp_path, format, shape, data, raw, raw_shape):
    """The other arrays of the file are readable."""
    header = {"a": entry(format, shape, data)}
    header["b"] = {"dtype": "U8", "shape": [1], "data_offsets": [len(data), len(data) + 1]}
    (tmp_path / "a").write_bytes(file_of(header, data + b"\7"))
    found = safetensors.read(tmp_path / "a")
    assert (found["a"].dtype, found["a"].shape, found["a"].tobytes()) == (np.dtype(raw), raw_shape, data)
    assert found["b"] == 7
    with pytest.raises(ArtifactError, match="'a' is"):
        safetensors.write(tmp_path / "b", found)


WITHOUT_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None
from catgrad.formats import safetensors
for name, array in safetensors.read(sys.argv[1]).items():
    print(name, array.dtype, array.shape, array.tobytes().hex())
"""


def test_dtypes_of_ml_dtypes_are_read_as_bytes_without_it(tmp_path):
    small = {"b": np.ones(2, ml_dtypes.bfloat16), "f": np.ones((1, 1), ml_dtypes.float8_e5m2)}
    safetensors.write(tmp_path / "a", {**small, "h": np.ones(1, np.float16)})
    command = [sys.executable, "-c", WITHOUT_ML_DTYPES, tmp_path / "a"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["b |V2 (2,) 803f803f", "f |V1 (1, 1) 3c", "h float16 (1,) 003c"], (
        done.stderr
    )


def test_weights_of_another_dtype_are_refused(tmp_path):
    learner = emitted().load()().learner()
    before = {name: array.copy() for name, array in learner.parameters.items()}
    bytes_alone = {name: np.zeros(array.shape, np.uint8) for name, array in before.items()}
    safetensors.write(tmp_path / "a", bytes_alone)
    with pytest.raises(ShapeError, match="must hold the arrays of this model"):
        checkpoint.load(learner, tmp_path / "a")
    assert all(np.array_equal(before[name], array) for name, array in learner.parameters.items())


def test_a_sprite_refuses_raw_bytes_as_weights():
    from catgrad import emit

    raw = {"dense.weight": np.zeros((4, 3), "V2"), "dense.bias": np.zeros(3, "V2")}
    with pytest.raises(DtypeError, match=r"must hold dense\.weight as numbers, but it is \|V2"):
        emit(line(2), "scratch", weights=raw)


# Writing

named = st.dictionaries(
    texts.filter(lambda name: name != "__metadata__"),
    st.sampled_from([*ELEMENTS.values()]).flatmap(
        lambda dtype: arrays(np.uint8, array_shapes(min_dims=0, min_side=0, max_side=3)).map(
            lambda array: array.astype(dtype)
        )
    ),
    max_size=4,
)


@given(named, st.dictionaries(texts, texts, max_size=3))
def test_the_safetensors_library_reads_written_files(place, given_arrays, metadata):
    path = place / "written"
    safetensors.write(path, given_arrays, metadata)
    content = path.read_bytes()
    found = safetensors.read(path)
    assert list(found) == list(given_arrays)
    assert safetensors.read_metadata(path) == metadata
    safetensors.write(path, found, metadata)
    assert path.read_bytes() == content
    plain = {name: array for name, array in given_arrays.items() if not hasattr(ml_dtypes, array.dtype.name)}
    safetensors.write(path, plain)
    theirs = load_file(path)
    assert theirs.keys() == plain.keys()
    assert all(np.array_equal(theirs[name], array) for name, array in plain.items())


@given(named, st.dictionaries(texts, texts, max_size=3))
def test_files_of_the_safetensors_library_are_read(place, given_arrays, metadata):
    path = place / "theirs"
    plain = {name: array for name, array in given_arrays.items() if not hasattr(ml_dtypes, array.dtype.name)}
    save_file(
        {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in plain.items()}, path, metadata or None
    )
    found = safetensors.read(path)
    assert found.keys() == plain.keys()
    assert all(np.array_equal(found[name], array) for name, array in plain.items())
    assert safetensors.read_metadata(path) == metadata


@pytest.mark.parametrize(
    ("named_arrays", "metadata"),
    [
        ({}, {"a": 1}), ({}, {1: "a"}), ({}, {"a": None}), ({}, {"\ud800": "a"}), ({}, {"a": "\udc00"}),
        ({"__metadata__": np.zeros(2)}, None), ({"__metadata__": np.zeros(2)}, {"a": "b"}),
        ({1: np.zeros(2)}, None), ({"\ud800": np.zeros(2)}, None), ({"a": np.array(["text"])}, None),
    ],
)  # fmt: skip
def test_unreadable_files_are_never_written(tmp_path, named_arrays, metadata):
    (tmp_path / "a").write_text("old")
    with pytest.raises(ArtifactError, match="must"):
        safetensors.write(tmp_path / "a", named_arrays, metadata)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_header_that_readers_would_refuse_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(safetensors, "MAX_HEADER_BYTES", 100)
    safetensors.write(tmp_path / "a", {}, {"a": "b" * 50})
    with pytest.raises(ArtifactError, match="must have 100 bytes at most, but those of .* have 128"):
        safetensors.write(tmp_path / "b", {}, {"a": "b" * 100})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


# Several files as one


@pytest.fixture
def index(tmp_path):
    """Write a model in two files with an index."""
    shards = {"a": {"x": np.arange(3.0), "y": np.ones((2, 1), np.uint8)}, "b": {"z": np.float32(4)}}
    for name, held in shards.items():
        safetensors.write(tmp_path / f"{name}.safetensors", held)
    places = {name: f"{shard}.safetensors" for shard, held in shards.items() for name in held}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 30}, "weight_map": places}))
    return path


def test_an_index_is_read_as_one_file(index):
    found = safetensors.read(index)
    assert list(found) == ["x", "y", "z"]
    assert found["x"].tolist() == [0, 1, 2]
    assert found["z"] == np.float32(4)


def test_a_model_is_loaded_from_several_files(tmp_path):
    learner, other = (emitted().load()().learner(seed) for seed in (1, 2))
    for name, array in learner.parameters.items():
        safetensors.write(tmp_path / f"{name}.safetensors", {name: array})
    places = {name: f"{name}.safetensors" for name in learner.parameters}
    (tmp_path / "a.index.json").write_text(json.dumps({"weight_map": places}))
    checkpoint.load(other, tmp_path / "a.index.json")
    assert all(np.array_equal(other.parameters[name], a) for name, a in learner.parameters.items())


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"x": 1}}', '{"weight_map": {"x": null}}',
        '{"weight_map": {"x": "a", "x": "b"}}', '{"weight_map": {"x": "../a.safetensors"}}',
        '{"weight_map": {"x": "/etc/passwd"}}', "[" * 100_000, '{"weight_map": 1' + "0" * 5000 + "}",
    ],
)  # fmt: skip
def test_a_malformed_index_is_refused(index, text):
    index.write_text(text)
    with pytest.raises(ArtifactError, match="must have a table `weight_map`"):
        safetensors.read(index)


def test_files_that_an_index_does_not_describe_are_refused(index):
    places = json.loads(index.read_text())["weight_map"]
    for wrong, says in (
        (places | {"w": "a.safetensors"}, "a.safetensors must hold .* it differs in w"),
        ({"x": "a.safetensors"}, "it differs in y"),
        (places | {"x": "none"}, "none' is not: No such file"),
        (places | {"x": ""}, "is not: Is a directory"),
        (places | {"x": ".."}, "is not: Is a directory"),
    ):
        index.write_text(json.dumps({"weight_map": wrong}))
        with pytest.raises(ArtifactError, match=says):
            safetensors.read(index)


@given(changed({"metadata": {"total_size": 1}, "weight_map": {"x": "a.safetensors", "y": "b"}}))
def test_an_index_is_read_or_refused(place, value):
    path = place / "a.index.json"
    path.write_text(json.dumps(value))
    (path.parent / "a.safetensors").write_bytes(file_of({"x": entry("U8", [1], b"a")}, b"a"))
    try:
        found = safetensors.read(path)
    except ArtifactError:
        return
    assert found.keys() <= {"x"}


def test_the_format_has_every_dtype():
    assert {dtype.name for dtype in Dtype} <= set(DTYPES.values())
