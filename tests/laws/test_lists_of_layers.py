"""Stacks of equal layers in Python targets: loops over lists, as long for many layers as for few."""

import ast
import tracemalloc

import numpy as np
import pytest
from catgrad.examples.char_gpt import gpt, optimiser

from catgrad import Dim, Dtype, NdArrayType, Task, emit, from_torch, layers, losses, optimisers
from tests.targets import on

WIDTH, CONTEXT, CHARACTERS, BATCH = 8, 6, 11, 3
FEATURES, ROWS = NdArrayType((WIDTH,)), NdArrayType((BATCH,))
PYTHON = on("numpy", "torch", "jax")


def char_gpt(depth):
    """Return the character GPT of as many layers, with a symbolic batch."""
    batch = Dim("batch")
    labels = (NdArrayType((batch, CONTEXT), Dtype.int64),)
    model = gpt(CHARACTERS, batch, depth, WIDTH, 2, CONTEXT)
    return Task(model, optimiser(900), losses.cross_entropy, "char_gpt", labels)


def characters():
    """Return a batch of characters and of those that follow."""
    drawn = np.random.default_rng(0).integers(0, CHARACTERS, (2, BATCH, CONTEXT))
    return drawn[0], drawn[1]


def block(name, hidden=12):
    """Return a layer: x + down(tanh(up(norm(x))))."""
    inside = NdArrayType((hidden,))
    return layers.residual(
        layers.layer_norm(ROWS, FEATURES, name=f"{name}.norm")
        >> layers.linear(ROWS, FEATURES, inside, f"{name}.up")
        >> layers.bias(ROWS, inside, f"{name}.up")
        >> layers.tanh(ROWS + inside)
        >> layers.linear(ROWS, inside, FEATURES, f"{name}.down")
    )


def composed(*names_and_sizes):
    """Return a task of blocks of these names and hidden sizes, in order."""
    model = layers.linear(ROWS, FEATURES, FEATURES, "first")
    for name, hidden in names_and_sizes:
        model = model >> block(name, hidden)
    return Task(model, optimisers.adamw(0.01), losses.mse, "stack")


def two_kinds(depth):
    """Return an encoder and a decoder, adjacent stacks of as many layers of two kinds."""
    kinds = (("encoder.layers", 12), ("decoder.layers", 5))
    return composed(*((f"{name}.{k}", hidden) for name, hidden in kinds for k in range(depth)))


def unequal_ends(depth):
    """Return a stack whose first and last layers have other sizes."""
    return composed(*((f"h.{k}", 7 if k in (0, depth - 1) else 12) for k in range(depth)))


def with_buffers(depth):
    """Return layers with running statistics."""
    model = layers.linear(ROWS, FEATURES, FEATURES, "first")
    for k in range(depth):
        model = model >> layers.batch_norm(ROWS + FEATURES, name=f"h.{k}.statistics") >> block(f"h.{k}")
    return Task(model, optimisers.sgd(0.01, momentum=0.9), losses.mse, "buffers")


def named_by_words(depth):
    """Return layers whose names have no numbers."""
    return composed(*((f"{'abcdefghijklmnop'[k]}.layer", 12) for k in range(depth)))


TASKS = {
    "char GPT": char_gpt,
    "two kinds": two_kinds,
    "unequal ends": unequal_ends,
    "buffers": with_buffers,
    "words": named_by_words,
}


def batch(task):
    """Return a batch for a task."""
    if task.name == "char_gpt":
        return characters()
    rng = np.random.default_rng(1)
    return [rng.normal(size=(BATCH, WIDTH)).astype(np.float32) for _ in range(2)]


def lines_without_initial_values(source):
    """Count the lines of a module without those that draw or list the initial parameters."""
    functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    init = functions["init"]
    return source.count("\n") - (init.end_lineno - init.lineno)


@pytest.mark.covering
@on("numpy", "torch", "jax", long=("jax",))
@pytest.mark.parametrize("name", TASKS)
def test_a_stack_computes_what_its_layers_compute_written_out(name, target):
    check_against_layers_written_out(TASKS[name](4 if name == "char GPT" else 5), target)


@on("jax", long=("jax",))
def test_a_stack_computes_on_jax_what_its_layers_compute_written_out(target):
    check_against_layers_written_out(two_kinds(3), target)


def check_against_layers_written_out(task, target):
    """Compare three steps and a prediction of a task with those of the same task unrolled."""
    x, y = batch(task)
    artifacts = [emit(task, target, roll=not unroll) for unroll in (False, True)]
    assert "for layer in" in artifacts[0].source
    assert "for layer in" not in artifacts[1].source
    rolled, unrolled = (artifact.load()().learner(seed=7) for artifact in artifacts)
    for _ in range(3):
        np.testing.assert_allclose(rolled.step(x, y), unrolled.step(x, y), rtol=1e-5)
    for table in ("parameters", "buffers", "state"):
        found, expected = getattr(rolled, table), getattr(unrolled, table)
        assert list(found) == list(expected)
        for array in expected:
            np.testing.assert_allclose(found[array], expected[array], rtol=2e-5, atol=1e-6, err_msg=array)
    np.testing.assert_allclose(rolled.predict(x), unrolled.predict(x), rtol=1e-5, atol=1e-5)


@pytest.mark.covering
@PYTHON
@pytest.mark.parametrize("name", ["char GPT", "two kinds", "unequal ends", "buffers"])
def test_sources_do_not_grow_with_depth(name, target):
    short, long = (lines_without_initial_values(emit(TASKS[name](depth), target).source) for depth in (5, 12))
    assert abs(long - short) <= 30


@PYTHON
def test_a_layer_is_a_function_of_few_arguments(target):
    functions = {
        node.name: node
        for node in ast.parse(emit(char_gpt(4), target).source).body
        if isinstance(node, ast.FunctionDef)
    }
    for name in ("block_init", "block_forward", "block_reverse", "block_update"):
        assert len(functions[name].args.args) <= 8
    called = {
        node.func.id
        for node in ast.walk(functions["predict"])
        if isinstance(node, ast.Call) and hasattr(node.func, "id")
    }
    assert "block_forward" in called


def test_a_loop_needs_no_more_memory_than_its_layers_written_out():
    task, peaks = char_gpt(4), []
    x, y = (np.tile(each, (200, 1)) for each in characters())
    for unroll in (False, True):
        learner = emit(task, "numpy", roll=not unroll).load()().learner(seed=7)
        tracemalloc.start()
        learner.step(x, y)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] <= peaks[1]


def test_a_list_of_modules_is_a_loop():
    torch = pytest.importorskip("torch")

    class Layers(torch.nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.h = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(depth))
            self.last = torch.nn.Linear(WIDTH, 1)

        def forward(self, x):
            for layer in self.h:
                x = x + torch.nn.functional.gelu(layer(torch.nn.functional.layer_norm(x, (WIDTH,))))
            return self.last(x)

    short, long = (
        emit(
            Task(
                from_torch(Layers(depth), torch.zeros(BATCH, WIDTH)).model, optimisers.adam(0.01), losses.mse
            ),
            "numpy",
        ).source
        for depth in (4, 12)
    )
    assert '"h.{}.weight"' in long
    assert abs(lines_without_initial_values(long) - lines_without_initial_values(short)) <= 30


def test_modules_of_pytorch_are_written_out():
    pytest.importorskip("torch")
    assert "for layer in" not in emit(two_kinds(4), "torch-module").source
