"""Data: files are read to what was written, labels and splits keep every example, models take raw values."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dim, NdArrayType, Task, compile_model, data, emit, fit, layers, losses, mse, sgd
from catgrad.errors import ArtifactError, DtypeError, OptionError, ShapeError
from catgrad.learn.fit import checkpoint
from catgrad.types import Dtype
from examples.iris import DATA, FEATURES, SPECIES
from tests.models import BATCH, INPUT, OUTPUT, mlp
from tests.targets import on

CHARACTERS = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff")
TEXT = st.text(CHARACTERS, max_size=8).map(lambda text: f"a{text}".strip())
NUMBER = st.floats(-1e6, 1e6, width=32)
INTEGERS = (NdArrayType((Dim("batch"),), Dtype.int64),)


@given(st.lists(st.tuples(NUMBER, TEXT), min_size=1))
def test_csv_files_are_read_to_what_was_written(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("csv") / "table.csv"
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("number", "a, text"), *rows])
    found = data.read(file)
    assert list(found) == ["number", "a, text"]
    assert found["number"].tolist() == [number for number, _ in rows]
    assert found["a, text"].tolist() == [text for _, text in rows]


@given(st.lists(st.sampled_from("abc"), min_size=1))
def test_one_hot_rows_are_labels_are_classes(texts):
    table = data.columns({"kind": texts})
    classes, labels = table.classes("kind"), table.labels("kind")
    assert [classes[label] for label in labels] == texts
    one_hot = table.one_hot("kind")
    assert one_hot.shape == (len(texts), len(classes))
    assert one_hot.argmax(axis=1).tolist() == labels.tolist()
    assert (one_hot.sum(axis=1) == 1).all()


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.none() | st.integers(0, 9))
def test_a_split_keeps_every_example_once(count, share, seed):
    if not 0 < round(share * count) < count:
        return
    x = np.arange(count)
    training, held_out = data.split((x, 2 * x), share, seed)
    assert sorted([*training[0], *held_out[0]]) == x.tolist()
    assert all((2 * part[0] == part[1]).all() for part in (training, held_out))
    assert len(held_out[0]) == round(share * count)
    if seed is None:
        assert held_out[0].tolist() == x[count - len(held_out[0]) :].tolist()


def test_npz_files_have_an_array_for_each_column(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(5, 2, 2)), np.arange(5)
    np.savez(tmp_path / "data.npz", image=x, digit=y)
    table = data.read(tmp_path / "data.npz")
    assert table.numbers("image").dtype == np.float32
    np.testing.assert_array_equal(table.numbers("image"), x.astype(np.float32))
    assert table.labels("digit").tolist() == [0, 1, 2, 3, 4]
    assert "numbers[2, 2]" in repr(table)


def test_columns_without_a_header_get_names(tmp_path):
    (tmp_path / "table.tsv").write_text("1\t2\n3\t4\n")
    assert data.read(tmp_path / "table.tsv", names=("a", "b")).numbers("b", "a").tolist() == [[2, 1], [4, 3]]


def test_frames_are_columns():
    class Series(list):
        def to_numpy(self):
            return np.array(self, dtype=object)

    class Frame(dict):
        columns = ("size", "kind")

    table = data.columns(Frame(size=Series([1, 2.5]), kind=Series(["a", None])))
    assert table.numbers().tolist() == [[1], [2.5]]
    assert table.classes("kind") == ("", "a")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_libraries_are_columns(library):
    frames = pytest.importorskip(library, reason=f"{library} is not installed")
    table = data.columns(frames.read_csv(DATA))
    ours = data.read(DATA)
    np.testing.assert_array_equal(table.numbers(), ours.numbers())
    assert table.labels("species").tolist() == ours.labels("species").tolist()


def test_irises():
    table = data.read(DATA)
    assert table.rows == 150
    assert table.classes("species") == SPECIES
    assert table.numbers().shape == (150, len(FEATURES))
    assert "species       text     setosa, versicolor, virginica" in repr(table)


FILES = {
    "a short row": ("a,b\n1\n", ShapeError, "row 1 has 1"),
    "no rows": ("a,b\n", ShapeError, "at least one row"),
    "nothing": ("", ShapeError, "at least one row"),
    "equal names": ("a,a\n1,2\n", OptionError, "distinct"),
    "an open quote": ('a\n"b\n', ArtifactError, "unexpected end"),
}


@pytest.mark.parametrize("name", FILES)
def test_wrong_files_are_refused(name, tmp_path):
    text, error, message = FILES[name]
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(error, match=message):
        data.read(tmp_path / "table.csv")


def test_other_files_are_refused(tmp_path):
    with pytest.raises(OptionError, match="did you mean '.csv'"):
        data.read("table.cvs")
    with pytest.raises(ArtifactError, match="must be readable"):
        data.read(tmp_path / "table.csv")
    (tmp_path / "table.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(ArtifactError, match="must be readable"):
        data.read(tmp_path / "table.npz")


def test_wrong_columns_are_refused():
    table = data.columns({"size": ["1", "", "3"], "kind": ["a", "b", "a"], "far": [1, np.inf, 2]})
    with pytest.raises(DtypeError, match="'size' must be finite numbers, but row 2 is ''"):
        table.numbers("size")
    with pytest.raises(DtypeError, match="row 2 is 'inf'"):
        table.numbers("far")
    with pytest.raises(OptionError, match="row 2 is 'b'"):
        table.labels("kind", ("a", "c"))
    with pytest.raises(KeyError, match="one of size, kind, far"):
        table["sizes"]
    with pytest.raises(OptionError, match="labels must lie in 0 … 1"):
        data.one_hot([0, 2], 2)
    with pytest.raises(DtypeError, match="must be integers"):
        data.one_hot([0.5], 2)
    with pytest.raises(OptionError, match="must have examples"):
        data.split((np.arange(2),), 0.1)
    with pytest.raises(DtypeError, match="finite"):
        data.standardise([[np.nan]])


@pytest.mark.parametrize("value", [0.0, 0.1, 3.3, 1e6 + 0.1])
def test_the_deviation_of_a_constant_feature_counts_as_1(value):
    for count in (1, 3, 10, 150):
        standard = data.standardise(np.full((count, 1), value))
        assert standard.deviation == 1 and standard([[value]]) == 0


def test_standardised_examples_have_mean_0_and_variance_1():
    x = np.random.default_rng(0).normal(7, 3, size=(100, 2, 3))
    x[:, 0, 0] = 5
    standard = data.standardise(x)
    y = standard(x).astype(np.float64)
    np.testing.assert_allclose(y.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(y.std(axis=0).ravel()[1:], 1, atol=1e-5)
    assert (y[:, 0, 0] == 0).all()


def raw(rows: NdArrayType = BATCH) -> tuple[Task, Task, np.ndarray]:
    """Return a task on raw values, one on standardised ones, and raw values."""
    x = np.random.default_rng(0).normal(200, 50, size=(6, 4)).astype(np.float32)
    model = layers.dense(rows, INPUT, OUTPUT)
    return Task(data.standardise(x).layer(rows) >> model, sgd(0.5), mse, "raw"), Task(model, sgd(0.5), mse), x


@on("numpy", "torch", "jax", "c", "scratch", "cuda", "ggml", long=("cuda", "ggml"))
def test_emitted_models_take_raw_values(target, tmp_path):
    ours, plain, x = raw(NdArrayType((6,)))
    compiled, expected = emit(ours, target).load()(), emit(plain).load()().learner(1)
    learner = compiled.learner(1)
    y = np.random.default_rng(1).uniform(size=(6, 3)).astype(np.float32)
    standardised = data.standardise(x)(x)
    constants = {name: np.asarray(array) for name, array in learner.buffers.items()}
    for _ in range(3):
        np.testing.assert_allclose(learner.step(x, y), expected.step(standardised, y), rtol=1e-4)
    np.testing.assert_allclose(np.asarray(learner.predict(x)), expected.predict(standardised), atol=1e-4)
    checkpoint.save(learner, tmp_path / "run.safetensors")
    again = compiled.learner(2)
    again.buffers = {name: np.ones_like(array) for name, array in again.buffers.items()}
    checkpoint.load(again, tmp_path / "run.safetensors")
    for name, array in constants.items():
        np.testing.assert_array_equal(again.buffers[name], array)


def test_constants_are_in_the_emitted_source():
    mean = data.standardise(raw()[2]).mean
    for target in ("numpy", "c"):
        assert all(str(number) in emit(raw()[0], target).source for number in mean)


LABELS = {
    "one-hot labels of cross entropy": (losses.cross_entropy, None, ShapeError, r"one-hot.*give labels=\("),
    "floats as labels": (
        losses.cross_entropy,
        (NdArrayType((Dim("batch"),)),),
        DtypeError,
        r"give labels=\(NdArrayType",
    ),
    "integer labels of mse": (mse, INTEGERS, ShapeError, r"one-hot and give labels=\(.*, 3\), Dtype.float32"),
    "labels in double precision": (
        losses.huber,
        (NdArrayType((Dim("batch"), 3), Dtype.float64),),
        DtypeError,
        "the default",
    ),
}


@pytest.mark.parametrize("name", LABELS)
def test_wrong_labels_are_refused(name):
    loss, labels, error, message = LABELS[name]
    with pytest.raises(error, match=message):
        compile_model(mlp().model, sgd(0.1), loss, labels=labels)


@on("numpy", "torch", "jax", "c", long=("jax",))
def test_labels_of_the_other_form_are_refused_at_run_time(target):
    x, integers = np.zeros((6, 4), np.float32), np.zeros(6, np.int64)
    one_hot = data.one_hot(integers, 3)
    scores = Task(mlp().model, sgd(0.1), losses.cross_entropy, labels=INTEGERS)
    with pytest.raises(ValueError, match=r"take argmax\(-1\) of one-hot labels"):
        emit(scores, target).load()().learner().step(x, one_hot)
    with pytest.raises(ValueError, match="make labels one-hot"):
        fit(emit(mlp(), target).load()().learner(), (x, integers), epochs=1, progress=False)


def test_imported_models_take_integer_labels():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from catgrad import from_torch

    imported = from_torch(torch.nn.Linear(4, 3), torch.zeros(2, 4), dynamic=("batch",))
    task = imported.task(sgd(0.1), losses.cross_entropy, labels=INTEGERS)
    assert task.targets == INTEGERS
    with pytest.raises(ShapeError, match=r"one-hot.*labels="):
        emit(imported.task(sgd(0.1), losses.cross_entropy))
