"""Emitted WebAssembly with threads computes the bits of one thread, and its workers start and end."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from catgrad.backends.javascript.session import node as engine
from catgrad.backends.wasm.build import MAX_THREADS, library

from benchmarks.cpu.workloads import WORKLOADS
from catgrad import Dim, NdArrayType, Task, layers, mse, sgd
from catgrad.certification import certify
from catgrad.errors import OptionError
from tests.models import mlp
from tests.targets import cannot, emit
from tests.unit.formats.test_term_files import MODELS

pytestmark = [
    pytest.mark.skipif(bool(cannot("wasm")), reason=str(cannot("wasm"))),
    pytest.mark.long,  # tests/browser runs threads too; ziglang builds a standard library for them
]

STEPS = 3
BATCH, WIDTH = 64, 128
"""Sizes of products that are worth sharing among threads."""


def wide():
    """Build a task whose products and elementwise loops are shared."""
    rows, width = NdArrayType((Dim("batch"),)), NdArrayType((WIDTH,))
    model = layers.dense(rows, width, width) >> layers.dense(rows, width, width)
    return Task(model, sgd(0.1), mse, "wide")


def trained(task, data, **options):
    """Return the bits of losses, parameters and state after some steps."""
    learner = emit(task, "wasm", **options).load()().learner(seed=1)
    losses = [learner.step(*data).tobytes() for _ in range(STEPS)]
    tables = (learner.parameters, learner.buffers, learner.state)
    return losses, [array.tobytes() for table in tables for array in table.values()]


@pytest.mark.parametrize(
    "name",
    ["mlp", "lenet", "char-gpt"],
)
def test_the_number_of_threads_does_not_change_bits(name, monkeypatch):
    [workload] = [each for each in WORKLOADS if each.name == name]
    workload = replace(workload, batch=4 if name == "char-gpt" else 32)
    data = [workload.data()[each] for each in "xy"]
    expected = trained(workload.task, data)
    for threads in ("1", "2", "4"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        assert trained(workload.task, data, openmp=True) == expected


def test_exact_arithmetic_has_the_bits_of_one_thread(monkeypatch):
    """The model has batch norm, dropout and AdamW."""
    task = MODELS["stateful"]()
    expected = certify(emit(task, "wasm"))[1].sha256
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert certify(emit(task, "wasm", openmp=True))[1].sha256 == expected


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a module with its library, as `make` does."""
    folder, artifact = tmp_path_factory.mktemp("wide"), emit(wide(), "wasm", openmp=True)
    artifact.write(folder)
    (folder / "wide.wasm").write_bytes(library(artifact).read_bytes())
    return folder


def run(folder, script):
    """Run a script beside emitted files until Node.js ends by itself; returns what it prints, as JSON."""
    (folder / "run.mjs").write_text(PRELUDE + script)
    done = subprocess.run(["node", "run.mjs"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


PRELUDE = f"""
import {{ createModel }} from "./wide.mjs";

const data = (n) => Float32Array.from({{ length: n * {WIDTH} }}, (_, i) => Math.sin(i));
const x = data({BATCH}), y = data({BATCH}).map(Math.abs);
const equal = (a, b) => a.every((each, i) => each === b[i]);
const said = (call) => Promise.resolve().then(call).then(() => "", (error) => `${{error}}`);
"""

ENDS = f"""
const model = await createModel({{ threads: 3 }});
console.log(JSON.stringify(model.step({BATCH}, x, y)));
"""

TERMINATED = f"""
const model = await createModel({{ threads: 3 }}), alone = await createModel({{ threads: 1 }}), losses = [];
for (let i = 0; i < 4; i++) {{
    losses.push([model.step({BATCH}, x, y), alone.step({BATCH}, x, y)]);
    if (i === 1) model.terminate();
}}
model.terminate();
console.log(JSON.stringify(losses));
"""

GROWN = f"""
const model = await createModel({{ threads: 2 }}), small = model.predict(1, data(1)), n = 60000;
const before = model.parameters, wide = model.predict(n, data(n));
console.log(JSON.stringify([equal(small, wide), before === model.parameters, model.step({BATCH}, x, y) > 0]));
"""

REFUSED = """
const wrong = [{ threads: 0 }, { threads: 1.5 }, { threads: 99 }];
const found = [];
for (const options of wrong) found.push(await said(() => createModel(options)));
globalThis.crossOriginIsolated = false;
found.push(await said(() => createModel({ threads: 2 })), await said(() => createModel({ threads: 1 })));
console.log(JSON.stringify(found));
"""

PARTS = f"""
import {{ Thread }} from "./wide_threads.mjs";
const memory = new WebAssembly.Memory({{ initial: 1, maximum: 1, shared: true }});
const words = new Int32Array(memory.buffer);
function part(count, number) {{
    const thread = new Thread({{ memory, number }});
    thread.enter({{}}, 0);
    thread.threads = {MAX_THREADS};
    words.set([0, count - 1], 100);
    thread.imports.__kmpc_for_static_init_4u(0, number, 34, 0, 400, 404);
    return [...words.slice(100, 102)];
}}
const parts = (count) => Array.from({{ length: {MAX_THREADS} }}, (_, number) => part(count, number));
console.log(JSON.stringify([parts(37), parts(3)]));
"""


def test_node_ends_without_the_workers_being_ended(folder):
    assert run(folder, ENDS) > 0


def test_a_model_whose_workers_are_ended_goes_on_alone(folder):
    losses = run(folder, TERMINATED)
    assert all(shared == alone for shared, alone in losses)
    assert losses[-1][0] < losses[0][0]


def test_the_memory_grows_while_workers_share_it(folder):
    same, kept, trains = run(folder, GROWN)
    assert same and trains
    assert not kept


def test_threads_that_cannot_start_are_refused(folder):
    *numbers, page, alone = run(folder, REFUSED)
    assert all(f"threads must be a whole number from 1 to {MAX_THREADS}" in text for text in numbers)
    assert "Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp" in page
    assert alone == ""


def test_the_parts_of_a_loop_are_all_its_iterations_once(folder):
    many, few = run(folder, PARTS)
    for parts, count in ((many, 37), (few, 3)):
        assert [i for first, last in parts for i in range(first, last + 1)] == list(range(count))
        assert min(last for _, last in parts) >= 0  # bounds may be unsigned
    assert {last + 1 - first for first, last in many} == {2, 3}


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_model_without_references_ends_its_workers(monkeypatch):
    """Node.js has as many threads as before."""
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    model = emit(mlp(), "wasm", openmp=True).load()()
    x, y = np.ones((2, 4), np.float32), np.ones((2, 3), np.float32)
    counts = []
    for _ in range(4):
        model.learner().step(x, y)
        counts.append(threads_of(engine()))
    assert counts[-1] <= counts[0] + 3


def threads_of(process):
    """Count the threads of a process of Linux."""
    return len(list(Path(f"/proc/{process.pid}/task").iterdir()))


def test_the_option_must_be_true_or_false():
    with pytest.raises(OptionError, match="openmp must be true or false"):
        emit(mlp(), "wasm", openmp="yes")
