"""Playgrounds in a browser: they train as other targets do, ask for nothing, and show no error."""

from __future__ import annotations

import base64
import json
from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pytest
from safetensors.numpy import load

from catgrad import emit
from catgrad.playground import write
from examples import digits, iris

from .editor import missing
from .playground import LESSON, visit

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(missing()), reason=f"a browser: {missing()}")]
STEPS = 20

TRAIN = f"""(async () => {{
    const losses = playground.train({STEPS});
    const file = await playground.weights();
    const sprite = new Uint8Array(await playground.sprite().arrayBuffer());
    const shown = document.getElementById("steps").textContent;
    const text = bytes => btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(""));
    return {{ losses, file: text(file), sprite: text(sprite), shown }};
}})()"""


FIGURES = """(() => {
    const shown = { steps: "1,234,567", loss: "9.056e-7", accuracy: "100.0%" };
    for (const [id, text] of Object.entries(shown)) document.getElementById(id).textContent = text;
    const figures = [...document.querySelectorAll(".figures dd")], range = document.createRange();
    const rightOf = it => (range.selectNodeContents(it), range.getBoundingClientRect().right);
    const linesOf = it => Math.round(it.clientHeight / parseFloat(getComputedStyle(it).lineHeight));
    const right = Math.max(...figures.map(rightOf)), lines = figures.map(linesOf);
    return { right, end: document.querySelector(".controls").getBoundingClientRect().right, lines };
})()"""

LABELS = """(() => {
    const labels = [], canvas = document.getElementById("curve"), pen = CanvasRenderingContext2D.prototype;
    const { fillText } = pen;
    pen.fillText = function (text, x, y) {
        const { actualBoundingBoxLeft: left, actualBoundingBoxRight: right } = this.measureText(text);
        if (this.canvas === canvas) labels.push([text, x - left, x + right]);
        fillText.call(this, text, x, y);
    };
    playground.train(%d);
    return { labels, width: canvas.getBoundingClientRect().width };
})()"""

SEVEN = """(() => {
    playground.train(300);
    const pad = document.getElementById("pad"), { left, top, width, height } = pad.getBoundingClientRect();
    pad.setPointerCapture = () => {};  // there is no pointer to capture
    const move = (type, x, y) => pad.dispatchEvent(
        new PointerEvent(type, { clientX: left + x * width, clientY: top + y * height })
    );
    move("pointerdown", 0.3, 0.25);
    move("pointermove", 0.7, 0.25);
    move("pointermove", 0.45, 0.8);
    move("pointerup", 0.45, 0.8);
    return document.querySelector("#bars .best").textContent;
})()"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write(tmp_path_factory.mktemp("page") / "iris.html", iris.hidden(), iris.samples())


@pytest.fixture(scope="module")
def visited(page):
    return visit(page, TRAIN)


def test_the_losses_and_weights_are_those_of_numpy(visited):
    x, y = iris.samples().shuffled()
    learner = emit(iris.hidden(), "numpy").load()().learner()
    expected = [float(learner.step(x, y)) for _ in range(STEPS)]
    np.testing.assert_allclose(visited["result"]["losses"], expected, rtol=0, atol=1e-5)
    assert visited["result"]["shown"] == str(STEPS)
    saved = load(base64.b64decode(visited["result"]["file"]))
    assert saved.keys() == learner.parameters.keys()
    for name, array in saved.items():
        np.testing.assert_allclose(array, learner.parameters[name], rtol=0, atol=1e-5)


def test_the_sprite_has_the_weights_that_were_trained(visited):
    """Other files, and all that is no list of parameters, are those of the emitted sprite."""
    emitted = emit(iris.hidden(), "scratch").files["hidden.sprite3"]
    saved = load(base64.b64decode(visited["result"]["file"]))
    projects = []
    for content in (emitted, base64.b64decode(visited["result"]["sprite"])):
        with ZipFile(BytesIO(content)) as archive:
            assert archive.testzip() is None
            projects.append({name: archive.read(name) for name in archive.namelist()})
    before, after = (json.loads(files.pop("sprite.json")) for files in projects)
    assert projects[0] == projects[1]
    lists, initial = (dict(project.pop("lists").values()) for project in (after, before))
    assert after == before
    for name, array in saved.items():
        np.testing.assert_array_equal(np.float32(lists.pop(name)), array.ravel())
        assert len(initial.pop(name)) == array.size
    assert lists == initial


def test_the_page_asks_for_nothing_and_has_no_errors(visited, page):
    assert visited["errors"] == []
    outside = [address for address in visited["requests"] if not address.startswith(("blob:", "data:"))]
    assert outside == [f"file://{page}"[:80]]


def test_a_parameter_lights_up_everywhere(page):
    lit = """[...document.querySelectorAll("article")].map(it => it.querySelectorAll("mark.lit").length)"""
    nodes = """document.querySelectorAll(".diagram .node.lit").length"""
    visited = visit(page, f"{LESSON}; ({{ lit: {lit}, nodes: {nodes} }})")
    assert visited["errors"] == []
    assert all(count > 0 for count in visited["result"]["lit"])
    assert visited["result"]["nodes"] == 1


def test_a_phone_in_the_dark_shows_all_in_its_width(page):
    visited = visit(page, "document.documentElement.scrollWidth", width=375, height=800, dark=True)
    assert visited["errors"] == [] and visited["result"] <= 375


def test_long_numbers_fit_a_phone(page):
    """Each of the figures is in one line, and none goes beyond the row of controls."""
    visited = visit(page, FIGURES, width=360, height=800)
    assert visited["errors"] == []
    assert visited["result"]["right"] <= visited["result"]["end"]
    assert visited["result"]["lines"] == [1, 1, 1]


@pytest.mark.parametrize("steps", [0, 400])
def test_the_labels_of_the_chart_are_not_cut(page, steps):
    visited = visit(page, LABELS % steps, width=360, height=800)
    assert visited["errors"] == [] and len(visited["result"]["labels"]) > 4
    for _, left, right in visited["result"]["labels"]:
        assert 0 <= left < right <= visited["result"]["width"]


def test_a_digit_that_is_drawn_is_read(tmp_path):
    visited = visit(write(tmp_path / "digits.html", digits.mlp(), digits.samples(), ["numpy"]), SEVEN)
    assert visited["errors"] == []
    assert visited["result"] == "7"
