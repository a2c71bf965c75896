"""Shards: examples of files that are larger than memory, in parts that are shuffled at two levels."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import data, evaluate, fit
from catgrad.errors import ArtifactError, DtypeError, OptionError, ShapeError
from catgrad.formats import safetensors
from catgrad.learn.fit.batches import batches
from catgrad.learn.fit.examples import Examples, Share
from tests.unit.learn.test_fit import X, Y, arrays_of, learner_of, train

KINDS = ("npz", "safetensors", "npy", "csv")


def write(path, kind, x, y):
    """Write a shard: x has 4 columns in text, and is one array elsewhere."""
    if kind == "npz":
        np.savez(path.with_suffix(".npz"), x=x, y=y)
    elif kind == "safetensors":
        safetensors.write(path.with_suffix(".safetensors"), {"x": x, "y": y})
    elif kind == "npy":
        path.mkdir()
        np.save(path / "x.npy", x)
        np.save(path / "y.npy", y)
    else:
        rows = [",".join(map(repr, row)) for row in np.concatenate([x, y], axis=1).tolist()]
        path.with_suffix(".csv").write_text("\n".join(["a,b,c,d,p,q,r", *rows]), encoding="utf-8")


def of_text(rows):
    return rows.numbers("a", "b", "c", "d"), rows.numbers("p", "q", "r")


def shards_in(folder, kind, cuts=(0, 9, 10, 22), **options):
    for k, (start, stop) in enumerate(pairwise(cuts)):
        write(folder / f"{kind}-{k}", kind, X[start:stop], Y[start:stop])
    return data.Shards(folder / f"{kind}-*", of_text if kind == "csv" else ("x", "y"), **options)


class Listed(Examples):
    """Examples in parts of these sizes, numbered through."""

    def __init__(self, sizes):
        self.sizes, self.reads = sizes, []

    def read(self, part):
        self.reads.append(part)
        rows = sum(self.sizes[:part]) + np.arange(self.sizes[part])
        return rows, 10 * rows[:, None]


# The laws of batches, for parts of any sizes

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)
EPOCHS = {"size": st.integers(1, 30), "epoch": st.integers(0, 3), "drop": st.booleans()}


@given(sizes=SIZES, **EPOCHS)
def test_an_epoch_has_every_example_once(sizes, size, epoch, drop):
    count = sum(sizes)
    if drop and count < size:
        return
    source = batches(Listed(sizes), size, 3, drop)
    got = list(source(epoch))
    assert [len(x) for x, _ in got] == [min(size, count - k * size) for k in range(len(source))]
    assert all(np.array_equal(10 * x[:, None], y) for x, y in got)
    seen = [int(i) for x, _ in got for i in x]
    assert len(set(seen)) == len(seen) == (count - count % size if drop else count)
    assert epoch or seen == sorted(seen)


@given(sizes=SIZES, world=st.integers(1, 4), **EPOCHS)
def test_the_shares_of_processes_make_up_the_batch_in_order(sizes, world, size, epoch, drop):
    if drop and sum(sizes) < size:
        return
    whole = list(batches(Listed(sizes), size, 3, drop)(epoch))
    shares = [list(batches(Listed(sizes), size, 3, drop, Share(k, world))(epoch)) for k in range(world)]
    for batch, *parts in zip(whole, *shares, strict=True):
        lengths = [len(x) for x, _ in parts]
        assert lengths == sorted(lengths, reverse=True)
        assert lengths[0] - lengths[-1] <= 1
        for array, *pieces in zip(batch, *parts, strict=True):
            np.testing.assert_array_equal(np.concatenate(pieces), array)


@given(sizes=SIZES, size=st.integers(1, 8))
def test_each_part_is_read_once_and_its_rows_are_neighbours(sizes, size):
    examples = Listed(sizes)
    seen = np.concatenate([x for x, _ in batches(examples, size, 5)(1)])
    assert sorted(examples.reads) == list(range(len(sizes)))
    parts = np.repeat(np.arange(len(sizes)), sizes)[seen]
    assert np.count_nonzero(np.diff(parts)) == len(sizes) - 1


def test_orders_of_parts_and_of_rows_differ_between_epochs():
    orders = {
        tuple(int(i) for x, _ in batches(Listed([7] * 5), 4, seed)(e) for i in x)
        for seed in range(3)
        for e in range(1, 4)
    }
    assert len(orders) == 9


# Files


@pytest.mark.parametrize("kind", KINDS)
def test_shards_have_the_examples_of_the_arrays(tmp_path, kind):
    shards = shards_in(tmp_path, kind)
    assert sum(shards.sizes) == len(X)
    found = list(batches(shards, 5, None)(0))
    np.testing.assert_array_equal(np.concatenate([x for x, _ in found]), X)
    np.testing.assert_array_equal(np.concatenate([y for _, y in found]), Y)
    assert all(array.flags.writeable for batch in found for array in batch)


@pytest.mark.parametrize("kind", KINDS)
def test_training_on_one_shard_is_training_on_its_arrays(tmp_path, kind):
    one, other = learner_of(), learner_of()
    shards = shards_in(tmp_path, kind, (0, 22))
    history = train(one, shards, epochs=3, validation=shards)
    assert history == train(other, (X, Y), epochs=3, validation=(X, Y))
    assert arrays_of(one) == arrays_of(other)
    assert evaluate(one, shards, batch_size=7) == evaluate(other, (X, Y), batch_size=7)


def test_training_on_shards_resumes_bit_for_bit(tmp_path):
    straight, first, second = (learner_of(seed=seed) for seed in (0, 0, 1))
    shards = shards_in(tmp_path, "safetensors", rows=4)
    assert shards.sizes == (4, 4, 1, 1, 4, 4, 4)
    assert repr(shards) == "Shards(3 files, 7 parts, 22 examples)"
    train(straight, shards, steps=12)
    train(first, shards, steps=7, checkpoint=tmp_path / "run")
    train(second, shards, steps=12, checkpoint=tmp_path / "run", resume=True)
    assert arrays_of(second) == arrays_of(straight)


@pytest.mark.parametrize("kind", ["safetensors", "npy", "npz"])
def test_an_epoch_of_a_large_file_needs_little_memory(tmp_path, kind):
    """A part has 0.5 of 8.5 MB: rows that are mapped, or one of 16 files."""
    x, y = np.zeros((2**14, 64), "f8"), np.zeros((2**14, 1), "f8")
    count = 16 if kind == "npz" else 1
    for k in range(count):
        write(tmp_path / f"{k:02}", kind, x[k::count], y[k::count])
    tracemalloc.start()
    shards = data.Shards(tmp_path / "*", ("x", "y"), rows=2**10)
    steps = sum(len(x) == 256 for x, _ in batches(shards, 256, 0)(1))
    assert tracemalloc.get_traced_memory()[1] < (2e6 if kind == "npz" else 5e5)
    tracemalloc.stop()
    assert steps == 64


def test_one_column_may_be_both_input_and_label(tmp_path):
    np.savez(tmp_path / "x.npz", x=X, other=np.zeros(3))
    (batch,) = batches(data.Shards(tmp_path / "x.npz", ("x", "x")), 30)(1)
    assert [array.tobytes() for array in batch] == [X.tobytes()] * 2
    assert len(data.Shards(tmp_path / "x.npz", "x").read(0)) == 1


# Errors, before the first step

F4 = np.zeros((3, 2), "f4")
WRONG = {
    r"b.npz has x, but|b.npz must have the columns x, y, but it has x; name": {"x": F4},
    r"'y' must have one dtype in all files, but it is float32 in .*a.npz and int64 in .*b.npz": {
        "x": F4,
        "y": np.zeros(3, "i8"),
    },
    r"a row of 'x' must have one shape in all files, but it is \(2,\) in": {"x": F4[:, :1], "y": F4[:, 0]},
    "must have one length, of at least one row, but their shapes are": {"x": F4, "y": F4[:2, 0]},
    r"at least one row, but their shapes are \[\(0, 2\), \(0,\)\]; leave": {"x": F4[:0], "y": F4[:0, 0]},
}


@pytest.mark.parametrize("message", WRONG)
def test_files_that_differ_are_refused(tmp_path, message):
    np.savez(tmp_path / "a.npz", x=F4, y=F4[:, 0])
    np.savez(tmp_path / "b.npz", **WRONG[message])
    with pytest.raises((ArtifactError, ShapeError, DtypeError), match=message):
        data.Shards(tmp_path / "*.npz", ("x", "y"))


def test_all_columns_must_be_alike_for_a_function(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,z\n1,2\n")
    with pytest.raises(ArtifactError, match="all files must have the columns of .*a.csv, x, y, but .* x, z"):
        data.Shards(tmp_path / "*.csv", lambda rows: (rows["x"],))
    (tmp_path / "b.csv").write_text("x,y\n1,\n")
    with pytest.raises(DtypeError, match="'y' must have one dtype in all files, but it is float64"):
        data.Shards(tmp_path / "*.csv", lambda rows: (rows["x"],))


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_cut_off_are_reported(tmp_path, kind):
    write(tmp_path / "a", kind, X, Y)
    path = tmp_path / "a" / "x.npy" if kind == "npy" else tmp_path / f"a.{kind}"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises((ArtifactError, ShapeError), match=r"a\.csv|a is not|x\.npy|a\.npz|a\.safetensors"):
        data.Shards(tmp_path / "a*", of_text if kind == "csv" else ("x", "y"))


def test_a_file_that_changes_is_reported(tmp_path):
    write(tmp_path / "a", "npz", X, Y)
    shards = data.Shards(tmp_path / "a.npz", ("x", "y"))
    write(tmp_path / "a", "npz", X[:5], Y[:5])
    with pytest.raises(ArtifactError, match=r"must have a row for each .* there are \[5, 5\] for 22"):
        fit(learner_of(), shards, epochs=1, progress=False)
    path = tmp_path / "a.npz"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ArtifactError, match="a file of data must be readable"):
        shards.read(0)


def test_the_place_of_a_wrong_value_is_reported(tmp_path):
    write(tmp_path / "a", "safetensors", np.where(np.arange(22)[:, None] == 7, np.nan, X), Y)
    shards = data.Shards(tmp_path / "a.safetensors", lambda rows: (rows.numbers("x"),), rows=6)
    with pytest.raises(DtypeError, match="row 2 is .* in rows 7 to 12 of .*a.safetensors"):
        list(batches(shards, 4)(1))


def test_files_must_exist_and_have_a_known_format(tmp_path):
    with pytest.raises(ArtifactError, match="there must be files of examples"):
        data.Shards(tmp_path / "*.npz", ("x",))
    with pytest.raises(OptionError, match=r"did you mean '\.npz'"):
        data.Shards([tmp_path / "x.np"], ("x",))
    with pytest.raises(ArtifactError, match="it has none"):
        data.Shards(tmp_path, ("x",))
    with pytest.raises(OptionError, match="the rows of a part must be an integer"):
        data.Shards(tmp_path, ("x",), rows=0)
