"""Steps of the target jax on virtual devices, against those on one."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from catgrad import Dim, NdArrayType, Task, emit, layers
from catgrad.errors import OptionError
from catgrad.learn.losses import mse
from catgrad.learn.optimisers import adam
from tests.conformance.c_models import MODELS, Model, regression
from tests.covering import some
from tests.targets import cannot
from tests.unit.line import line

pytestmark = pytest.mark.skipif(bool(cannot("jax")), reason=f"target jax: {cannot('jax')}")
COUNT = 8

PROGRAM = """
import collections
import json
import re
import sys

import jax
import numpy as np

jax.config.update("jax_num_cpu_devices", int(sys.argv[2]))
sys.path.insert(0, sys.argv[1])
import model as emitted

mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
step = emitted.sharded(emitted.step, mesh)
learner = emitted.Learner(3)
every = [getattr(learner, table, {}) for table in ("state", "buffers", "parameters")]
names, tables = zip(*(item for table in every for item in table.items()))
alone, together = tables, tables
batches = np.load(sys.argv[1] + "/batches.npz")
for k in range(5):
    x, y = batches[f"x{k}"], batches[f"y{k}"]
    [loss, *alone] = emitted.CompiledModel.step(*alone, x, y)
    [other, *together] = step(*together, x, y)
    np.testing.assert_allclose(other, loss, rtol=1e-5)
for a, b in zip(together, alone):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
code = step.lower(*tables, x, y).compile().as_text()
found = re.findall(r" (all-[a-z-]+?|reduce-scatter|collective-permute)(?:-start)?\\\\(", code)
print(json.dumps({
    "collectives": collections.Counter(found),
    "bytes": {name: b.nbytes for name, b in zip(names, together)},
    "bytes_of_a_device": {name: b.addressable_shards[0].data.nbytes for name, b in zip(names, together)},
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
from catgrad.learn.fit import checkpoint

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
print([8, 4, 1])
"""


@dataclass(frozen=True)
class Trained:
    """Collectives of a step with their numbers, and bytes of each array, on all devices and on one."""

    collectives: dict[str, int]
    bytes: dict[str, int]
    bytes_of_a_device: dict[str, int]

    def split(self, count: int) -> set[str]:
        """Return the arrays of which each device has its share; of all others each has all."""
        split = {name for name, n in self.bytes_of_a_device.items() if n * count == self.bytes[name]}
        assert all(self.bytes_of_a_device[n] == self.bytes[n] for n in self.bytes if n not in split)
        return split


def trained(folder, model, count=COUNT, **options):
    """Train in a process that has so many devices, beside one."""
    return Trained(**printed(folder, PROGRAM, model, count, **options))


def printed(folder, program, model, count, **options):
    """Run a program in a process that has so many devices; returns what it prints."""
    rng = np.random.default_rng(0)
    artifact = emit(model.task(), "jax", devices=count, **options)
    (folder / "model.py").write_text(artifact.source, encoding="utf-8")
    batches = [model.draw(rng, 2 * COUNT) for _ in range(5)]
    arrays = {f"{n}{k}": a for k, batch in enumerate(batches) for n, a in zip("xy", batch, strict=True)}
    np.savez(folder / "batches.npz", **arrays)
    command = [sys.executable, "-c", program, folder, str(count)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


NAMES = ("mlp", "cnn", "char_gpt")


@pytest.mark.parametrize("name", some(NAMES, ["cnn"]))
def test_devices_that_share_the_examples_train_as_one(name, tmp_path):
    """Statistics of batch norm, masks of dropout, norms for clipping are those of the whole batch."""
    found = trained(tmp_path, MODELS[name], shard="data")
    assert {*found.collectives} == {"all-reduce"}
    assert found.split(COUNT) == set()


@pytest.mark.parametrize("name", some(NAMES, ["char_gpt"]))
def test_devices_that_share_the_parameters_train_as_one(name, tmp_path):
    """All arrays of the transformer are shared but those without an axis that 8 divides."""
    found = trained(tmp_path, MODELS[name], shard="fsdp")
    assert (
        {"all-gather"} <= {*found.collectives} <= {"all-gather", "all-reduce", "reduce-scatter", "all-to-all"}
    )
    assert len(found.split(COUNT)) >= (0.9 if name == "char_gpt" else 0.1) * len(found.bytes)


def perceptron():
    batch, *rest = (NdArrayType((n,)) for n in (Dim("batch"), 40, 64, 33))
    model = layers.sequential(
        layers.dense(batch, rest[0], rest[1], layers.tanh, name=""),
        layers.dense(batch, rest[1], rest[2], layers.silu, name=""),
    )
    return Task(model, adam(0.01, epsilon=1e-3), mse, "perceptron")


def test_devices_that_share_a_hidden_layer_train_as_one(tmp_path):
    """The one sum over devices is the product that reads the hidden layer (Shoeybi et al. 2019)."""
    found = trained(tmp_path, Model(perceptron, regression, (1, 1, 1)), 4, shard="tensor")
    assert found.collectives == {"all-reduce": 1}
    shared = {"0.weight", "0.bias", "1.weight"}
    state = {f"{moment}.{name}" for moment in ("exp_avg", "exp_avg_sq") for name in shared}
    assert found.split(4) == shared | state


@pytest.mark.covering(0)
@pytest.mark.parametrize(
    ("name", "count"),
    [("char_gpt", 4), ("mlp", 2), ("cnn", 2)],
)
def test_devices_that_share_layers_train_as_one(name, count, tmp_path):
    """Heads and hidden layers of the transformer are shared: all matrices but tokens and positions."""
    found = trained(tmp_path, MODELS[name], count, shard="tensor")
    assert found.split(count)
    if name == "char_gpt":
        matrices = {"self_attn.in_proj", "self_attn.out_proj", "linear1", "linear2"}
        wanted = {f"block_0.{matrix}.weight" for matrix in matrices}
        assert {array for array in found.split(count) if array in wanted} == wanted
        # Two sums forward and two backward in the block (figure 4), and 4 numbers for the norm that clips.
        assert found.collectives["all-reduce"] == 4 + 4
        # The parts of the fused projection are exchanged, and gradients gathered for the norm.
        assert {*found.collectives} == {"all-reduce", "collective-permute", "all-to-all", "all-gather"}


def test_a_checkpoint_of_eight_devices_is_trained_by_four_and_by_one(tmp_path):
    assert printed(tmp_path, RESUMING, MODELS["mlp"], COUNT, shard="fsdp") == [COUNT, 4, 1]


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


def test_layers_that_devices_cannot_share_are_refused():
    with pytest.raises(OptionError, match="none of which the size is a multiple of 7"):
        emit(perceptron(), "jax", shard="tensor", devices=7)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"shard": "dta"}, "shard must be one of data, fsdp, tensor"),
        ({"devices": 0}, "devices must be at least 1"),
    ],
)
def test_options_are_checked(options, sentence):
    with pytest.raises(OptionError, match=sentence):
        emit(line(), "jax", **options)
