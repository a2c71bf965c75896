"""Emitted WebAssembly with threads in a page of Chromium: workers share a memory if the page is isolated."""

from __future__ import annotations

import json
from base64 import b64encode

import numpy as np
import pytest
from catgrad.backends.wasm.build import library

from tests.conformance.test_wasm_threads import BATCH, WIDTH, wide
from tests.targets import cannot, emit

from .editor import ask, missing

MISSING = missing() or cannot("wasm")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(MISSING), reason=f"a browser: {MISSING}")]
STEPS = 3

TRAIN = """(async (text, features) => {
    const { createModel } = await import("/wide.mjs");
    const wasm = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const x = Float32Array.from(features), found = {};
    for (const threads of [1, 2, 4]) {
        try {
            const model = await createModel({ wasm, threads }), losses = [];
            for (let i = 0; i < %d; i++) losses.push(model.step(%d, x, x));
            model.terminate();
            found[threads] = losses;
        } catch (error) {
            found[threads] = error.message;
        }
    }
    return found;
})(%s, %s)"""


def visited(isolated):
    """Train in a page by several numbers of threads; returns the losses of each, or why there are none."""
    artifact, (x, _) = emit(wide(), "wasm", openmp=True), data()
    text = b64encode(library(artifact).read_bytes()).decode()
    script = TRAIN % (STEPS, BATCH, json.dumps(text), json.dumps(x.ravel().tolist()))
    answer = ask("module.cjs", 120, files=artifact.files, script=script, isolated=isolated)
    assert answer["errors"] == []
    return answer["result"]


def data():
    """Draw inputs and targets."""
    x = np.random.default_rng(0).random((BATCH, WIDTH), np.float32)
    return x, x


def test_an_isolated_page_trains_with_workers_as_without():
    found = visited(isolated=True)
    learner = emit(wide(), "wasm").load()().learner()
    expected = [float(learner.step(*data())) for _ in range(STEPS)]
    assert found == {"1": expected, "2": expected, "4": expected}


def test_a_page_without_the_headers_trains_in_one_thread_only():
    found = visited(isolated=False)
    assert len(found.pop("1")) == STEPS
    assert all("Cross-Origin-Opener-Policy: same-origin" in message for message in found.values())
