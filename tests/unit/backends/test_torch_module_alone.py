"""The file with a torch.nn.Module trains without catgrad, and exchanges weights by name."""

from __future__ import annotations

import ast
import io
import runpy
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, Task, layers, losses, optimisers, sgd
from catgrad.errors import CatgradWarning
from catgrad.formats import safetensors
from catgrad.learn import schedules
from catgrad.learn.fit import checkpoint
from tests.conformance.test_torch_module import MODELS
from tests.covering import some
from tests.models import mlp, two_inputs
from tests.targets import emit

torch = pytest.importorskip("torch", reason="PyTorch, on which the emitted file runs, is not installed")

V = NdArrayType((3,))

BARE = """
import sys
import warnings
sys.path += {paths!r}
import importlib.util
assert importlib.util.find_spec("catgrad") is None
import json, torch, {name}
module = {name}.{class_name}(seed=0)
optimizer = {name}.make_optimizer(module)
torch.manual_seed(0)
batch = torch.load("batch.pt", weights_only=True)
losses = [{name}.train_step(module, optimizer, *batch).item() for _ in range(5)]
print(json.dumps(losses))
"""


@pytest.mark.parametrize("name", some(["mlp", "two_inputs", "stateful"], ["stateful"]))
def test_the_file_trains_in_a_python_without_catgrad(tmp_path, name):
    task = MODELS[name]()
    emit(task, "torch-module", class_name="Net", skeleton=True).write(tmp_path)
    rng = np.random.default_rng(0)
    shapes = [t.substitute({"batch": 7}) for t in (*task.inputs, *task.targets)]
    batch = [rng.normal(size=t.shape).astype(t.dtype.numpy) for t in shapes]
    torch.save([torch.tensor(a) for a in batch], tmp_path / "batch.pt")
    paths = [str(tmp_path), str(Path(torch.__file__).parents[1])]
    program = BARE.format(paths=paths, name=name, class_name="Net")
    command = [sys.executable, "-I", "-S", "-W", "error"]
    done = subprocess.run([*command, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    learner = emit(task).load()().learner(seed=0)
    ours = [float(learner.step(*batch)) for _ in range(5)]
    np.testing.assert_allclose(ast.literal_eval(done.stdout), ours, rtol=1e-5)


def smoke(task: Task, folder: Path) -> tuple[float, float]:
    """Run the file, and return the losses that it prints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CatgradWarning)  # torch.optim lacks the optimiser of some
        [path] = emit(task, "torch-module", skeleton=True).write(folder)
    with redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(path), run_name="__main__")
    words = printed.getvalue().replace(",", "").split()
    return float(words[2]), float(words[-1])


LABELS = (NdArrayType((4,), Dtype.int64),)
WORDS = NdArrayType((4,), Dtype.int64)


@pytest.mark.parametrize(
    "task",
    [
        mlp(optimisers.adamw(0.01)),
        two_inputs(),
        mlp(optimisers.lion(0.01)),
        Task(
            layers.embedding(WORDS, 5, V), optimisers.rmsprop(momentum=0.5), losses.cross_entropy, "e", LABELS
        ),
    ],
    ids=["adamw", "two inputs", "lion", "labels"],
)
def test_the_smoke_test_shows_the_loss_falling(task, tmp_path):
    before, after = smoke(task, tmp_path)
    assert after < before


OPTIMISERS = {
    "sgd": sgd(0.05, 0.9, nesterov=True, weight_decay=0.01),
    "dampened": sgd(0.05, 0.9, dampening=0.5),
    "adam": optimisers.adam(0.02, 0.8, 0.95, 1e-3, 0.01, amsgrad=True),
    "adamw": optimisers.adamw(0.02, epsilon=1e-9),
    "rmsprop": optimisers.rmsprop(0.02, 0.9, 1e-5, 0.01, 0.5, centred=True),
    "adagrad": optimisers.adagrad(0.05, 1e-6, 0.01, lr_decay=0.1, initial_accumulator_value=0.2),
    "ascent": sgd(0.001, maximize=True),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_optimiser_is_that_of_the_task(name):
    """The optimiser has all hyperparameters: ten steps agree with those of the task."""
    task = mlp(OPTIMISERS[name], Dtype.float64)
    emitted, learner = emit(task, "torch-module", skeleton=True).load(), emit(task).load()().learner(1)
    module = emitted.Module(1)
    optimiser = emitted.file.make_optimizer(module)
    rng = np.random.default_rng(0)
    for _ in range(10):
        x, y = rng.normal(size=(5, 4)), rng.normal(size=(5, 3))
        learner.step(x, y)
        emitted.file.train_step(module, optimiser, torch.tensor(x), torch.tensor(y))
    for key, tensor in module.state_dict().items():
        np.testing.assert_allclose(tensor, learner.parameters[key], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "optimiser",
    [
        optimisers.lion(),
        optimisers.muon(),
        optimisers.nadam(),
        optimisers.clipped(sgd(0.1), 1.0),
        optimisers.ema(optimisers.adamw()),
        optimisers.frozen(),
        optimisers.grouped(lambda p: sgd(0.1)),
        sgd(schedules.cosine(0.1, 10)),
    ],
    ids=["lion", "muon", "nadam", "clipped", "averaged", "frozen", "grouped", "schedule"],
)
def test_an_optimiser_that_torch_lacks_is_not_imitated(optimiser):
    with pytest.warns(CatgradWarning, match=f"optimiser is {optimiser.name}"):
        artifact = emit(mlp(optimiser), "torch-module", skeleton=True)
    file = artifact.load()
    with pytest.raises(TypeError, match="kind"):
        file.file.make_optimizer(file.Module())
    with pytest.raises(ValueError, match="kind must be one of sgd, adam, adamw, rmsprop, adagrad"):
        file.file.make_optimizer(file.Module(), "lion", 0.1)


def test_weights_round_trip_through_a_learner(tmp_path):
    """Exchange weights by name, by safetensors files that either side writes."""
    library = pytest.importorskip("safetensors.torch", reason="the package safetensors is not installed")
    learner = emit(mlp(optimisers.adam())).load()().learner(seed=1)
    module = emit(mlp(), "torch-module").load().Module(seed=2)
    checkpoint.save(learner, tmp_path / "ours")
    found = library.load_file(tmp_path / "ours")
    module.load_state_dict({name: found[name] for name in module.state_dict()})
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_allclose(module(torch.tensor(x)).detach(), learner.predict(x), rtol=1e-5)

    other = emit(mlp(), "torch-module").load().Module(seed=3)
    library.save_file(other.state_dict(), tmp_path / "theirs")
    assert list(safetensors.read(tmp_path / "theirs"))
    checkpoint.load(learner, tmp_path / "theirs")
    np.testing.assert_allclose(other(torch.tensor(x)).detach(), learner.predict(x), rtol=1e-5)
