"""The files that an emitted C library reads and writes, and errors for malformed ones."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad.errors import ArtifactError
from catgrad.formats import safetensors
from tests.unit.c.build import NEEDS_C, PROGRAMS, SANE, STRICT, built, run
from tests.unit.line import emitted

pytestmark = NEEDS_C


@pytest.fixture(scope="module")
def files_tool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    emitted().write(folder)
    sources = [PROGRAMS / "files.c", "line_files.c", "line.c"]
    built("gcc", "-std=c11", *STRICT, *SANE, "-I.", *sources, "-o", "files", "-lm", cwd=folder)
    return folder / "files"


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "dense.bias": rng.normal(size=3).astype(np.float32),
        "dense.weight": rng.normal(size=(4, 3)).astype(np.float32),
        "dense.seen": np.array(2**40 + seed),
        "momentum.dense.weight": rng.normal(size=(4, 3)).astype(np.float32),
        "momentum.dense.bias": rng.normal(size=3).astype(np.float32),
    }


def test_files_round_trip(files_tool, tmp_path):
    old, new = tmp_path / "old.safetensors", tmp_path / "new.safetensors"
    safetensors.write(old, arrays(), {"said": 'a "text" \\ with é'})
    done = run(files_tool, old, new)
    assert done.returncode == 0, done.stdout + done.stderr
    found = safetensors.read(new)
    assert found.keys() == arrays().keys()
    assert all(np.array_equal(found[name], array) for name, array in arrays().items())
    assert not list(tmp_path.glob("*.part"))
    # The names that other programs know, and what they check.
    from safetensors.numpy import load_file, save_file

    assert load_file(new).keys() == found.keys()
    save_file(arrays(1), old)
    assert run(files_tool, old, new).returncode == 0
    assert np.array_equal(safetensors.read(new)["dense.seen"], arrays(1)["dense.seen"])


def test_parameters_alone(files_tool, tmp_path):
    """A file of another program has no state; and a caller may read the parameters only."""
    some, path, new = ("dense.weight", "dense.bias"), tmp_path / "a", tmp_path / "b"
    safetensors.write(path, {name: arrays()[name] for name in some})
    assert run(files_tool, path).returncode == 0
    safetensors.write(path, arrays())
    assert run(files_tool, path, new, "parameters").returncode == 0
    assert set(safetensors.read(new)) == set(some)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dense.bias": None}, "lacks an array"),
        ({"momentum.dense.bias": None}, "lacks an array"),
        ({"more": np.zeros(3)}, "or has another"),
        ({"dense.bias": np.zeros(4, np.float32)}, "another dtype or shape"),
        ({"dense.bias": np.zeros(3)}, "another dtype or shape"),
        ({"dense.bias": np.zeros((1, 3), np.float32)}, "another dtype or shape"),
    ],
)
def test_other_files_are_refused(files_tool, tmp_path, change, says):
    changed = {name: a for name, a in (arrays() | change).items() if a is not None}
    safetensors.write(tmp_path / "a", changed)
    done = run(files_tool, tmp_path / "a")
    assert done.returncode > 0
    assert says in done.stdout


def test_unreadable_paths_are_refused(files_tool, tmp_path):
    assert "cannot be opened" in run(files_tool, tmp_path / "none").stdout
    assert "not a whole safetensors file" in run(files_tool, tmp_path).stdout


def test_a_file_that_cannot_be_written_leaves_the_old_one(files_tool, tmp_path):
    safetensors.write(tmp_path / "a", arrays())
    there = tmp_path / "there"
    there.mkdir()
    (there / "kept").write_text("kept")
    assert "cannot be written" in run(files_tool, tmp_path / "a", there).stdout
    assert (there / "kept").read_text() == "kept"
    assert not list(tmp_path.glob("*.part"))


def whole_file(tmp_path):
    safetensors.write(tmp_path / "whole", arrays())
    return (tmp_path / "whole").read_bytes()


def check_as_python(files_tool, tmp_path, content):
    """C refuses the files that Python refuses, without changes, and reads the same from others."""
    (tmp_path / "a").write_bytes(content)
    done = run(files_tool, tmp_path / "a", tmp_path / "b")
    assert done.stderr == ""
    assert done.stdout in {*MESSAGES.values()}, done.stdout
    if done.returncode == 0:
        ours, theirs = safetensors.read(tmp_path / "a"), safetensors.read(tmp_path / "b")
        assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)


MESSAGES = {
    0: "no error\n",
    6: "the file is not a whole safetensors file\n",
    7: "the file lacks an array of the model, or has another\n",
    8: "an array of the file has another dtype or shape than the model's\n",
}


@given(st.data())
@settings(max_examples=150)
def test_corrupt_files(files_tool, tmp_path_factory, data):
    tmp_path = tmp_path_factory.mktemp("corrupt")
    content = bytearray(whole_file(tmp_path))
    header = 8 + int.from_bytes(content[:8], "little")
    if data.draw(st.booleans(), "cut"):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    for _ in range(data.draw(st.integers(0, 3), "flips") if content else 0):
        place = data.draw(st.integers(0, min(header, len(content)) - 1))
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    check_as_python(files_tool, tmp_path, bytes(content))
    shutil.rmtree(tmp_path)


def header_of(entries):
    text = json.dumps(entries).encode() if not isinstance(entries, bytes) else entries
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "entry",
    [
        b'{"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}',
        b'{"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}',
        b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","dtype":"F32","shape":[1]}}',
        b'{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},}',
        b'{"__metadata__":{"a":{"b":"c"}}}',
        b'{"__metadata__":{"a":"\\u12"}}',
        b'{"__metadata__":{"a":"\\',
        b'{"a":{"dtype":"F32","shape":[01],"data_offsets":[0,4]}}',
        b"{}}",
        b"[]",
        b"{",
        b"",
        b'"',
        b"null",
        b"{} {}",
    ],
)
def test_malformed_headers(files_tool, tmp_path, entry):
    (tmp_path / "a").write_bytes(header_of(entry) + b"data")
    done = run(files_tool, tmp_path / "a")
    assert (done.returncode, done.stderr) == (6, "")


def test_arrays_that_overlap_are_refused(files_tool, tmp_path):
    """The arrays have the right shapes, and two of them overlap."""
    content = whole_file(tmp_path)
    size = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + size])
    entries["momentum.dense.weight"]["data_offsets"] = entries["dense.weight"]["data_offsets"]
    (tmp_path / "a").write_bytes(header_of(entries) + content[8 + size :])
    assert run(files_tool, tmp_path / "a").returncode == 6
    with pytest.raises(ArtifactError):
        safetensors.read(tmp_path / "a")


def test_names_may_be_escaped(files_tool, tmp_path):
    content = whole_file(tmp_path)
    size = int.from_bytes(content[:8], "little")
    text = content[8 : 8 + size].replace(b'"dense.bias"', b'"d\\u0065nse.bias"')
    (tmp_path / "a").write_bytes(header_of(text) + content[8 + size :])
    assert run(files_tool, tmp_path / "a").returncode == 0
