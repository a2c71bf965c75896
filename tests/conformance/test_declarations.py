"""Emitted declarations are those of the emitted modules, by TypeScript's compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from catgrad.backends.javascript.session import NODE

from catgrad import Dtype, NdArrayType, Task, emit, layers, losses, optimisers
from tests.models import BATCH, INPUT, OUTPUT

TYPESCRIPT = Path(__file__).parents[1] / "typescript" / "node_modules" / "typescript" / "bin" / "tsc"
OPTIONS = ["--noEmit", "--strict", "--target", "es2022", "--lib", "es2022", "--module", "nodenext"]
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

pytestmark = pytest.mark.skipif(
    bool(NODE.missing()) or not TYPESCRIPT.exists(), reason="TypeScript is not installed: make test"
)


def test_programs_in_typescript_are_checked(tmp_path):
    model = layers.dense(BATCH, INPUT, OUTPUT) >> layers.batch_norm(BATCH + OUTPUT)
    labels = NdArrayType(BATCH.shape, Dtype.int64)
    task = Task(model, optimisers.adam(0.1), losses.cross_entropy, "net", (labels,))
    for target, counters in COUNTERS.items():
        emit(task, target).write(tmp_path / target)
        (tmp_path / target / "use.mts").write_text(USE + counters)
    uses = [f"{target}/use.mts" for target in COUNTERS]
    done = subprocess.run(
        ["node", TYPESCRIPT, *OPTIONS, *uses], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == ""
