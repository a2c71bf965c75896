"""Names in emitted code say what values are: of reductions, of parts of definitions, and of kernels."""

from __future__ import annotations

import re
from functools import cache

import pytest
from catgrad.backends.c.machine import MACHINE as C
from catgrad.backends.cuda.machine import MACHINE as CUDA

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, emit, layers, losses, ops, optimisers
from catgrad.learn.entries import program
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.nest import Accumulate, Combine, statements
from catgrad.loops.ir.steps import Kernel, every_step
from catgrad.loops.passes.schedule.reductions import ACCUMULATORS
from catgrad.targets import get_backend
from examples import char_gpt, digits
from tests.models import mlp

N = Dim("batch")


def gpt():
    labels = (NdArrayType((N, 6), Dtype.int64),)
    return Task(char_gpt.gpt(7, N, 2, 16, 2, 6), optimisers.adam(0.01), losses.cross_entropy, "gpt", labels)


MODELS = {"mlp": mlp, "cnn": digits.cnn, "gpt": gpt}


@cache
def functions(name, target):
    backend = get_backend(target)
    return backend.optimised(program(MODELS[name](), backend.has)).functions


@cache
def source(name, target):
    return emit(MODELS[name](), target).source


def assigned(text):
    """Return the variables of functions in Python."""
    return set(re.findall(r"^    (\w+) =", text, re.MULTILINE))


@pytest.mark.covering
@pytest.mark.parametrize("machine", [CUDA, C], ids=["cuda", "c"])
@pytest.mark.parametrize("name", MODELS)
def test_no_accumulator_is_named_after_another_operation(name, machine):
    for function in functions(name, "c"):
        for step in every_step(compile_kernels(function, machine, function.renewed()).steps):
            for s in statements(machine.finish(step).body) if isinstance(step, Kernel) else ():
                if isinstance(s, Accumulate | Combine) and s.buffer.name in ACCUMULATORS.values():
                    assert s.buffer.name == ACCUMULATORS[type(s.op)]


@pytest.mark.parametrize("name", MODELS)
def test_no_kernel_is_named_after_a_layer_that_it_does_not_touch(name):
    text = re.sub(r"\s+", " ", source(name, "c"))
    parameters = [p.name.rpartition(".")[0] for p in MODELS[name]().parameters]
    layers = {re.sub(r"\W", "_", layer) for layer in parameters if re.search(r"\d", layer)}
    calls = re.findall(r"(?<=[;{}(] )((?:compute|update|check)_\w+)\(([^;]*?)\);", text)
    assert calls
    for kernel, arguments in calls:
        named = [layer for layer in layers if re.search(rf"(_|^){layer}(_|$)", kernel)]
        assert not named or any(re.search(rf"\b(\w+_)?{layer}_", arguments) for layer in named), kernel


def test_parts_of_a_definition_are_in_the_layer_that_computes_them():
    """Also of the second of two blocks, in the forward and in the reverse."""
    text = source("gpt", "numpy")
    step = text[text.index("def step(") :]
    for layer in ("block_0_norm1", "block_0_norm2", "block_1_norm1", "norm"):
        assert {f"{layer}_mean", f"{layer}_rstd"} <= assigned(step)
    assert "block_1_self_attn_weights" in step
    assert "block_0_residual1" in step


def test_a_part_has_the_innermost_layer_around_its_readers():
    def model(x):
        first = layers.label("a.b.out", ops.layer_norm(x))
        return layers.label("a.c.out", ops.layer_norm(first)) * 2

    text = emit(Functions({"f": build(model, [NdArrayType((4, 3))])})).source
    assert {"a_b_mean", "a_b_rstd", "a_c_mean", "a_c_rstd"} <= assigned(text)


@pytest.mark.parametrize("target", ["c", "cuda"])
def test_loops_over_layers_count_by_layer(target):
    """The forward and reverse passes, norms of gradients, updates, and initial values."""
    labels = (NdArrayType((N, 6), Dtype.int64),)
    optimiser = optimisers.clipped(optimisers.adam(0.01), 1.0)
    task = Task(char_gpt.gpt(7, N, 5, 16, 2, 6), optimiser, losses.cross_entropy, "gpt", labels)
    pattern = r"for \((?:ptrdiff_t|size_t|int) (\w+) = (?:0; \w+ < 5;|5 - 1;)"
    loops = re.findall(pattern, emit(task, target).source)
    assert len(loops) >= 6
    assert {*loops} == {"layer"}
