"""Emitted declarations are those of the emitted modules, by TypeScript's compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from catgrad.backends.javascript.session import NODE

from catgrad import Dtype, NdArrayType, Task, layers, losses, optimisers
from tests.models import BATCH, INPUT, OUTPUT
from tests.targets import emit

PACKAGES = Path(__file__).parents[1] / "typescript" / "node_modules"
TYPESCRIPT = PACKAGES / "typescript" / "bin" / "tsc"
OPTIONS = ["--noEmit", "--strict", "--skipDefaultLibCheck", "--target", "es2022", "--module", "nodenext"]
HOSTS = {
    "any engine": ["--lib", "es2022"],
    "a browser": ["--lib", "es2022,dom", "--types", PACKAGES / "@webgpu" / "types"],
}
USE = """
import { createModel, type Model, type Parameters } from "./net.mjs";

const model: Model = await createModel({ seed: 1, weights: new Uint8Array(0) });
const x = new Float32Array(8), labels = new Float64Array(2);
const y_hat: Float32Array = model.predict(2, x);
const losses: number[] = [model.loss(2, x, labels), model.step(2, x, labels)];
const { loss, gradients } = model.grads(2, x, labels);
const same: [number, Parameters] = [loss, gradients];
model.update(gradients);
model.parameters["dense.weight"].fill(0);
const mean: Float32Array = model.buffers["norm.running_mean"];
model.load(model.save());
// @ts-expect-error
model.predict(x);
// @ts-expect-error
model.predict(2, [1, 2]);
// @ts-expect-error
model.parameters = {};
// @ts-expect-error
model.forecast(2, x);
"""
COUNTERS = {
    "javascript": "const count: Float64Array = model.state.step;",
    "wasm": """
const count: BigInt64Array = model.state.step;
model.loss(2, x, new BigInt64Array(2));
await createModel({ wasm: new ArrayBuffer(0) });
""",
}

USE_WITH_THREADS = """
import { createModel, type Model } from "./net.mjs";

const model: Model = await createModel({ threads: 2 });
model.terminate();
// @ts-expect-error
await createModel({ threads: "2" });
"""

USE_ON_DEVICE = """
import { createModel, type Model, type Parameters } from "./net.mjs";

declare const device: GPUDevice;
const model: Model = await createModel({ seed: 1, device, weights: new ArrayBuffer(0) });
const x = new Float32Array(8), labels = new Float64Array(2);
const y_hat: Float32Array = await model.predict(2, x);
const losses: number[] = [await model.loss(2, x, labels), await model.step(2, x, labels)];
const { loss, gradients } = await model.grads(2, x, labels);
const same: [number, Parameters] = [loss, gradients];
await model.update(gradients);
await model.download();
const count: Float64Array = model.state.step;
model.parameters["dense.weight"].fill(0);
model.upload();
model.load(await model.save());
// @ts-expect-error
const promised: number = model.step(2, x, labels);
// @ts-expect-error
await createModel({ device: {} });
"""

pytestmark = pytest.mark.skipif(
    bool(NODE.missing()) or not TYPESCRIPT.exists(), reason="TypeScript is not installed: make test"
)


@pytest.fixture(scope="module")
def task():
    model = layers.dense(BATCH, INPUT, OUTPUT) >> layers.batch_norm(BATCH + OUTPUT)
    labels = NdArrayType(BATCH.shape, Dtype.int64)
    return Task(model, optimisers.adam(0.1), losses.cross_entropy, "net", (labels,))


def complaints(host, folder, uses):
    """Return all that the compiler says of files."""
    command = ["node", TYPESCRIPT, *OPTIONS, *HOSTS[host], *uses]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60).stdout


def test_programs_in_typescript_are_checked(tmp_path, task):
    for target, counters in COUNTERS.items():
        emit(task, target).write(tmp_path / target)
        (tmp_path / target / "use.mts").write_text(USE + counters)
    assert complaints("any engine", tmp_path, [f"{target}/use.mts" for target in COUNTERS]) == ""


def test_programs_with_threads_are_checked(tmp_path, task):
    emit(task, "wasm", openmp=True).write(tmp_path)
    (tmp_path / "use.mts").write_text(USE_WITH_THREADS)
    assert complaints("any engine", tmp_path, ["use.mts"]) == ""


def test_programs_with_webgpu_are_checked(tmp_path, task):
    emit(task, "webgpu").write(tmp_path)
    (tmp_path / "use.mts").write_text(USE_ON_DEVICE)
    assert complaints("a browser", tmp_path, ["use.mts"]) == ""
