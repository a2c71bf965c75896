"""GGUF files pass between emitted C++, Python and ggml's package; others are refused as a whole."""

from __future__ import annotations

from ctypes import c_char_p

import gguf as package
import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, Task, build, layers, mse, ops, optimisers, schedules
from catgrad.errors import ToolError
from catgrad.formats import gguf
from catgrad.initialisers import Filled, Normal
from catgrad.learn.fit import checkpoint
from catgrad.terms.op import scope
from tests.models import BATCH, INPUT, OUTPUT
from tests.targets import cannot, emit

pytestmark = pytest.mark.skipif(bool(cannot("ggml")), reason=f"target ggml: {cannot('ggml')}")

LONG = "encoder_with_a_long_name.layer_with_a_long_name.attention_with_a_long_name"
BOX = NdArrayType((1, 2, 1, 2, 3))


def various() -> Task:
    """Build a linear map with arrays that GGUF lacks: long names, five axes, truth, unsigned integers."""

    def forward(x):
        with scope(LONG):
            weight = layers.parameter("weight", INPUT + OUTPUT, Normal())
        y = x @ weight + ops.broadcast(
            ops.sum(layers.parameter("box", BOX, Normal()), (0, 1, 2, 3)), (*x.shape[:-1], 3)
        )
        flag = layers.buffer("flag", NdArrayType((2,), Dtype.bool), Filled(1))
        layers.update("flag", ~flag)
        byte = layers.buffer("byte", NdArrayType((2,), Dtype.uint8), Filled(200))
        layers.update("byte", ops.cast(ops.cast(byte, Dtype.int32) + 1, Dtype.uint8))
        layers.update("count", layers.buffer("count", NdArrayType((), Dtype.uint32), Filled(2**32 - 2)) + 1)
        return y

    optimiser = optimisers.adam(schedules.adjustable(0.01))
    return Task(build(forward, [BATCH + INPUT]), optimiser, mse, "various")


@pytest.fixture(scope="module")
def model():
    return emit(various(), "ggml").load()()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(5, 4)).astype(np.float32), rng.normal(size=(5, 3)).astype(np.float32)


@pytest.fixture
def trained(model, data):
    learner = model.learner(0)
    learner.step(*data)
    return learner


def call(learner, name, path):
    learner.parameters.model.call(name, [c_char_p], str(path).encode())


def contents(learner):
    return {name: np.array(a) for table in checkpoint.tables(learner).values() for name, a in table.items()}


def assert_same(some, others):
    assert some.keys() == others.keys()
    assert all(np.array_equal(some[name], others[name]) for name in some)


def test_the_program_loads_what_python_writes(tmp_path, model, trained, data):
    checkpoint.save(trained, tmp_path / "a.gguf")
    other = model.learner(1)
    call(other, "load", tmp_path / "a.gguf")
    assert_same(contents(other), contents(trained))
    np.testing.assert_array_equal(other.predict(data[0]), trained.predict(data[0]))


def test_python_loads_what_the_program_writes(tmp_path, model, trained):
    call(trained, "save", tmp_path / "a.gguf")
    for other in (model.learner(1), emit(various(), "numpy").load()().learner(1)):
        checkpoint.load(other, tmp_path / "a.gguf")
        assert_same(contents(other), contents(trained))
    known = gguf.read_metadata(tmp_path / "a.gguf")
    assert (known["general.architecture"], known["general.name"]) == ("catgrad", "various")
    assert {path.name for path in tmp_path.iterdir()} == {"a.gguf"}


def test_the_package_reads_what_the_program_writes(tmp_path, trained):
    call(trained, "save", tmp_path / "a.gguf")
    file = package.GGUFReader(tmp_path / "a.gguf")
    tensors, found = {t.name: t for t in file.tensors}, contents(trained)
    assert tensors.keys() == {gguf.file_name(name) for name in found}
    for name, array in found.items():
        stored = tensors[gguf.file_name(name)].data.ravel()
        is_transposed = f"catgrad.transposed.{gguf.file_name(name)}" in file.fields
        np.testing.assert_array_equal(
            stored.astype(array.dtype), (array.T if is_transposed else array).ravel()
        )


def test_both_write_the_same_arrays(tmp_path, trained):
    call(trained, "save", tmp_path / "a.gguf")
    checkpoint.save(trained, tmp_path / "b.gguf")
    assert_same(gguf.read(tmp_path / "a.gguf"), gguf.read(tmp_path / "b.gguf"))


def test_training_resumes_bit_for_bit(tmp_path, model, trained, data):
    call(trained, "save", tmp_path / "a.gguf")
    other = model.learner(1)
    call(other, "load", tmp_path / "a.gguf")
    for learner in (trained, other):
        learner.step(*data)
    assert_same(contents(other), contents(trained))


@pytest.mark.parametrize("table", ["parameters", "buffers", "state", "learning_rate"])
def test_only_arrays_of_the_file_change(tmp_path, model, trained, table):
    parts = {"learning_rate": dict.fromkeys(["learning_rate"]), **checkpoint.tables(trained)}
    left_out = parts[table] if table != "parameters" else {**parts["buffers"], **parts["state"]}
    held = {name: a for name, a in contents(trained).items() if name not in left_out}
    gguf.write(tmp_path / "a.gguf", held)
    other = model.learner(1)
    before = contents(other)
    call(other, "load", tmp_path / "a.gguf")
    assert_same(contents(other), before | held)


def without(arrays, name):
    return {n: a for n, a in arrays.items() if n != name}


REFUSED = {
    "a parameter is missing": (lambda a: without(a, "box"), "lacks an array .* lacks box"),
    "a buffer is missing": (lambda a: without(a, "flag"), "lacks flag"),
    "an array is unknown": (lambda a: a | {"other": np.ones(3)}, "has other, which the model lacks"),
    "a shape differs": (
        lambda a: a | {"box": np.ones((3, 4), "f")},
        r"box as f32\[3,4\], .* as f32\[2,1,2,3\]",
    ),
    "a type differs": (lambda a: a | {"box": np.ones(BOX.shape)}, r"box as f64\[2,1,2,3\], but"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_arrays_are_refused_as_a_whole(tmp_path, model, trained, case):
    change, message = REFUSED[case]
    gguf.write(tmp_path / "a.gguf", change(contents(trained)))
    assert_refused(model, tmp_path / "a.gguf", message)


@pytest.mark.parametrize("name", ["step", "box", "count"])
def test_only_matrices_of_floats_are_transposed(tmp_path, model, trained, name):
    gguf.write(tmp_path / "a.gguf", contents(trained), {f"{gguf.TRANSPOSED}{name}": "true"})
    assert_refused(model, tmp_path / "a.gguf", f"has {name} as")


def assert_refused(model, path, message):
    learner = model.learner(1)
    before = contents(learner)
    with pytest.raises(ToolError, match=message):
        call(learner, "load", path)
    assert_same(contents(learner), before)


def test_truncated_files_are_refused(tmp_path, model, trained):
    call(trained, "save", tmp_path / "a.gguf")
    content = (tmp_path / "a.gguf").read_bytes()
    reader = package.GGUFReader(tmp_path / "a.gguf")
    last = reader.tensors[-1]
    for length in (
        0,
        3,
        20,
        100,
        reader.data_offset - 40,
        reader.data_offset,
        last.data_offset + last.n_bytes - 1,
    ):
        (tmp_path / "b.gguf").write_bytes(content[:length])
        assert_refused(model, tmp_path / "b.gguf", "the file is damaged, or of another format")


def test_foreign_files_are_refused(tmp_path, model, trained):
    checkpoint.save(trained, tmp_path / "a.safetensors")
    assert_refused(model, tmp_path / "a.safetensors", "the file is damaged, or of another format")
    assert_refused(model, tmp_path, "the file is damaged, or of another format")
    assert_refused(model, tmp_path / "none", "cannot be opened")


@pytest.mark.parametrize("number", [0, 9, 2**31, 2**63, 2**64 - 1])
def test_wrong_numbers_in_a_header_are_errors(tmp_path, model, trained, number):
    """Write a number to every 4th place of the header: ggml would divide by a size of 0."""
    call(trained, "save", tmp_path / "a.gguf")
    content = (tmp_path / "a.gguf").read_bytes()
    learner = model.learner(0)
    for place in range(0, package.GGUFReader(tmp_path / "a.gguf").data_offset - 8, 4):
        (tmp_path / "b.gguf").write_bytes(
            content[:place] + number.to_bytes(8, "little") + content[place + 8 :]
        )
        assert fate(learner, tmp_path / "b.gguf") in ("read", "refused")


def fate(learner, path):
    try:
        call(learner, "load", path)
    except ToolError as error:
        return "refused" if "the file" in str(error) else str(error)
    return "read"


def test_a_file_that_cannot_be_replaced_stays(tmp_path, trained):
    folder = tmp_path / "a.gguf"
    folder.mkdir()
    with pytest.raises(ToolError, match="the file cannot be written"):
        call(trained, "save", folder)
    with pytest.raises(ToolError, match="the file cannot be written"):
        call(trained, "save", tmp_path / "none" / "a.gguf")
    assert [*tmp_path.iterdir()] == [folder]


def test_links_are_followed(tmp_path, trained):
    (tmp_path / "link.gguf").symlink_to(tmp_path / "a.gguf")
    call(trained, "save", tmp_path / "link.gguf")
    assert (tmp_path / "link.gguf").is_symlink()
    assert gguf.read(tmp_path / "a.gguf")
