"""Pages of playgrounds: what they contain, and what they refuse."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from catgrad import NdArrayType, Task, emit, layers, mse, sgd
from catgrad.cli import main
from catgrad.errors import ArtifactError, OptionError, ShapeError
from catgrad.playground import Samples, page, write
from examples import iris

TARGETS = ("numpy", "javascript")


@pytest.fixture(scope="module")
def text():
    return page(iris.hidden(), iris.samples(), TARGETS)


@pytest.fixture(scope="module")
def data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def test_sources_are_those_that_are_emitted(data):
    shown = {source["target"]: source["text"] for source in data["sources"]}
    assert shown == {name: emit(iris.hidden(), name).source for name in TARGETS}


def test_a_page_refers_to_nothing_outside(text):
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert "@import" not in text and "url(" not in text


def test_parameters_have_the_names_of_the_task(data):
    assert [each["name"] for each in data["parameters"]] == [slot.name for slot in iris.hidden().parameters]
    assert "d_dense_0_weight" in data["parameters"][0]["identifiers"]
    assert data["rate"]["value"] == 5.0


def test_rows_are_shuffled_and_complete(data):
    x, _ = iris.load()
    shuffled, _ = iris.samples().shuffled()
    np.testing.assert_array_equal(shuffled[data["samples"]["order"]], x)


def test_a_page_without_samples_does_not_train():
    without = page(iris.linear(), targets=())
    assert '"module": null' in without and '"samples": null' in without


def fixed():
    row, batch = NdArrayType((4,)), NdArrayType((10,))
    return Task(layers.linear(batch, row, row), sgd(0.1), mse, "fixed")


def unequal():
    return Samples(np.zeros((3, 4)), np.zeros((2, 3)), 1)


def of_other_rows():
    samples = Samples(np.zeros((3, 5), np.float32), np.zeros((3, 3), np.float32), 1)
    return page(iris.linear(), samples)


@pytest.mark.parametrize(
    ("build", "error", "match"),
    [
        (unequal, ShapeError, "as many targets as inputs"),
        (of_other_rows, ShapeError, "rows of x"),
        (lambda: Samples(np.zeros((3, 4)), np.zeros(3), 4), OptionError, "a batch must be from 1 to 3"),
        (lambda: Samples(np.zeros((2000, 400)), np.zeros(2000), 4), OptionError, "bytes at most"),
        (lambda: page(fixed(), iris.samples()), OptionError, "of any number of rows"),
        (lambda: page(iris.linear().model), OptionError, "must be a Task"),
    ],
)
def test_wrong_samples_and_models_are_refused(build, error, match):
    with pytest.raises(error, match=match):
        build()


def test_a_page_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(ArtifactError, match="must be writable"):
        write(tmp_path, iris.linear(), targets=())


def test_the_command_finds_the_samples_beside_the_model(tmp_path, capsys):
    file = tmp_path / "iris.html"
    with pytest.raises(SystemExit) as ended:
        main(["playground", "examples.iris:linear", "-o", str(file), "-t", "numpy"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip().endswith("iris.html")
    assert file.read_text(encoding="utf-8") == page(iris.linear(), iris.samples(), ["numpy"])


def test_samples_of_another_type_are_refused(tmp_path, capsys):
    file = tmp_path / "iris.html"
    with pytest.raises(SystemExit) as ended:
        main(["playground", "examples.iris:linear", "-o", str(file), "--samples", "examples.iris:DATA"])
    assert ended.value.code == 2
    assert "examples.iris:DATA must be Samples" in capsys.readouterr().err
    assert not file.exists()
