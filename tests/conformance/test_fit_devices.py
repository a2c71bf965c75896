"""fit on a mesh of JAX: the numbers of one device, for batches that devices share and for uneven ones."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from catgrad import parallel
from catgrad.errors import OptionError
from tests.conformance.test_fit_processes import MASKS, PLAIN, X, Y
from tests.covering import some
from tests.targets import cannot, emit

pytestmark = pytest.mark.skipif(bool(cannot("jax")), reason=f"target jax: {cannot('jax')}")

PROGRAM = """
import json
import sys

import jax
import numpy as np

jax.config.update("jax_num_cpu_devices", 4)
folder = sys.argv[1]
sys.path.insert(0, folder)
import net

from catgrad import fit, parallel

with np.load(folder + "/rows.npz") as arrays:
    rows = arrays["x"], arrays["y"]
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
validated = {"validation": rows, "patience": 2, "metric": {"mae": lambda a, b: np.abs(a - b).mean()}}


def train(epochs=2, seed=0, **options):
    learner = net.Learner(seed)
    history = fit(learner, rows, epochs=epochs, batch_size=8, progress=False, **validated, **options)
    return learner, history, {**learner.parameters, **learner.buffers, **learner.state}


_, straight, expected = train()
learner, history, tables = train(parallel=parallel.jax(mesh))
np.testing.assert_allclose(history.losses, straight.losses, rtol=1e-5)
for epoch, other in zip(history.epochs, straight.epochs):
    assert epoch.validation.keys() == other.validation.keys() == {"loss", "mae"}
    for name, value in epoch.validation.items():
        np.testing.assert_allclose(value, other.validation[name], rtol=1e-5)
for name, array in expected.items():
    np.testing.assert_allclose(tables[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
train(epochs=1, parallel=parallel.jax(mesh), checkpoint=folder + "/run")
*_, resumed = train(seed=1, parallel=parallel.jax(mesh), checkpoint=folder + "/run", resume=True)
assert all(np.array_equal(resumed[name], array) for name, array in tables.items())
parts = [array.addressable_shards[0].data for array in tables.values()]
print(json.dumps([sum(a.nbytes for a in arrays) for arrays in (parts, tables.values())]))
"""


@pytest.mark.parametrize("shard", some(["fsdp", "data"], ["fsdp"]))
def test_a_mesh_trains_as_one_device(shard, tmp_path):
    """The last batch has 7 rows for 4 devices; batch norm and dropout are those of the whole batch."""
    artifact = emit(MASKS, "jax", shard=shard, **({"devices": 4} if shard == "fsdp" else {}))
    (tmp_path / "net.py").write_text(artifact.source, encoding="utf-8")
    np.savez(tmp_path / "rows.npz", x=X, y=Y)
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    of_device, of_all = json.loads(done.stdout)
    assert of_device < of_all / 3 if shard == "fsdp" else of_device == of_all


def test_wrong_meshes_and_learners_are_refused():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    with pytest.raises(
        OptionError, match="a mesh must have the one axis 'devices', of devices of this process"
    ):
        parallel.jax(jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",)))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("devices",))
    with pytest.raises(OptionError, match=r'has no SHARDS; emit it by emit\(task, "jax", shard="data"\)'):
        parallel.jax(mesh).start(emit(PLAIN, "jax").load()().learner())
