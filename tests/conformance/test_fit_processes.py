"""fit by several processes of PyTorch: the numbers of one, bits after an interruption, and lost processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from catgrad import Dim, NdArrayType, Task, data, evaluate, fit, layers, parallel, shared_rows
from catgrad.errors import OptionError, ToolError
from catgrad.formats import safetensors
from catgrad.learn.fit import checkpoint
from catgrad.learn.losses import mse
from catgrad.learn.optimisers import adamw, clipped, sgd
from tests.targets import cannot, emit

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.skipif(
    bool(cannot("torch")) or not torch.distributed.is_gloo_available(), reason="PyTorch has no gloo"
)
WORLD = 2
OPTIONS = {"epochs": 3, "batch_size": 6, "seed": 4, "progress": False}
BATCH, INPUT, HIDDEN, OUTPUT = (NdArrayType(shape) for shape in [(Dim("batch"),), (4,), (8,), (3,)])
RNG = np.random.default_rng(0)
X, Y = (RNG.normal(size=(31, n)).astype("f4") for n in (4, 3))

PROGRAM = """
import json
import os
import signal
import sys
import time
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from catgrad import CatgradError, data, fit, parallel

folder, run, rank, world, options = *sys.argv[1:3], *map(int, sys.argv[3:5]), json.loads(sys.argv[5])
sys.path.insert(0, folder)
import by_row
import plain
import random_masks

meeting = {"init_method": f"file://{folder}/{run}.meeting", "rank": rank, "world_size": world}
dist.init_process_group("gloo", timeout=timedelta(seconds=60), **meeting)
shards = data.Shards(f"{folder}/train-*.npz", ("x", "y"))
x, y = (np.concatenate([shards.read(k)[i] for k in range(len(shards.sizes))]) for i in (0, 1))
engine = parallel.torch()


class Killing(data.Shards):
    def read(self, part):
        self.reads = getattr(self, "reads", 0) + 1
        if self.reads == 6 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(part)


def train(module, name, data=shards, seed=0, parallel=engine, **more):
    learner = module.Learner(seed)
    # Its batch norm refuses the one row of the last batch.
    more = {"parallel": parallel, "drop_last": module is random_masks, **options, **more}
    history = fit(learner, data, **more)
    tables = {k: a for t in (learner.parameters, learner.buffers, learner.state) for k, a in t.items()}
    np.savez(f"{folder}/{name}-{rank}.npz", **tables)
    with open(f"{folder}/{name}-{rank}.json", "w", encoding="utf-8") as file:
        file.write(history.to_json())


def refused(module, data, **more):
    try:
        train(module, "refused", data, **more)
    except CatgradError as error:
        return f"{type(error).__name__}: {error}"


def loaded(epoch):
    dataset = TensorDataset(torch.tensor(x), torch.tensor(y))
    sampler = DistributedSampler(dataset, seed=4)
    sampler.set_epoch(epoch)
    return DataLoader(dataset, 3, sampler=sampler)


def uneven(epoch):
    for k in range(3 if rank else 5):
        yield x[rank + 2 * k :][: 2 - rank], y[rank + 2 * k :][: 2 - rank]


validated = {"validation": (x, y), "patience": 2, "metric": {"mae": lambda a, b: np.abs(a - b).mean()}}
if run == "first":
    train(plain, "plain", **validated, progress=True)
    train(plain, "loaded", loaded)
    train(plain, "uneven", uneven, epochs=2)
    train(by_row, "by_row")
    train(by_row, "by_row_uneven", uneven, epochs=2)
    train(random_masks, "masks", checkpoint=f"{folder}/masks.safetensors", **validated)
    begun = {"epochs": None, "checkpoint": f"{folder}/steps.safetensors"}
    train(random_masks, "straight", epochs=None, steps=9)
    train(random_masks, "begun", steps=4, **begun)
    train(random_masks, "ended", steps=9, seed=1, resume=True, **begun)
    sentences = [
        refused(plain, (x, y), seed=rank), refused(plain, (x[rank:], y[rank:])),
        refused(plain, [(x, y)]), refused(plain, lambda epoch: [(x[rank:], y[rank:] * np.nan)]),
    ]
    with open(f"{folder}/sentences-{rank}.json", "w", encoding="utf-8") as file:
        json.dump(sentences, file)
    killing = Killing(f"{folder}/train-*.npz", ("x", "y"))
    train(random_masks, "killed", killing, checkpoint=f"{folder}/killed.safetensors", **validated)
else:
    train(random_masks, "resumed", checkpoint=f"{folder}/copy.safetensors", resume=True, **validated)
    hasty = parallel.torch(dist.new_group(timeout=timedelta(seconds=1)))
    if rank:
        time.sleep(3)
        os._exit(0)
    with open(f"{folder}/hanging.json", "w", encoding="utf-8") as file:
        json.dump(refused(plain, shards, parallel=hasty), file)
    os._exit(0)
"""


def task(optimiser, *more):
    model = layers.dense(BATCH, INPUT, HIDDEN)
    for layer in more:
        model = model >> layer(BATCH + HIDDEN)
    model = model >> layers.dense(BATCH, HIDDEN, OUTPUT, activation=layers.identity)
    return Task(model, clipped(optimiser, 0.5), mse, "net")


PLAIN = task(adamw(0.05, epsilon=1e-3))
# By its sign, Adam would amplify the rounding of a gradient that is 0: that of a bias before batch norm.
MASKS = task(sgd(0.05, momentum=0.9), layers.batch_norm, layers.dropout)
DROPPED = task(adamw(0.05, epsilon=1e-3), layers.dropout, layers.dropout)


def started(folder, run):
    """Run the program in processes; returns their exit statuses, and what they print on standard error."""
    command = [sys.executable, "-c", PROGRAM, str(folder), run]
    options, environment = json.dumps(OPTIONS), {**os.environ, "COLUMNS": "160"}
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(WORLD), options], stderr=subprocess.PIPE, text=True, env=environment
        )
        for rank in range(WORLD)
    ]
    texts = [process.communicate(timeout=120)[1] for process in processes]
    return [process.returncode for process in processes], texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    for name, each in (("plain", PLAIN), ("random_masks", MASKS), ("by_row", shared_rows(DROPPED))):
        (folder / f"{name}.py").write_text(emit(each, "torch").source, encoding="utf-8")
    for k, (start, stop) in enumerate([(0, 14), (14, 15), (15, 31)]):
        np.savez(folder / f"train-{k}.npz", x=X[start:stop], y=Y[start:stop])
    return folder


@pytest.fixture(scope="module")
def first(folder):
    """A whole training, others, and one in whose second epoch a process is killed."""
    return started(folder, "first")


@pytest.fixture(scope="module")
def second(folder, first):
    """The training that was killed, resumed, and one in which a process hangs."""
    for name in ("safetensors", "best.safetensors"):
        shutil.copy(folder / f"killed.{name}", folder / f"copy.{name}")
    return started(folder, "second")


def read(folder, name, rank=0):
    with np.load(folder / f"{name}-{rank}.npz") as arrays:
        return dict(arrays), json.loads((folder / f"{name}-{rank}.json").read_text(encoding="utf-8"))


def alone(given, task=PLAIN, **options):
    learner = emit(task, "torch").load()().learner(0)
    history = fit(learner, given, **{**OPTIONS, **options})
    return {**learner.parameters, **learner.state}, json.loads(history.to_json())


def shards(folder):
    return data.Shards(folder / "train-*.npz", ("x", "y"))


def compare(found, expected):
    (arrays, history), (others, straight) = found, expected
    assert arrays.keys() == others.keys()
    for name, array in others.items():
        np.testing.assert_allclose(arrays[name], array, rtol=1e-4, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(history["losses"], straight["losses"], rtol=1e-5)
    for epoch, other in zip(history["epochs"], straight["epochs"], strict=True):
        assert epoch["validation"] == pytest.approx(other["validation"], rel=1e-5)
        assert (epoch["steps"], epoch["loss"]) == (other["steps"], pytest.approx(other["loss"], rel=1e-5))


def test_two_processes_train_as_one(folder, first):
    """The last batch has 1 row, so one process has none of it."""
    validated = {"validation": (X, Y), "patience": 2, "metric": {"mae": lambda a, b: np.abs(a - b).mean()}}
    compare(read(folder, "plain"), alone(shards(folder), **validated))


def test_a_loader_that_splits_the_examples_trains_as_one(folder, first):
    """The batch of one process is then that of both, with the example that the sampler repeats."""
    order = {}
    sampler = torch.utils.data.DistributedSampler
    for epoch in range(1, OPTIONS["epochs"] + 1):
        each = [sampler(X, WORLD, rank, seed=4) for rank in range(WORLD)]
        for drawn in each:
            drawn.set_epoch(epoch)
        one, other = map(list, each)
        order[epoch] = [[*one[k : k + 3], *other[k : k + 3]] for k in range(0, len(one), 3)]
    compare(read(folder, "loaded"), alone(lambda epoch: [(X[rows], Y[rows]) for rows in order[epoch]]))


def test_processes_may_have_different_numbers_of_batches_and_of_rows(folder, first):
    compare(read(folder, "uneven"), alone(joined, epochs=2))


def joined(epoch):
    """Yield the batches of both processes, of which the second one has none in the end."""
    for k in range(5):
        rows = [2 * k, 2 * k + 1, *([2 * k + 1] if k < 3 else [])]
        yield X[rows], Y[rows]


def test_two_processes_draw_by_row_as_one(folder, first):
    """The last batch has 1 row, so one process has none of it; the other batches are uneven."""
    for name, given, options in (("by_row", shards(folder), {}), ("by_row_uneven", joined, {"epochs": 2})):
        arrays, history = read(folder, name)
        assert (arrays.pop("first_row"), arrays.pop("seed")) == (0, 0)
        assert int(arrays.pop("draws")) == len(history["losses"])
        compare((arrays, history), alone(given, DROPPED, **options))


@pytest.mark.parametrize("name", ["plain", "loaded", "uneven", "masks", "by_row", "by_row_uneven"])
def test_all_processes_have_the_same_bits(folder, first, name):
    (one, history), *others = (read(folder, name, rank) for rank in range(WORLD))
    for other, same in others:
        assert {k: a.tobytes() for k, a in one.items()} == {k: a.tobytes() for k, a in other.items()}
        assert history == same


def test_only_the_first_process_shows_the_progress(first):
    _, texts = first
    assert ["18/18" in text and "examples/s" in text for text in texts] == [True, False]


def test_wrong_data_and_learners_are_refused_by_all(folder, first):
    one, other = (json.loads((folder / f"sentences-{rank}.json").read_text()) for rank in range(WORLD))
    assert one == other
    seeds, parts, batches, diverged = one
    assert "same arrays of the learner, but they differ; draw them from one seed" in seeds
    assert "same examples, which are shared out, but they differ; give the whole data" in parts
    assert "must have batches of its own, but all of them begin with the same" in batches
    assert diverged.startswith("DivergenceError: the loss must be a finite number, but it is nan")


def test_a_killed_process_ends_the_others_with_a_sentence(folder, first):
    statuses, texts = first
    assert statuses == [1, -signal.SIGKILL], texts[0]
    *before, last = [line for line in texts[0].splitlines() if "examples/s" not in line]
    assert last.removeprefix("[rank0]: ").startswith(
        "catgrad.errors.ToolError: all processes must train to the end, but process 0 of 2 has lost another"
    )
    assert "start all again with a checkpoint and resume=True" in last
    assert len(before) < 25
    history = json.loads(safetensors.read_metadata(folder / "killed.safetensors")["history"])
    assert [epoch["steps"] for epoch in history["epochs"]] == [5]


def test_training_resumes_bit_for_bit_after_a_process_was_killed(folder, second):
    statuses, texts = second
    assert statuses == [0] * WORLD, texts
    (whole, history), (resumed, same) = read(folder, "masks"), read(folder, "resumed")
    assert {k: a.tobytes() for k, a in whole.items()} == {k: a.tobytes() for k, a in resumed.items()}
    assert history == same
    assert not np.array_equal(whole["norm.running_mean"], np.zeros(8))


def test_training_of_processes_resumes_within_an_epoch(folder, first):
    (straight, history), (ended, same) = read(folder, "straight", 1), read(folder, "ended", 1)
    assert {k: a.tobytes() for k, a in straight.items()} == {k: a.tobytes() for k, a in ended.items()}
    assert history == same
    assert len(history["losses"]) == 9


def test_a_process_that_hangs_is_reported_after_the_timeout(folder, second):
    sentence = json.loads((folder / "hanging.json").read_text(encoding="utf-8"))
    assert sentence.startswith("ToolError: all processes must train to the end, but process 0 of 2 has lost")


def test_processes_must_have_met_and_train_a_learner_of_torch():
    with pytest.raises(ToolError, match=r"torch.distributed is not initialised; call .*init_process_group"):
        parallel.torch()
    from catgrad.parallel.processes import Processes

    with pytest.raises(OptionError, match="processes of PyTorch must train a learner of the target torch"):
        Processes(None, 0, 2).start(emit(PLAIN, "numpy").load()().learner())


def test_one_process_reads_the_checkpoint_of_two(folder, first):
    learner = emit(MASKS, "torch").load()().learner(9)
    checkpoint.load(learner, folder / "masks.safetensors")
    (arrays, history) = read(folder, "masks", 1)
    last = history["epochs"][-1]["validation"]["loss"]
    assert evaluate(learner, (X, Y), batch_size=6)["loss"] == pytest.approx(last, rel=1e-5)
    assert int(learner.buffers["seed"]) == int(arrays["seed"]) == 0
