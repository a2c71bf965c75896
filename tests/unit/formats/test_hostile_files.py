"""Files from anywhere: every reader reads them, or refuses in one sentence, within memory and time."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from catgrad.backends.scratch.assemble import sb3, sprite3
from catgrad.backends.scratch.machine.projects import Machine

from catgrad import data
from catgrad.data import Shards
from catgrad.errors import ArtifactError, CatgradError, OptionError, ShapeError, TextError, UnsupportedOp
from catgrad.tokenizers import from_hugging_face
from tests.hostile import bomb
from tests.readers import READERS, with_external

ROOT = Path(__file__).parents[3]
COUNTS = [
    pytest.param(5, id="few"),
    pytest.param(3000, id="many", marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
]


@pytest.mark.parametrize("count", COUNTS)
def test_mutated_files_are_read_or_refused(count):
    for name in READERS:
        if name.startswith("gguf"):
            pytest.importorskip("gguf", reason="the package gguf is not installed")
        if name == "onnx":
            pytest.importorskip("onnx", reason="the package onnx is not installed")
    command = [sys.executable, "-m", "tests.readers", *READERS, str(count), "0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]


def test_a_long_cell_among_short_ones_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("name,x\n" + "a,1\n" * 100_000 + "b" * 100_000 + ",1\n")
    with pytest.raises(ShapeError, match="'name' must be of similar lengths.*row 100,001 has 100,000 char"):
        data.read(path)
    path.write_text("name,x\n" + "a,1\n" * 100 + "b" * 100_000 + ",1\n")
    assert len(data.read(path)["name"]) == 101


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(bomb("x.npy"))
    with pytest.raises(ArtifactError, match=r"must unpack to 268,435,456 bytes at most"):
        data.read(path)
    np.savez_compressed(path, x=np.zeros(2**20))
    assert data.read(path).rows == 2**20


def header(shape, descr="'<f8'"):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


NPY = {
    "huge": header("(2**40,)"),
    "many": header("(1099511627776,)"),
    "negative": header("(-1,)") + bytes(8),
    "tokens": header("(1,")[:-9] + b"\n",
    "deep": header("(" * 500 + ")" * 500),
    "no bytes": header("(9,)", "'<U0'"),
    "objects": header("(1,)", "'|O'") + bytes(8),
    "surrogates": header("(1,)", "'<U1'") + b"\xff\xff\xff\xff",
}


@pytest.mark.parametrize("name", NPY)
def test_headers_of_numpy_must_fit_their_elements(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", NPY[name])
    with pytest.raises(ArtifactError, match="a file of data must be readable"):
        data.read(tmp_path / "x.npz")
    if name != "surrogates":  # bytes are mapped as they are
        (tmp_path / "x.npy").write_bytes(NPY[name])
        with pytest.raises(ArtifactError, match="a file of data must be readable"):
            Shards(tmp_path, "x")


STAGE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
MODEL = {"type": "BPE", "vocab": {"▁": 0, "a": 1}, "merges": []}


@pytest.mark.parametrize(
    "change",
    [{"replacement": 5}, {"replacement": ""}, {"replacement": "ab"}, {"replacement": None},
     {"split": "no"}, {"prepend_scheme": "often"}, {"prepend_scheme": ["first"]}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("part", ["pre_tokenizer", "decoder"])
def test_stages_of_tokenizers_have_the_values_of_the_library(tmp_path, part, change):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": MODEL, part: {**STAGE, **change}}))
    if part == "decoder" and "split" in change:  # decoders have no such entry
        assert from_hugging_face(path).decode([1]) == "a"
    else:
        with pytest.raises(OptionError, match=r"of a tokenizer\.json must be"):
            from_hugging_face(path)


def test_a_deep_tokenizer_is_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": ' + "[" * 99_999)
    with pytest.raises(OptionError, match="must describe a model of tokens"):
        from_hugging_face(path)


def test_half_of_a_surrogate_pair_is_refused_with_its_line():
    for make in (lambda text: sprite3(text, {}), lambda text: sb3([text], {})):
        with pytest.raises(TextError, match="line 2: a text must be Unicode"):
            make('sprite s\n    variable x = "\ud800"\n')
    with pytest.raises(ArtifactError, match="the texts of a sprite must be Unicode"):
        sprite3("sprite s\n    list w given 1\n", {"w": ["\udfff"]})


def test_a_machine_refuses_files_that_are_no_projects(tmp_path):
    for content in (b"", b"PK", bomb("project.json")):
        (tmp_path / "x.sb3").write_bytes(content)
        with pytest.raises(ArtifactError):
            Machine().load(tmp_path / "x.sb3")


@pytest.mark.parametrize("location", ["a\0b", "weights.bin\0"])
def test_names_of_files_with_nul_are_refused(tmp_path, location):
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    from catgrad.frontends.onnx import from_onnx

    made = with_external()
    made.graph.initializer[0].external_data[0].value = location
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(ArtifactError, match="must be in the folder of the model"):
        from_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    "node", [("ConstantOfShape", "s", "z"), ("Expand", "one s", "z"), ("Range", "zero n unit", "z")], ids=str
)
def test_a_constant_of_an_onnx_model_has_a_limit(node):
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    from catgrad.frontends.onnx import from_onnx
    from tests.onnx_models import model

    f = np.float32
    arrays = {
        "s": np.array([10**6, 10**6]),
        "one": np.ones((1, 1)),
        "zero": np.int64(0),
        "n": np.int64(10**12),
        "unit": np.int64(1),
    }
    nodes = [node, ("ReduceMax", "z", "r"), ("Cast", "r", "c", {"to": 1}), ("Add", "x c", "y")]
    with pytest.raises(UnsupportedOp, match="must have 134,217,728 elements at most"):
        from_onnx(model([("x", f, [2, 3])], nodes, [("y", f, 2)], arrays), trainable=())


def test_every_reader_reads_its_own_files(tmp_path):
    for name, reader in READERS.items():
        for content in reader.files():
            path = tmp_path / f"x{reader.suffix}"
            path.write_bytes(content)
            try:
                reader.read(path)
            except CatgradError as error:
                pytest.fail(f"{name}: {error}")
            path.unlink()
