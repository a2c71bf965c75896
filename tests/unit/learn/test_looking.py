"""Summaries, costs and short tables: their numbers are those of PyTorch and of the manifest."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from catgrad import Dim, NdArrayType, Task, fit, layers, losses, mse, optimisers
from catgrad.errors import OptionError, UnknownName
from catgrad.learn.task import COMPILED
from catgrad.programs.ports import Role
from catgrad.tables import Table, spelled
from catgrad.types import Dtype
from examples import char_gpt, digits
from tests.covering import some
from tests.models import mlp
from tests.targets import emit
from tests.unit.command import run

LABELS = (NdArrayType((Dim("batch"),), Dtype.int64),)


def imported(module, *inputs):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from catgrad import from_torch

    return from_torch(module, *inputs, dynamic=("batch",))


def counted(run) -> int:
    """Count the FLOPs of products and convolutions by PyTorch, which misses those of its fused attention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


@pytest.mark.parametrize("kind", ["dense", "conv", "grouped", "attention"])
def test_products_have_the_flops_that_pytorch_counts(kind):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    nn = torch.nn
    module, shape = {
        "dense": (nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3)), (6, 7)),
        "conv": (nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 4, 3)), (6, 3, 11, 9)),
        "grouped": (nn.Conv1d(8, 12, 3, dilation=2, groups=4), (6, 8, 17)),
        "attention": (nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True), (6, 9, 16)),
    }[kind]
    module, x = module.eval(), torch.randn(*shape)
    task = imported(module, x).task(optimisers.sgd(0.1), mse)
    assert task.cost(batch=6).functions["predict"].products == counted(lambda: module(x))
    if kind == "dense":
        expected = counted(lambda: module(x).square().mean().backward())
        assert task.cost(batch=6).functions["grads"].products == expected


def test_costs_are_symbolic_in_sizes_that_are_not_given():
    symbolic, fixed = mlp().cost(), mlp().cost(batch=9)
    for name, cost in fixed.functions.items():
        for count, number in (
            (symbolic.functions[name].flops, cost.flops),
            (symbolic.functions[name].bytes, cost.bytes),
        ):
            assert (count.substitute({"batch": 9}) if isinstance(count, Dim) else count) == number
    assert symbolic.workspaces["predict"] is None
    assert "batch=32" in str(symbolic)
    assert fixed.workspaces["step"] >= fixed.workspaces["predict"] > 0


@pytest.mark.parametrize(
    "task", some([digits.cnn, digits.mlp, lambda: char_gpt.task(20, 10)], [digits.cnn, digits.mlp])
)
def test_totals_are_the_bytes_of_the_manifest(task, tmp_path):
    task = task()
    artifact = emit(task, "c")
    artifact.write(tmp_path)
    tables = json.loads((tmp_path / "manifest.json").read_text())["tables"]

    def size(table: str) -> int:
        arrays = tables.get(table, [])
        return sum(int(np.prod(a["shape"], dtype=int)) * np.dtype(a["dtype"]).itemsize for a in arrays)

    summary = task.summary()
    assert summary.total.bytes == sum(layer.bytes for layer in summary.layers) == size("parameters")
    # The target C keeps its learning rate in the state.
    rates = sum(s.type.bytes for s in artifact.program.tables["state"] if s.name.startswith("learning_rate"))
    assert summary.total.state == size("state") + size("buffers") - rates
    assert task.cost().communicated == size("parameters") + 4


def test_devices_send_what_rings_do():
    """Each passes (N - 1)/N of a sum twice, and of what is gathered, or added up in parts, once."""
    task, count = char_gpt.task(64, 10), 4
    found = task.communication(count, batch=8)
    [weights, loss] = [sum(p.type.bytes for p in task.ports(role)) for role in (Role.PARAMETER, Role.LOSS)]
    assert found.passes["data"] == 2 * (weights + loss)
    assert found.sent("data") == -(-2 * (weights + loss) * 3 // 4)
    assert found.passes["fsdp"] == 3 * weights + 2 * loss
    assert found.parameters == {**found.parameters, "data": weights, "fsdp": weights // 4}
    # Two sums in each block (Shoeybi et al. 2019, figure 4), and two more in its reverse.
    model, depth = task.communication(2, batch=8), 4
    sums = [8 * char_gpt.CONTEXT * 128 * 4] * (4 * depth)
    rest = model.passes["tensor"] - 2 * sum(sums)
    assert 0 <= rest < sums[0] * 4  # of the vocabulary: its embedding, its scores and their reverse
    assert "multiple of 7" in str(task.communication(7))


def test_layers_are_those_of_the_names():
    batch, width = NdArrayType((Dim("batch"),)), NdArrayType((8,))
    block = layers.named(
        "block", layers.dense(batch, width, width, layers.relu) >> layers.layer_norm(batch, width)
    )
    task = Task(block >> layers.dense(batch, width, NdArrayType((3,))), optimisers.adam(0.1), mse)
    summary = task.summary(batch=2)
    named = {layer.name: layer for layer in summary.layers}
    assert named["block.dense"].flops == 2 * (2 * 8 * 8 + 8 + 8)
    assert named["block.dense"].output is NdArrayType((2, 8))
    assert named["block.dense"].state == 2 * named["block.dense"].bytes == 2 * 4 * (64 + 8)
    assert summary.total.flops == task.cost(batch=2).functions["predict"].flops
    merged = task.summary(depth=1, batch=2)
    assert [layer.name for layer in merged.layers] == ["block", "dense", "(model)"]
    assert merged.total == summary.total


def test_frozen_parameters_have_a_column_of_their_bytes():
    first = optimisers.grouped(lambda p: optimisers.frozen() if "0" in p.name else optimisers.sgd(0.1))
    task = replace(mlp(), optimiser=first)
    frozen = sum(p.type.bytes for p in task.parameters if "0" in p.name)
    assert task.summary(batch=2).total.frozen == frozen > 0
    assert "frozen" in str(task.summary())
    assert "frozen" not in str(mlp().summary())


def test_a_size_is_one_of_the_inputs():
    with pytest.raises(UnknownName, match="did you mean 'batch'"):
        mlp().summary(bacth=3)
    with pytest.raises(OptionError, match="an integer"):
        mlp().cost(batch="3")
    with pytest.raises(OptionError, match="depth"):
        mlp().summary(depth=0)


def test_tables_align_numbers_to_the_right():
    table = Table(("name", "count"), [("a", 1234), ("long", 5)], ("total", 1239), ("note",))
    assert str(table).splitlines() == [
        "name   count",
        "────────────",
        "a      1,234",
        "long       5",
        "────────────",
        "total  1,239",
        "note",
    ]
    assert spelled(Dim("n") * 3 + 1) == "3·n + 1"


def test_tasks_and_artifacts_are_short_tables():
    task = Task(mlp().model, optimisers.adam(0.1), losses.huber, "net")
    shown = repr(task).splitlines()
    assert shown[0].split() == ["task", "net"]
    assert "model       f32[batch,4] -> f32[batch,3]" in shown
    assert "state       9 arrays, 87 elements, 352 bytes" in shown
    assert len(shown) < 10
    artifact = repr(emit(task, "numpy"))
    assert "target     numpy" in artifact
    assert all(kind in artifact for kind in COMPILED)


def test_a_learner_plots_its_training(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    learner = emit(mlp()).load()().learner(0)
    with pytest.raises(OptionError, match="call fit first"):
        learner.plot(tmp_path / "loss.svg")
    rng = np.random.default_rng(0)
    fit(learner, (rng.normal(size=(20, 4)), rng.normal(size=(20, 3))), epochs=2, progress=False)
    learner.plot(tmp_path / "loss.svg")
    assert (tmp_path / "loss.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_the_command_line_prints_summary_and_cost(tmp_path):
    from examples.iris import hidden

    done = run("summary", "examples.iris:hidden", "--size", "batch=32")
    assert done.stdout == f"{hidden().summary(batch=32)}\n", done.stderr
    assert run("cost", "examples.iris:hidden").stdout == f"{hidden().cost()}\n"
    (tmp_path / "net.py").write_text("x = 1\n")
    done = run("summary", f"{tmp_path}/net.py:x")
    assert done.returncode == 2
    assert "Task" in done.stderr


def test_modules_have_summaries_on_the_command_line(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    code = "from torch import nn\n\n\ndef net():\n    return nn.Sequential(nn.Linear(4, 3), nn.ReLU())\n"
    (tmp_path / "net.py").write_text(code)
    given = ("--input", "f32[batch,4]", "--size", "batch=5", "--optimizer", "sgd")
    done = run("summary", f"{tmp_path}/net.py:net", *given)
    assert re.search(r"^0 +f32\[5,3\] +15 +60 +0 +150 ", done.stdout, re.MULTILINE), done.stdout + done.stderr


def test_a_notebook_shows_tables():
    """Text is escaped, numbers are at the right, and a learner is shown on every target."""
    task = mlp()
    shown = [task, emit(task, "numpy"), task.cost(batch=2), task.summary(batch=2)]
    assert all(each._repr_html_() == each.table._repr_html_() for each in shown)
    assert "f32[batch,4] -&gt;" in task._repr_html_()
    assert '<td align="right">' in emit(task, "numpy").load()().learner(seed=0)._repr_html_()
