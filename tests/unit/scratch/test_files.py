"""Saved projects of Scratch: lists as items and as arrays, from untrusted files."""

from __future__ import annotations

import io
import json
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from catgrad.backends.scratch.assemble import sb3, sprite3
from catgrad.backends.scratch.formats import projects as scratch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from catgrad import Dtype, NdArrayType
from catgrad.errors import ArtifactError
from catgrad.terms.state import Slot


def archive(content, name="project.json"):
    """Build a file with this description."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content if isinstance(content, str | bytes) else json.dumps(content))
    return buffer.getvalue()


def project(**targets):
    """Build a project whose targets have these lists."""
    return archive(
        {
            "targets": [
                {"name": name, "lists": {str(place): list(each) for place, each in enumerate(lists.items())}}
                for name, lists in targets.items()
            ]
        }
    )


def test_lists_have_their_names_and_those_of_two_targets_both():
    file = project(Stage={"input": [1]}, a={"w": [2], "v": ["x"]}, b={"w": [True]})
    assert scratch.read(file) == {"input": [1], "a/w": [2], "v": ["x"], "b/w": [True]}


def test_a_file_may_be_a_path(tmp_path):
    path = tmp_path / "s.sprite3"
    path.write_bytes(sprite3("sprite s\n    list w = 1, 2\n", {}))
    assert scratch.read(path) == scratch.read(str(path)) == {"w": [1, 2]}


SHAPES = arrays.array_shapes(max_dims=3, max_side=3, min_side=0)


@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float64]),
        SHAPES,
        elements={"allow_nan": False, "allow_infinity": False},
    )
    | arrays.arrays(st.sampled_from([np.int32, np.uint32]), SHAPES)
)
def test_written_files_are_read_back(array):
    file = sb3([f"sprite s\n    list w given {array.size}\n"], {"w": array})
    slot = Slot("w", NdArrayType(array.shape, Dtype[array.dtype.name]))
    read = scratch.read_arrays(file, [slot])["w"]
    assert read.dtype == array.dtype and read.shape == array.shape and np.array_equal(read, array)


def test_imported_texts_are_numbers():
    slot = Slot("w", NdArrayType((2, 2), Dtype.float64))
    read = scratch.read_arrays(project(s={"w": ["1.5", " -2e3 ", ".5", 4]}), [slot])
    assert read["w"].tolist() == [[1.5, -2000], [0.5, 4]]


@pytest.mark.parametrize(
    ("lists", "dtype", "error"),
    [
        ({}, "float32", "the file must have one list w, but it has none"),
        ({"w": [1]}, "float32", "the list w must have 2 items, as f32.2. has, but it has 1"),
        ({"w": [1, "cat"]}, "float32", "the items of w must be finite numbers, but item 2 is 'cat'"),
        ({"w": [1, ""]}, "float32", "item 2 is ''"),
        ({"w": [1, "1_0"]}, "float32", "item 2 is '1_0'"),
        ({"w": [1, "nan"]}, "float32", "item 2 is 'nan'"),
        ({"w": ["1e999", 1]}, "float32", "item 1 is inf"),
        ({"w": [10**400, 1]}, "float32", "item 1 is 1000"),
        ({"w": [1, True]}, "float32", "item 2 is True"),
        ({"w": [1, 1e300]}, "float32", "the items of w must be numbers of f32, but item 2 is 1e.300"),
        ({"w": [1, 2.5]}, "int64", "the items of w must be numbers of i64, but item 2 is 2.5"),
        ({"w": [-1, 2]}, "uint32", "the items of w must be numbers of u32, but item 1 is -1"),
    ],
)
def test_lists_of_another_shape_or_dtype_are_refused(lists, dtype, error):
    with pytest.raises(ArtifactError, match=error) as raised:
        scratch.read_arrays(project(s=lists), [Slot("w", NdArrayType((2,), Dtype[dtype]))])
    assert "\n" not in str(raised.value)


def test_a_list_of_two_sprites_is_refused():
    with pytest.raises(ArtifactError, match="must have one list w, but it has a/w, b/w"):
        scratch.read_arrays(project(a={"w": [1]}, b={"w": [2]}), [Slot("w", NdArrayType((1,)))])


def lists(text):
    """Build a sprite with these lists."""
    return archive(f'{{"name": "s", "lists": {text}}}', "sprite.json")


def damaged(file, place):
    return file[:place] + bytes([file[place] ^ 0xFF]) + file[place + 1 :]


@pytest.mark.parametrize(
    "file",
    [
        b"", b"text", b"PK\x05\x06", sb3([], {})[:-30], damaged(sb3([], {}), 60), "/nowhere/at/all.sb3",
        archive("", "other.json"), archive(b" " * (scratch.MAX_JSON_BYTES + 1)), archive("[" * 100_000),
        archive("{"), archive("[]"), archive("3"), archive(b"\xff\xfe"), archive('{"targets": 3}'),
        archive('{"targets": [3]}'), archive('{"targets": [{"name": 1}]}'), lists("[]"), lists('{"a": 1}'),
        lists('{"a": ["w", [NaN]]}'), lists('{"a": ["w", [null]]}'), lists(f'{{"a": ["w", [{"9" * 5000}]]}}'),
    ],
    ids=[f"file {number}" for number in range(21)],
)  # fmt: skip
def test_files_that_are_no_project_are_refused(file):
    with pytest.raises(ArtifactError, match="must be a project or sprite of Scratch, but") as raised:
        scratch.read(file)
    assert "\n" not in str(raised.value)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_damaged_file_is_refused_or_read(place, change):
    """Damage to a byte raises nothing but an ArtifactError."""
    file = bytearray(sprite3("sprite s\n    list w = 1, 2\n", {}))
    file[place % len(file)] ^= change
    with suppress(ArtifactError):
        assert isinstance(scratch.read(bytes(file)), dict)
