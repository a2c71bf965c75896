"""Modules of PyTorch as sprites agree with PyTorch in double precision, in prediction and training."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from catgrad.backends.scratch.machine.projects import Machine

from catgrad import Dtype, NdArrayType, losses, mse, sgd
from tests.covering import some

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from catgrad.frontends.torch import transpile  # noqa: E402  # it needs PyTorch
from tests.conformance.test_from_torch import leaves, outputs_of  # noqa: E402
from tests.conformance.torch_inputs import real, whole  # noqa: E402
from tests.conformance.torch_modules import CASES, made  # noqa: E402
from tests.conformance.torch_peer import PUBLISHED, REFUSED  # noqa: E402
from tests.scratch.machines import on_machines, on_scratch  # noqa: E402

nn = torch.nn
tree_map = torch.utils._pytree.tree_map

PAGE = Path(__file__).parents[2] / "docs/howto/scratch-from-pytorch.md"
TOLERANCE = 1e-6
"""Tolerance relative to the largest output: weights are float32 in the file."""
STEPS, RATE = 3, 0.1

pytestmark = pytest.mark.filterwarnings("ignore:.*the editor takes about")


def as_dtype(inputs, dtype):
    """Cast floating-point inputs to this dtype."""
    return tree_map(lambda x: x.to(dtype) if x.is_floating_point() else x, tuple(inputs))


def numbered(name, count):
    return [name, *(f"{name}_{k}" for k in range(1, count))]


def near(found, wanted):
    wanted = wanted.detach().double().numpy().ravel()
    atol = TOLERANCE * np.abs(wanted).max(initial=0)
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=atol)


def call(machine, block, **lists):
    """Fill the lists and run the custom block."""
    for name, tensor in lists.items():
        machine.set_list(name, tensor.double().numpy().ravel())
    machine.call(block)
    assert machine.variable("error") == ""


@lru_cache(maxsize=2)  # for the machines take turns
def written(name, folder):
    """Return the sprite of a module in float32, its inputs, and its outputs in float64."""
    module, inputs = made(name)
    inputs = as_dtype(inputs, torch.float32)
    transpile(module.float(), inputs, folder=folder)
    inputs = as_dtype(inputs, torch.float64)
    return folder / "model.sprite3", leaves(inputs), outputs_of(module.double(), inputs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sprites")


QUICK = set(list(CASES)[::3])
"""Modules whose sprites are run in every run of the tests."""


@on_scratch
@pytest.mark.parametrize("name", some(CASES, QUICK))
def test_sprites_agree_with_modules(vm, name, folder):
    file, inputs, wanted = written(name, folder / str([*CASES].index(name)))
    machine = Machine(vm)
    machine.load(file)
    call(machine, "predict", **dict(zip(numbered("input", len(inputs)), inputs, strict=True)))
    for shared, tensor in zip(numbered("output", len(wanted)), wanted, strict=True):
        near(machine.array(shared), tensor)


def test_the_documented_table_matches_the_cases():
    rows = re.findall(r"^\| ([a-z ]+) \| (.*) \| (`.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {kind: [re.findall(r"`([^`]+)`", names) for names in columns] for kind, *columns in rows}
    assert listed == {kind: [[*PUBLISHED[kind]], [*REFUSED[kind]]] for kind in PUBLISHED}
    cases = (case for table in (PUBLISHED, REFUSED) for row in table.values() for case in row.values())
    assert set(cases) <= CASES.keys()


class Last(nn.Module):
    """A linear map of the last hidden state of an LSTM."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    )


LEARNERS = {
    "cnn": (convolutional, real(2, 1, 4, 4), whole(3, 2), nn.functional.cross_entropy, 0.9, {
        "loss": losses.cross_entropy, "labels": [NdArrayType((2,), Dtype.int64)],
    }),
    "lstm": (Last, real(2, 4, 3), real(2, 2, seed=1), nn.functional.mse_loss, 0.0, {"loss": mse}),
}  # fmt: skip


@on_machines
@pytest.mark.parametrize("name", LEARNERS)
def test_sprites_train_like_modules(vm, name, tmp_path):
    make, x, y, loss, momentum, options = LEARNERS[name]
    torch.manual_seed(0)
    module = make()
    transpile(module, x.float(), name, folder=tmp_path, optimiser=sgd(RATE, momentum=momentum), **options)
    machine = Machine(vm)
    machine.load(tmp_path / f"{name}.sb3")
    optimiser = torch.optim.SGD(module.double().parameters(), RATE, momentum)
    for _ in range(STEPS):
        optimiser.zero_grad()
        value = loss(module(x), y)
        value.backward()
        optimiser.step()
        call(machine, "train step", input=x, target=y)
        near(machine.variable("loss"), value)
    for parameter, tensor in module.named_parameters():
        near(machine.array(parameter), tensor)
    call(machine, "predict", input=x)
    near(machine.array("output"), module(x))


@on_machines
def test_each_input_has_a_list_that_is_checked(vm, tmp_path):
    transpile(nn.Bilinear(2, 3, 1), [torch.ones(1, 2), torch.ones(1, 3)], folder=tmp_path)
    machine = Machine(vm)
    machine.load(tmp_path / "model.sprite3")
    machine.set_list("input", [1.0, 2.0])
    machine.call("predict")
    assert machine.variable("error") == "input_1 must have 3 numbers, but it has 0"


class Masked(nn.Module):
    """Attention weights with a mask that has infinities, too large for a literal."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(-1, 1, 40))
        self.register_buffer("mask", torch.triu(torch.full((40, 40), float("-inf")), 1))

    def forward(self, x):
        return (x * self.scale + self.mask).softmax(-1)


@on_machines
@pytest.mark.parametrize("storage", ["numbers", "packed"])
def test_resetting_weights_keeps_constants(vm, storage, tmp_path):
    module, x = Masked(), real(40, 40)
    transpile(module, x.float(), folder=tmp_path, optimiser=sgd(RATE), storage=storage)
    machine = Machine(vm)
    machine.load(tmp_path / "model.sb3")
    machine.call("reset weights")
    machine.load(machine.save())
    np.testing.assert_array_equal(machine.array("mask"), module.mask.ravel())
    module.scale.data = torch.tensor(machine.array("scale"))
    call(machine, "predict", input=x)
    near(machine.array("output"), module.double()(x))
