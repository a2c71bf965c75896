"""Levels of 8 bits in programs of PyTorch, as torchao's `convert_pt2e` writes them."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, emit, losses, sgd
from catgrad.errors import CatgradError
from catgrad.frontends.torch import from_torch
from catgrad.learn.functions import opened_term
from catgrad.ops.fake_quantisation import FakeQuantise
from catgrad.quantisation import quantise
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.targets import on

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

import torch.ao.quantization.fx._decomposed as decomposed  # noqa: E402

levels = torch.ops.quantized_decomposed
assert decomposed  # its import registers the operations
X = 2 * torch.randn(64, 12, generator=torch.Generator().manual_seed(0))
TIES = torch.cat([torch.arange(-300, 300) * 0.125, torch.tensor([1e30, -1e30, 0.0])]).reshape(9, 67)[:, :60]
PIXELS, SUMS = (0.03125, 123, 0, 255, torch.uint8), (0.05, -7, -128, 127, torch.int8)
BITS = (-127, 127, torch.int8)


class Net(torch.nn.Module):
    """Two layers; weights are levels, as by default, or floats that are rounded (`fold_quantize=False`)."""

    def __init__(self, is_folded):
        super().__init__()
        torch.manual_seed(1)
        for name, shape in (("first", (16, 12)), ("last", (5, 16))):
            weight = torch.randn(shape) / 4
            scale, zero = weight.abs().amax(1) / 127, torch.zeros(len(weight), dtype=torch.int64)
            if is_folded:
                weight = levels.quantize_per_channel(weight, scale, zero, 0, *BITS)
                self.register_buffer(f"{name}_weight", weight)
            else:
                self.register_parameter(f"{name}_weight", torch.nn.Parameter(weight))
            self.register_buffer(f"{name}_scale", scale)
            self.register_buffer(f"{name}_zero", zero)
            self.register_parameter(f"{name}_bias", torch.nn.Parameter(torch.randn(shape[0]) / 4))

    def weight(self, name):
        weight, *grid = (getattr(self, f"{name}_{part}") for part in ("weight", "scale", "zero"))
        if weight.dtype is torch.float32:
            weight = levels.quantize_per_channel(weight, *grid, 0, *BITS)
        return levels.dequantize_per_channel(weight, *grid, 0, *BITS)

    def forward(self, x):
        x = rounded(x, *PIXELS)
        x = torch.relu(torch.nn.functional.linear(x, self.weight("first"), self.first_bias))
        x = torch.nn.functional.linear(rounded(x, *SUMS), self.weight("last"), self.last_bias)
        return rounded(x, *SUMS)


def rounded(x, *grid):
    return levels.dequantize_per_tensor(levels.quantize_per_tensor(x, *grid), *grid)


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


SCALES, ZEROS = torch.tensor([0.125, 0.5, 0.3]), torch.tensor([3, 0, 250])
CHANNELS = (SCALES, ZEROS, 1, 0, 255, torch.uint8)
DECIMAL, TIE = (0.0641, 0, -128, 127, torch.int8), 0.2243499904870987
"""A number that is half a level if 1 / s is rounded once, and less if s is rounded before."""
FUNCTIONS = {
    "levels of uint8": lambda x: levels.quantize_per_tensor(x, *PIXELS),
    "levels of int8": lambda x: levels.quantize_per_tensor(x, *SUMS),
    "levels of int16": lambda x: levels.quantize_per_tensor(x, 0.01, 5, -1000, 1000, torch.int16),
    "scale in an array": lambda x: levels.quantize_per_tensor.tensor(
        x, torch.tensor([0.05]), torch.tensor([3], dtype=torch.int64), -128, 127, torch.int8
    ),
    "channels": lambda x: levels.quantize_per_channel(x.reshape(-1, 3, 4), *CHANNELS),
    "numbers of channels": lambda x: levels.dequantize_per_channel(
        levels.quantize_per_channel(x.reshape(-1, 3, 4), *CHANNELS).flip(2), *CHANNELS
    ),
    "no zero points": lambda x: levels.dequantize_per_channel(
        x.reshape(-1, 3, 4).to(torch.int8), SCALES, None, 1, -128, 127, torch.int8
    ),
    "moved levels": lambda x: levels.dequantize_per_tensor(
        levels.quantize_per_tensor(x, *PIXELS).flip(1), *PIXELS
    ),
    "another grid": lambda x: levels.dequantize_per_tensor(
        levels.quantize_per_tensor(x, *SUMS), 0.25, 1, -128, 127, torch.int8
    ),
    "a scale that is no float32": lambda x: levels.quantize_per_tensor(TIE * x.sign(), *DECIMAL),
    "rounded to such a scale": lambda x: rounded(TIE * x.sign(), *DECIMAL),
    "rounded": lambda x: rounded(x, *PIXELS),
    "rounded channels": lambda x: levels.dequantize_per_channel(
        levels.quantize_per_channel(x.reshape(-1, 3, 4), *CHANNELS), *CHANNELS
    ),
}


@on("numpy", "torch", "c")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_levels_and_numbers_are_those_of_pytorch(target, name):
    module = Function(FUNCTIONS[name])
    for x in (X, TIES):
        opened = opened_term(from_torch(module, x).model)
        arrays = [slot.initial.array for slot in opened.buffers]
        [found] = run_on(get_backend(target), opened.term, *arrays, x.numpy())
        np.testing.assert_array_equal(np.asarray(found), module(x).numpy())


def task_of(module, x):
    """Import a network; returns the task, and its arrays."""
    imported = from_torch(module, x, dynamic=("batch",))
    label = (NdArrayType((Dim("batch"),), Dtype.int64),)
    return imported.task(sgd(0.05), losses.cross_entropy, label), {**imported.parameters, **imported.buffers}


@pytest.mark.parametrize("is_exported", [False, True])
@pytest.mark.parametrize("is_folded", [False, True])
def test_the_int8_model_has_the_levels_of_the_program(is_folded, is_exported):
    """A level may differ by one where a number is within rounding errors of a tie."""
    module = Net(is_folded)
    program = torch.export.export(module, (X[:4],), dynamic_shapes=({0: torch.export.Dim("batch")},))
    task, arrays = task_of(program.module() if is_exported else module, X[:4])
    small = quantise(task, arrays, [X.numpy()], inputs=Dtype.int8, outputs=Dtype.int8)
    [first], [last] = small.input_scales, small.output_scales
    assert (first.scale, first.zero) == (PIXELS[0], PIXELS[1] - 128)
    assert (last.scale, last.zero) == (np.float32(SUMS[0]), SUMS[1])
    found = [slot.initial.array for slot in small.buffers if slot.type.dtype is Dtype.int8]
    for name, array in zip(("first", "last"), found, strict=True):
        scale = getattr(module, f"{name}_scale").reshape(-1, 1)
        np.testing.assert_array_equal(array, (module.weight(name) / scale).detach().round())
    compiled = emit(small, "numpy").load()()
    [found] = compiled.predict(*compiled.init_buffers(), first.quantise(X.numpy()))
    difference = np.abs(last.quantise(module(X).detach().numpy()).astype(int) - found)
    assert difference.max() <= 1 and np.mean(difference) < 0.01


def test_weights_that_are_rounded_train():
    """Rounding has the gradient of the identity inside its range, though that to integers has none."""
    task, arrays = task_of(Net(is_folded=False), X[:4])
    assert sum(isinstance(op, FakeQuantise) for op in task.model.H.x.table) == 5
    learner = emit(task, "numpy").load()().learner(0)
    for name, array in arrays.items():
        (learner.parameters if name in learner.parameters else learner.buffers)[name][...] = array
    labels = np.arange(64) % 5
    before = {name: array.copy() for name, array in learner.parameters.items()}
    values = [float(learner.step(X.numpy(), labels)) for _ in range(20)]
    assert values[-1] < values[0]
    assert all(not np.array_equal(learner.parameters[name], array) for name, array in before.items())


def test_numbers_in_other_floats_are_refused():
    def function(x):
        return levels.dequantize_per_tensor(x.to(torch.int8), *SUMS, out_dtype=torch.float16)

    with pytest.raises(CatgradError, match="must be float32.*some are float16"):
        from_torch(Function(function), X)
