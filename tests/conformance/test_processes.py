"""Programs of docs/howto/many-devices.md in four processes of PyTorch, against the same in one process."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catgrad import Functions, Task, build, layers, losses, ops, shared_rows
from catgrad.artifact import Artifact
from catgrad.initialisers import Uniform
from catgrad.learn import optimisers
from catgrad.learn.fit import checkpoint
from catgrad.learn.layers.parts import parameter
from catgrad.learn.optimiser import Optimiser
from catgrad.learn.optimisers import adamw, clipped, grouped, sgd
from catgrad.ops.random import KEY
from catgrad.terms.var import Var
from tests.conformance.c_models import DRAWING, MODELS, Batch, N, classes, floats, pictures
from tests.targets import cannot, emit

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.skipif(
    bool(cannot("torch")) or not torch.distributed.is_gloo_available(), reason="PyTorch has no gloo"
)
COUNT = 4
STEPS = 3
SEED = 3

PAGE = Path(__file__).parents[2] / "docs/howto/many-devices.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("## PyTorch")[2].partition("## C, by MPI")[0]
_, AVERAGE, SHARE, SAVE, AS_ONE, FSDP, BY_ROW = re.findall(r"```py\n(.*?)```", SECTION, re.DOTALL)

DEFINITIONS = SHARE.partition("learner = ")[0]
"""Functions that later programs use."""

LOOP = "for x, y in batches:\n"
[ROW] = re.findall(f"{LOOP}(.*first_row.*\n)", BY_ROW)
SHARE_BY_ROW = SHARE.replace(LOOP, LOOP + ROW)
FSDP_BY_ROW = FSDP.replace(LOOP, f"{LOOP}    module.first_row.fill_(dist.get_rank() * len(x))\n")

COUNTED = """
from torch.distributed.tensor.debug import CommDebugMode

shares = split(learner.parameters).values()
with CommDebugMode() as communication:
    learner.model.update(*learner.state.values(), *shares, *shares)
"""
"""Count the collective operations of an update, which changes nothing."""

COMBINATORS = {"Optimiser", "clipped", "ema", "frozen", "grouped", "sliced"}
WHOLE = ("adafactor", "muon")
"""Optimisers that are not elementwise."""
ELEMENTWISE = [name for name in optimisers.__all__ if name not in COMBINATORS.union(WHOLE)]

CLIPPED = clipped(adamw(0.01, epsilon=1e-3), 0.5)
MOMENTUM = sgd(0.1, momentum=0.9)


@dataclass(frozen=True)
class Case:
    """A task that processes train by a program; one process has the batches in `parts`.

    If it draws `by_row`, they train what draws as one process does.
    """

    program: str
    task: Callable[[], Task]
    draw: Callable[[np.random.Generator, int], Batch]
    parts: int = 1
    target: str = "torch"
    by_row: bool = False

    def batches(self, count: int, seed: int = 0) -> list[Batch]:
        """Draw batches of 8 rows."""
        rng = np.random.default_rng(seed)
        return [self.draw(rng, 2 * COUNT) for _ in range(count)]


def by(
    name: str, program: str, optimiser: Optimiser, parts: int = 1, target: str = "torch", by_row: bool = False
) -> Case:
    """Return the case of one of the models, with another optimiser."""
    model = (MODELS | DRAWING)[name]

    def task() -> Task:
        return replace(model.task(), optimiser=optimiser, name="net")

    return Case(program, task, model.draw, parts, target, by_row)


def trained_by(names: Sequence[str]) -> Task:
    """Add up linear layers, each trained by another optimiser."""
    weight, bias = floats(8, 12), floats(12)

    def forward(x: Var) -> Var:
        shifts = [ops.broadcast(parameter(f"{name}.bias", bias), (N, 12)) for name in names]
        terms = [x @ parameter(f"{name}.weight", weight, Uniform(-0.1, 0.1)) for name in names]
        return sum([*shifts[1:], *terms], shifts[0])

    rule = grouped(lambda slot: getattr(optimisers, slot.name.partition(".")[0])(0.01))
    return Task(build(forward, [floats(N, 8)]), rule, losses.mse, "net")


def normed_cnn() -> Task:
    """Train a convolution with batch norm and dropout."""
    image = floats(N, 6, 8, 8)
    model = layers.sequential(
        layers.conv(floats(N, 2, 8, 8), 6, 3, 1, 1, bias=False, name=""),
        layers.batch_norm(image, name=""),
        layers.relu([image]),
        layers.dropout(image, 0.3, name="drop"),
        layers.flatten(image),
        layers.linear(floats(N), floats(384), floats(5), name=""),
    )
    return Task(model, sgd(0.05, momentum=0.9), losses.cross_entropy, "net", classes(N))


CASES = {
    "averaged_mlp": by("mlp", AVERAGE, CLIPPED),
    "shared_mlp": by("mlp", SHARE, CLIPPED),
    "elementwise": Case(SHARE + COUNTED, partial(trained_by, ELEMENTWISE), DRAWING["dropped_mlp"].draw),
    "not_elementwise": Case(SHARE + COUNTED, partial(trained_by, WHOLE), DRAWING["dropped_mlp"].draw),
    "shared_cnn": by("cnn", SHARE, adamw(0.01, epsilon=1e-3), COUNT),
    "shared_gpt": by("char_gpt", SHARE + SAVE, CLIPPED, COUNT),
    "as_one_cnn": Case(DEFINITIONS + AS_ONE + SAVE, normed_cnn, pictures),
    "as_one_gpt": by("char_gpt", DEFINITIONS + AS_ONE, CLIPPED),
    "fsdp_mlp": by("mlp", FSDP, MOMENTUM, 1, "torch-module"),
    "fsdp_gpt": by("char_gpt", FSDP, MOMENTUM, COUNT, "torch-module"),
    "averaged_by_row_mlp": by("dropped_mlp", BY_ROW, CLIPPED, by_row=True),
    "shared_by_row_gpt": by("char_gpt", SHARE_BY_ROW, CLIPPED, by_row=True),
    "fsdp_by_row_gpt": by("char_gpt", FSDP_BY_ROW, MOMENTUM, 1, "torch-module", by_row=True),
}
RESUMED = "shared_gpt"


@cache
def emitted(name: str, target: str, by_row: bool = False) -> Artifact:
    task = CASES[name].task()
    return emit(shared_rows(task) if by_row else task, target)


def learners(name: str, count: int) -> list[Any]:
    """Return learners, each of which draws masks by a seed of its own."""
    model = emitted(name, "torch").load()()
    return [drawing(model.learner(seed=SEED), rank) for rank in range(count)]


def drawing(learner: Any, rank: int) -> Any:
    """Let a learner draw by the seed of a process."""
    if "seed" in learner.buffers:
        learner.buffers["seed"] = learner.buffers["seed"] + rank
    return learner


def train(learners: list[Any], batches: Iterable[Batch]) -> list[Any]:
    """Train by the mean of the gradients that each learner computes on its part of a batch."""
    count = len(learners)
    for batch in batches:
        parts = zip(*(torch.tensor(array).chunk(count) for array in batch), strict=True)
        found = [learner.grads(*part)[1] for learner, part in zip(learners, parts, strict=True)]
        for learner in learners:
            learner.update({name: sum(g[name] for g in found) / count for name in found[0]})
    return learners


def told(name: str, folder: Path, **others: str) -> dict[str, Any]:
    """Return what a process needs to know of a case."""
    case = CASES[name]
    known = {"name": name, "program": case.program, "batches": f"{folder}/{name}.npz"}
    return known | {"own_masks": case.parts > 1} | others


def write(path: Path, batches: list[Batch]) -> None:
    np.savez(
        path, **{f"{n}{k}": a for k, batch in enumerate(batches) for n, a in zip("xy", batch, strict=True)}
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Run all programs in processes that are started once."""
    folder = tmp_path_factory.mktemp("processes")
    for name, case in CASES.items():
        (folder / f"{name}.py").write_text(emitted(name, case.target, case.by_row).source, encoding="utf-8")
        write(folder / f"{name}.npz", case.batches(STEPS))
    (folder / "all").mkdir()
    (folder / "two").mkdir()
    write(folder / "later.npz", CASES[RESUMED].batches(2, seed=1))
    checkpoint = f"{folder}/all/{RESUMED}/net.safetensors"
    resumed = told(RESUMED, folder, batches=f"{folder}/later.npz", checkpoint=checkpoint)
    cases = {"all": [told(name, folder) for name in CASES], "two": [resumed]}
    (folder / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    command = [sys.executable, "-m", "tests.conformance.torch_process", str(folder), str(COUNT)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PAGE.parents[2])
    assert done.returncode == 0, done.stderr
    return folder


def check(path: Path, expected: Any) -> None:
    """Compare the arrays that a process wrote with those of a learner."""
    with np.load(path) as found:
        for key, array in (expected.parameters | expected.buffers).items():
            np.testing.assert_allclose(found[key], array, rtol=1e-4, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", CASES)
def test_processes_train_as_one(name, folder):
    """One process adds up the gradients of four parts, where statistics and masks are those of processes."""
    case = CASES[name]
    expected = train(learners(name, case.parts), case.batches(STEPS))
    for rank in range(COUNT):
        check(folder / f"all/{name}/{rank}.npz", expected[rank % case.parts])


@pytest.mark.parametrize(
    ("name", "tables"),
    [("elementwise", ["state"]), ("as_one_gpt", ["state"]), ("fsdp_gpt", ["parameters", "state"])],
)
def test_processes_keep_one_part(name, tables, folder):
    """Some arrays are not divided: the count of steps, and what 4 does not divide."""
    [learner] = learners(name, 1)
    whole = sum(array.nbytes for table in tables for array in getattr(learner, table).values())
    for rank in range(COUNT):
        with np.load(folder / f"all/{name}/{rank}.npz") as found:
            assert 0.9 * whole < COUNT * found["bytes"] < 1.05 * whole


def test_elementwise_updates_communicate_nothing(folder):
    """Muon multiplies whole matrices, and Adafactor has means of rows and columns."""
    counts = [
        np.load(folder / f"all/{name}/0.npz")["collectives"] for name in ("elementwise", "not_elementwise")
    ]
    assert counts[0] == 0 < counts[1]


def test_a_checkpoint_of_four_is_trained_by_two_and_by_one(folder):
    case = CASES[RESUMED]
    later, last = case.batches(2, seed=1), case.batches(1, seed=2)
    four = train(learners(RESUMED, COUNT), case.batches(STEPS))
    two = learners(RESUMED, 2)
    for rank, learner in enumerate(two):
        checkpoint.restore(learner, copy.deepcopy(checkpoint.tables(four[0])))
        drawing(learner, rank)
    expected = train(two, later)
    for rank in range(2):
        check(folder / f"two/{RESUMED}/{rank}.npz", expected[rank])
    [one] = learners(RESUMED, 1)
    checkpoint.load(one, folder / f"two/{RESUMED}/net.safetensors")
    for a, b in zip(train([one], last), train(expected[:1], last), strict=True):
        for table, arrays in checkpoint.tables(a).items():
            for key, array in arrays.items():
                np.testing.assert_allclose(array, getattr(b, table)[key], rtol=1e-4, atol=1e-6, err_msg=key)


def test_bits_of_distributed_tensors_are_shifted(tmp_path):
    """Tensors of PyTorch 2.13 that are distributed come out of the operators << and >> unchanged."""
    from torch.distributed.tensor import distribute_tensor
    from torch.distributed.tensor.experimental import implicit_replication

    types = [KEY, KEY]
    shifts = build(lambda x, n: (ops.shift_left(x, n), ops.shift_right(x, n)), types)
    draw = build(lambda x, n: ops.random_uniform((5,), 7, x, n), types)
    model = emit(Functions({"shifts": shifts, "draw": draw}), "torch").load()()
    given = [torch.tensor(1 << 40), torch.tensor(3)]
    store = f"file://{tmp_path}/meeting"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        shared = [distribute_tensor(x, mesh) for x in given]
        for function in (model.shifts, model.draw):
            with implicit_replication():
                found = function(*shared)
            for y, expected in zip(found, function(*given), strict=True):
                assert torch.equal(y.full_tensor(), expected)
    finally:
        torch.distributed.destroy_process_group()
