"""Steps of the target jax on 8 virtual devices, against those on one."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from catgrad import emit
from catgrad.errors import OptionError
from tests.conformance.c_models import MODELS
from tests.targets import cannot
from tests.unit.line import line

pytestmark = pytest.mark.skipif(bool(cannot("jax")), reason=f"target jax: {cannot('jax')}")
COUNT = 8

PROGRAM = """
import json
import re
import sys

import jax
import numpy as np

jax.config.update("jax_num_cpu_devices", 8)
sys.path.insert(0, sys.argv[1])
import model as emitted

mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
step = emitted.sharded(emitted.step, mesh)
learner = emitted.Learner(3)
tables = [array for table in (learner.state, learner.buffers, learner.parameters) for array in table.values()]
alone, together = tables, tables
batches = np.load(sys.argv[1] + "/batches.npz")
for k in range(5):
    x, y = batches[f"x{k}"], batches[f"y{k}"]
    [loss, *alone] = jax.jit(emitted.step)(*alone, x, y)
    [other, *together] = step(*together, x, y)
    np.testing.assert_allclose(other, loss, rtol=1e-5)
for a, b in zip(together, alone):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
code = step.lower(*tables, x, y).compile().as_text()
found = re.findall(r" (all-\\\\w+|reduce-scatter|collective-permute)(?:-start)?\\\\(", code)
print(json.dumps({
    "collectives": sorted(set(found)),
    "bytes": sum(b.nbytes for b in alone),
    "bytes_of_a_device": sum(b.addressable_shards[0].data.nbytes for b in together),
}))
""".replace("\\\\", "\\")

RESUMING = """
import sys
from pathlib import Path

import jax
import numpy as np

jax.config.update("jax_num_cpu_devices", 8)
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
import model as emitted
from catgrad.learn import checkpoint

batches = np.load(folder / "batches.npz")
alone = emitted.Learner(3)
checkpoint.save(alone, folder / "checkpoint.safetensors")
for k, count in enumerate([8, 4, 1]):
    x, y = batches[f"x{k}"], batches[f"y{k}"]
    learner = emitted.Learner(3)
    checkpoint.load(learner, folder / "checkpoint.safetensors")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:count]), ("devices",))
    step = emitted.sharded(emitted.step, mesh)
    [loss, *tables] = step(*learner.state.values(), *learner.parameters.values(), x, y)
    assert len(tables[1].sharding.device_set) == count
    learner.state = dict(zip(learner.state, tables))
    learner.parameters = dict(zip(learner.parameters, tables[len(learner.state):]))
    checkpoint.save(learner, folder / "checkpoint.safetensors")
    np.testing.assert_allclose(loss, alone.step(x, y), rtol=1e-5)
for name, array in (alone.state | alone.parameters).items():
    found = (learner.state | learner.parameters)[name]
    np.testing.assert_allclose(found, array, rtol=1e-4, atol=1e-5)
print("null")
"""


def trained(folder, name, program=PROGRAM, **options):
    """Train in a process that has 8 devices; returns what it prints."""
    model, rng = MODELS[name], np.random.default_rng(0)
    artifact = emit(model.task(), "jax", **options)
    (folder / "model.py").write_text(artifact.source, encoding="utf-8")
    batches = [model.draw(rng, 2 * COUNT) for _ in range(5)]
    arrays = {f"{n}{k}": a for k, batch in enumerate(batches) for n, a in zip("xy", batch, strict=True)}
    np.savez(folder / "batches.npz", **arrays)
    done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def some(*names):
    """Parametrise a test by models; the first is not long."""
    return pytest.mark.parametrize(
        "name", [names[0], *(pytest.param(name, marks=pytest.mark.long) for name in names[1:])]
    )


@some("cnn", "mlp", "char_gpt")
def test_devices_that_share_the_examples_train_as_one(name, tmp_path):
    """Statistics of batch norm, masks of dropout, norms for clipping are those of the whole batch."""
    found = trained(tmp_path, name, shard="data")
    assert found["collectives"] == ["all-reduce"]
    assert found["bytes_of_a_device"] == found["bytes"]


@some("char_gpt", "mlp", "cnn")
def test_devices_that_share_the_parameters_train_as_one(name, tmp_path):
    """All arrays of the transformer are shared but those without an axis that 8 divides."""
    found = trained(tmp_path, name, shard="fsdp", devices=COUNT)
    assert {"all-gather"} <= {*found["collectives"]} <= {"all-gather", "all-reduce", "reduce-scatter"}
    assert found["bytes_of_a_device"] < found["bytes"] * (1.05 / COUNT if name == "char_gpt" else 1)


def test_a_checkpoint_of_eight_devices_is_trained_by_four_and_by_one(tmp_path):
    trained(tmp_path, "mlp", RESUMING, shard="fsdp", devices=COUNT)


def test_axes_are_split_only_evenly():
    def shards(**options):
        text = emit(line(), "jax", **options).source
        return text[text.index("SHARDS = {") : text.index("# The names of")] if "SHARDS" in text else ""

    assert shards() == ""
    assert '"dense.weight"' not in shards(shard="data")
    assert '"dense.weight": P("devices")' in shards(shard="fsdp", devices=2)  # [4, 3]
    assert '"dense.weight": P(None, "devices")' in shards(shard="fsdp", devices=3)
    assert '"momentum.dense.weight": P(None, "devices")' in shards(shard="fsdp", devices=3)
    assert '"dense.weight"' not in shards(shard="fsdp", devices=8)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"shard": "dta"}, "shard must be one of data, fsdp"), ({"devices": 0}, "devices must be at least 1")],
)
def test_options_are_checked(options, sentence):
    with pytest.raises(OptionError, match=sentence):
        emit(line(), "jax", **options)
