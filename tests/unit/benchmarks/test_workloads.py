"""The workloads of the benchmarks have the stated models, and agree with PyTorch in training."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import numpy as np
import pytest

import benchmarks
from benchmarks import machine
from benchmarks.cpu.command import goal_of
from benchmarks.cpu.workloads import WORKLOADS, chosen
from benchmarks.ggml import workloads as ggml
from benchmarks.peers.worker import Case, loss_of
from benchmarks.scratch import cases
from benchmarks.workloads import written
from catgrad.errors import UnknownName

SMALL = ("iris-150", "iris-16", "mlp", "lenet", "resnet-8", "recommender", "gru", "cnn-1d", "mixed")


def test_benchmarks_can_be_imported():
    """The peers are left out: each runs in an environment of its own."""
    modules = [each.name for each in walk_packages(benchmarks.__path__, "benchmarks.")]
    ours = [name for name in modules if ".peers" not in name and not name.endswith("__main__")]
    assert {import_module(name).__name__ for name in ours} == {*ours}


@pytest.mark.parametrize("name", SMALL)
def test_three_steps_have_the_losses_of_pytorch(name, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from benchmarks.peers import catgrad_emitted, torch_eager

    case = Case(written(chosen(name)[0], tmp_path), 1, "numpy")
    ours, theirs = catgrad_emitted.makers(case), torch_eager.makers(case)
    steps = [makers["step"]().call for makers in (ours, theirs)]
    losses = np.array([[float(step()) for step in steps] for _ in range(3)])
    np.testing.assert_allclose(losses[:, 0], losses[:, 1], rtol=1e-4)
    assert losses[2, 0] < losses[0, 0]
    scores = [makers["predict"]().call() for makers in (ours, theirs)]
    np.testing.assert_allclose(loss_of(case, scores[0]), loss_of(case, scores[1]), rtol=1e-5)


def test_a_tied_gpt_has_the_number_of_parameters_of_gpt_2():
    [gpt_2] = chosen("gpt-2")
    sizes = [slot.type.size for slot in gpt_2.task.parameters]
    # OpenAI's has 1,024 positions, and this one only those it is timed at.
    assert sum(sizes) == 124_439_808 - (1024 - 64) * 768


def test_operation_counts_are_those_of_the_products():
    [mlp] = chosen("mlp")
    forward = 2 * 64 * (784 * 128 + 128 * 10)
    assert machine.operations(mlp.task, "predict") == forward
    # Weights of both layers, and what the first layer's outputs should have been.
    assert machine.operations(mlp.task, "step") == 2 * forward + 2 * 64 * 128 * 10


def test_operations_in_loops_are_counted_as_often_as_they_run():
    [lstm] = chosen("lstm")
    layers = sum(2 * 16 * 64 * (inputs + 128) * 4 * 128 for inputs in (64, 128))
    assert machine.operations(lstm.task, "predict") == layers + 2 * 16 * 64 * 128 * 10


@pytest.mark.parametrize(
    ("chosen", "every"),
    [(chosen, WORKLOADS), (ggml.workloads, ggml.GGML_WORKLOADS), (cases.chosen, cases.NETS)],
)
def test_rows_are_chosen_by_name(chosen, every):
    first, *_, last = every
    assert chosen("") == every
    assert chosen(f"{last.name}, {first.name}") == (last, first)
    with pytest.raises(UnknownName, match=f"did you mean '{last.name}'"):
        chosen(f"{last.name}x")


@pytest.mark.parametrize(("name", "goal"), [("mlp", 2), ("char-gpt", 2), ("lenet", 4), ("resnet-8", 4)])
def test_only_convolutional_nets_may_take_four_times_as_long_on_numpy(name, goal):
    [workload] = chosen(name)
    assert goal_of(workload, "step", "numpy") == goal
    assert goal_of(workload, "predict", "numpy") is None
    assert goal_of(workload, "step", "c") == workload.goal["step"]
