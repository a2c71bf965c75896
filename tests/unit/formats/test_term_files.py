"""Files of terms: what is saved is what is loaded, and no other file is loaded."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from typer.testing import CliRunner

import catgrad
from catgrad import Dim, Functions, NdArrayType, Task, build, layers, mse, ops
from catgrad.errors import ArtifactError, CatgradError, OptionError, TermError
from catgrad.formats import terms as files
from catgrad.formats.open_hypergraphs import from_rust, to_rust
from catgrad.initialisers import Stored
from catgrad.learn.entries import terms_of
from catgrad.learn.optimisers import adamw
from catgrad.programs.program import evaluate
from catgrad.terms.columns import write_columns
from catgrad.terms.term import Term
from catgrad.testing import isomorphic
from tests.models import TASKS

X = NdArrayType((3,))
NAN = float("nan")


def looped(x):
    """Build a loop, a branch, a parameter with stored values and constants that are not finite."""
    w = layers.parameter("w", X, Stored(np.arange(3, dtype=np.float32), catgrad.initialisers.ZEROS))
    total, _ = ops.scan(lambda h, row: (ops.tanh(h) * row, h), ops.sum(x), x)
    y = ops.cond(total > 0, lambda: x * w, lambda: x + ops.broadcast(total, (3,)))
    return ops.select(y > float("-inf"), y, ops.zeros_like(y) + NAN) + ops.array([0.1, -0.0, 1e-30])


def stateful():
    """Build a task whose tables all have arrays, with a symbolic batch."""
    B = NdArrayType((Dim("n"),))
    model = layers.sequential(layers.dense(B, X, X), layers.batch_norm(B + X), layers.dropout(B + X))
    return Task(model, adamw(0.01), mse)


MODELS = {
    **TASKS,
    "stateful": stateful,
    "looped": lambda: build(looped, [X]),
    "functions": lambda: Functions({"f": build(looped, [X]), "g": build(lambda x: ops.exp(x), [X])}),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def content(model):
    """Return the bytes of a model's file."""
    return json.dumps(files.to_json(model if isinstance(model, Term) else terms_of(model))).encode()


def test_saved_models_are_loaded(model, tmp_path):
    file = tmp_path / "model.catgrad.json"
    catgrad.save(model, file)
    loaded = catgrad.load(file)
    assert catgrad.digest(loaded) == catgrad.digest(model)
    if isinstance(model, Term):
        assert isomorphic(loaded, model)
        return
    saved = terms_of(model)
    assert (
        loaded.tables == saved.tables
        and loaded.name == saved.name
        and list(loaded.entries) == list(saved.entries)
    )
    for name, entry in saved.entries.items():
        assert (loaded.entries[name].inputs, loaded.entries[name].outputs) == (entry.inputs, entry.outputs)
        assert write_columns(loaded.entries[name].term) == write_columns(entry.term)
    catgrad.save(loaded, tmp_path / "again.catgrad.json")
    assert (tmp_path / "again.catgrad.json").read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *(("stateful", target) for target in ("numpy", "torch", "jax", "c", "ggml", "torch-module")),
        *(("functions", target) for target in ("numpy", "c")),
    ],
)
def test_a_file_is_emitted_like_its_model(name, target, tmp_path):
    model, file = MODELS[name](), tmp_path / "model.catgrad.json"
    catgrad.save(model, file)
    assert catgrad.emit(catgrad.load(file), target).files == catgrad.emit(model, target).files


@pytest.mark.parametrize("target", ["numpy", "torch", "jax", "c", "cuda", "ggml", "scratch", "torch-module"])
def test_every_emitted_file_states_the_hash_of_the_model(target):
    task = MODELS["mlp"]()
    texts = {n: t for n, t in catgrad.emit(task, target).files.items() if isinstance(t, str)}
    assert texts
    for name, text in texts.items():
        assert catgrad.digest(task) in (text if name.endswith(".json") else text.splitlines()[0]), name


def test_models_of_onnx_state_the_hash_in_their_metadata():
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    task = MODELS["mlp"]()
    models = [text for name, text in catgrad.emit(task, "onnx").files.items() if name.endswith(".onnx")]
    assert models
    for model in models:
        assert onnx.load_from_string(model).metadata_props[0].value == catgrad.digest(task)


def test_hyperparameters_change_the_hash():
    assert catgrad.digest(TASKS["mlp"]()) != catgrad.digest(TASKS["mlp"](adamw(0.1)))
    assert catgrad.digest(TASKS["mlp"](adamw(0.1))) != catgrad.digest(TASKS["mlp"](adamw(0.2)))


def test_loaded_terms_compute_the_same():
    term = MODELS["looped"]()
    loaded = files.from_bytes(content(term))
    opened = [catgrad.functors.factor_parameters(each)[1] for each in (term, loaded)]
    arrays = np.float32([1, 2, 3]), np.float32([0.5, -1, 2])
    [expected], [found] = (evaluate(each, *arrays) for each in opened)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["mlp", "looped"])
def test_rust_json_is_read_as_it_was_written(name):
    model = MODELS[name]()
    term = model if isinstance(model, Term) else model.term("step")
    assert write_columns(from_rust(to_rust(term))) == write_columns(term)


def test_rust_json_has_the_fields_of_a_lax_open_hypergraph():
    data = json.loads(to_rust(build(lambda x: ops.softmax(x), [X])))
    assert data == {
        "sources": [0],
        "targets": [1],
        "hypergraph": {
            "nodes": [["f32", [3]], ["f32", [3]]],
            "edges": [["Softmax", {"axis": 0}]],
            "adjacency": [{"sources": [0], "targets": [1]}],
            "quotient": [[], []],
        },
    }


def test_nodes_that_a_quotient_identifies_are_one_wire():
    """Rust composes lax terms side by side, and lists the wires to identify."""
    data = json.loads(to_rust(build(lambda x: ops.exp(x), [X])))
    inner = data["hypergraph"]
    inner["nodes"] *= 2
    inner["edges"].append(["Tanh"])
    inner["adjacency"].append({"sources": [2], "targets": [3]})
    inner["quotient"], data["targets"] = [[1], [2]], [3]
    assert isomorphic(from_rust(json.dumps(data)), build(lambda x: ops.tanh(ops.exp(x)), [X]))
    inner["nodes"][2] = ["f32", [4]]
    with pytest.raises(TermError, match="identify nodes of one type"):
        from_rust(json.dumps(data))


def edited(change):
    """Return the file of exp : X → X with a change."""
    data = json.loads(content(build(lambda x: ops.exp(x), [X])))
    change(data)
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda d: d.update(version=2), ArtifactError, "the version 1"),
        (lambda d: d.update(format="onnx"), ArtifactError, "the format"),
        (lambda d: d.update(sha256="0" * 64), ArtifactError, "the hash that it states"),
        (lambda d: d["term"].update(outputs=[2]), TermError, "integers from 0 to 1 as its column outputs"),
        (lambda d: d["term"].update(outputs=[0]), TermError, "one producer and one consumer"),
        (lambda d: d["term"].update(inputs=[], outputs=[], targets=[0], wires=[0]), TermError, "acyclic"),
        (lambda d: d["term"].update(types=[["f32", [3]], ["f32", [4]]], wires=[0, 1]), CatgradError, "types"),
        (lambda d: d["term"].update(operations=[["os.system"]]), OptionError, "one that is declared"),
        (
            lambda d: d["term"].update(operations=[["Softmax", {"axis": "0"}]]),
            OptionError,
            "integer of 64 bits",
        ),
        (lambda d: d["term"].update(types=[["f32", [{"n": 0}]]]), CatgradError, "a polynomial"),
        (lambda d: d["term"].update(types=[["f32", [-1]]]), OptionError, "an integer of at least 0"),
        (lambda d: d.pop("sha256"), OptionError, "a table of format, version, sha256, term"),
    ],
)
def test_invalid_files_are_refused_with_a_reason(change, error, message):
    with pytest.raises(error, match=message):
        files.from_bytes(edited(change))


def test_files_that_are_no_files_of_terms_are_refused(tmp_path):
    for text in (b"", b"[]", b"{", b"\xff", b'{"a": NaN}', b'{"a": 1, "a": 1}', b"[" * 100_000):
        (tmp_path / "a.catgrad.json").write_bytes(text)
        with pytest.raises(ArtifactError):
            catgrad.load(tmp_path / "a.catgrad.json")
    with pytest.raises(ArtifactError):
        catgrad.load(tmp_path / "missing.catgrad.json")
    with pytest.raises(ArtifactError, match="writable"):
        catgrad.save(MODELS["looped"](), tmp_path / "missing" / "a.catgrad.json")
    with pytest.raises(OptionError):
        catgrad.save(print, tmp_path / "a.catgrad.json")


VALUES = (
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, "", "f32", "nan", "inf",
    "Copy", "a.b", "bool", "Exp", [], {}, [[]], {"n": 1}, {"n": -1, "": 2}, ["f32", [3]], [0, 0],
    ["Filled", {"value": 1.0}],
)  # fmt: skip


def mutated(data, rng):
    """Replace, remove, repeat or exchange one value of JSON."""
    if isinstance(data, (dict, list)) and data and rng.random() < 0.93:
        keys = list(data) if isinstance(data, dict) else range(len(data))
        key, copied = rng.choice(keys), data.copy()
        kind = rng.random()
        if kind < 0.85:
            copied[key] = mutated(data[key], rng)
        elif kind < 0.9:
            del copied[key]
        elif kind < 0.95 and isinstance(data, list):
            copied.insert(rng.randrange(len(data) + 1), data[key])
        else:
            copied[key] = data[rng.choice(keys)]
        return copied
    if type(data) is int and rng.random() < 0.6:
        return data + rng.choice((-2, -1, 1, 2))
    if isinstance(data, str) and rng.random() < 0.5:
        return data[::-1] if rng.random() < 0.5 else data[:-1]
    return rng.choice(VALUES)


def mutated_text(text, rng):
    """Change, remove or insert a byte."""
    place = rng.randrange(len(text))
    byte = rng.choice(
        (b"", b"0", b'"', b",", b"[", b"{", b"\x00", b"\xc3", b"9", b"-", b"e", bytes([rng.randrange(256)]))
    )
    return text[:place] + byte + text[place + rng.randrange(2) :]


MANY = {"looped": 60_000, "functions": 30_000, "mlp": 10_000}
"""Numbers of mutations by model: 100,000 together."""


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 100) for name in MODELS),
        *(pytest.param(*each, marks=pytest.mark.long) for each in MANY.items()),
    ],
)
@pytest.mark.timeout(3600)
def test_mutated_files_give_typed_errors_only(name, count):
    """A file that is read in spite of a mutation is of the same model, up to what the hash leaves out."""
    model = MODELS[name]()
    text = content(model)
    data, expected, read = json.loads(text), catgrad.digest(model), 0
    rng = random.Random(f"{expected}{count}")
    for _ in range(count):
        changed = data
        for _ in range(rng.choice((1, 1, 2, 5))):
            changed = mutated(changed, rng)
        bad = json.dumps(changed).encode() if rng.random() < 0.7 else mutated_text(text, rng)
        try:
            found = files.from_bytes(bad)
        except CatgradError:
            continue
        assert catgrad.digest(found) == expected
        read += 1
    assert read < count / 2


def test_commands_take_files(tmp_path, monkeypatch):
    from catgrad.cli.terms import app

    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    assert run(app, ["save", "tests.models:mlp", "-o", "mlp.catgrad.json"]).stdout == "mlp.catgrad.json\n"
    expected = catgrad.digest(TASKS["mlp"]())
    for model in ("tests.models:mlp", "mlp.catgrad.json"):
        assert run(app, ["hash", model]).stdout.split() == [expected]
    assert run(app, ["emit", "mlp.catgrad.json", "-o", "."]).exit_code == 0
    assert expected in (tmp_path / "mlp.py").read_text()
    assert run(app, ["verify", "mlp.catgrad.json"]).exit_code == 0
