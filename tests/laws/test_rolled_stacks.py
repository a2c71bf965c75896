"""Stacks of equal layers as loops: the same functions, of a size that does not depend on depth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from catgrad.backends.cuda.machine import MACHINE as CUDA

import catgrad
from catgrad import Dtype, NdArrayType, Task, Term, build, emit, layers, losses, ops, optimisers
from catgrad.functors import Expand, roll
from catgrad.learn.adapters import adapters_only
from catgrad.learn.entries import terms_of
from catgrad.loops import OPERATIONS, TABLES
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.steps import every_step
from catgrad.loops.memory_plan import planned
from catgrad.loops.reference import run
from catgrad.ops.scan import Scan
from catgrad.ops.shape import Permute
from catgrad.programs.passes import transpose
from catgrad.programs.ports import Role
from catgrad.programs.program import Nested, applications, evaluate, lower, operations
from catgrad.programs.stacks import layers_of, stacks_of
from catgrad.terms.structural import Copy
from catgrad.terms.term import edges, identity
from tests.kernels import SCALARS, VECTORS, prepared

PLACES, FEATURES = NdArrayType((2, 5)), NdArrayType((4,))
X = PLACES + FEATURES


def blocks(count: int, name: str = "block", causal: bool = True) -> Term:
    every = (
        layers.transformer_block(PLACES, FEATURES, 2, 6, causal=causal, name=f"{name}.{k}")
        for k in range(count)
    )
    return layers.sequential(*every)


def convolutions(count: int) -> Term:
    image = NdArrayType((1, 2, 3, 3))
    return layers.sequential(
        *(
            layers.residual(
                layers.conv(image, 2, 3, padding=1, name=f"stage_{k}.conv")
                >> layers.batch_norm(image, name=f"stage_{k}.bn")
                >> layers.relu(image)
            )
            for k in range(count)
        )
    )


def two_kinds(count: int) -> Term:
    """An encoder and a decoder of other layers, and unequal layers before, between and after them."""
    other = layers.sequential(
        *(
            layers.residual(
                layers.rms_norm(PLACES, FEATURES, name=f"decoder.{k}.norm")
                >> layers.swiglu(PLACES, FEATURES, 6, name=f"decoder.{k}.mlp")
            )
            for k in range(count)
        )
    )
    first, between, last = (
        layers.dense(PLACES, FEATURES, FEATURES, name=n) for n in ("first", "mid", "last")
    )
    return first >> blocks(count, "encoder", causal=False) >> between >> other >> last


def all_read(count: int) -> Term:
    """A stack of which every layer's output is read after it."""
    each = [layers.residual(layers.swiglu(PLACES, FEATURES, 6, name=f"layer{k}")) for k in range(count)]

    def forward(x):
        outputs = [x]
        for layer in each:
            outputs.append(layer(outputs[-1]))
        return ops.concat(outputs, axis=1)

    return build(forward, [X])


def dense(count: int, activation=layers.tanh) -> Term:
    every = (layers.dense(PLACES, FEATURES, FEATURES, activation, name=f"dense{k}") for k in range(count))
    return layers.sequential(*every)


def resnet(count: int) -> Term:
    """Blocks of two convolutions with batch norms, of which a relu reads the sum with their input."""
    image = NdArrayType((2, 2, 3, 3))

    def half(name: str) -> Term:
        return layers.conv(image, 2, 3, padding=1, name=f"{name}.conv") >> layers.batch_norm(image, name=name)

    return layers.sequential(
        *(
            layers.residual(half(f"block.{k}.first") >> layers.relu(image) >> half(f"block.{k}.last"))
            >> layers.relu(image)
            for k in range(count)
        )
    )


MODELS = {
    "blocks": blocks,
    "convolutions": convolutions,
    "resnet": resnet,
    "dense": dense,
    "two kinds": two_kinds,
    "all read": all_read,
}
OPTIMISERS = {
    "sgd": optimisers.sgd(0.1),
    "adamw": optimisers.clipped(optimisers.adamw(0.01, weight_decay=0.1), 1.0),
    "muon": optimisers.muon(0.01),
}


def task_of(model: Term, optimiser: str = "adamw") -> Task:
    return Task(model, OPTIMISERS[optimiser], losses.mse)


def drawn(term: Term) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [
        (np.abs(random.normal(size=t.shape)) * 0.3).astype(t.dtype.numpy)
        if t.dtype.is_floating
        else random.integers(0, 2, t.shape).astype(t.dtype.numpy)
        for t in term.source.table
    ]


def close(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def loops_in(term: Term) -> list[Scan]:
    return [edge.op for edge in edges(term) if isinstance(edge.op, Scan)]


@pytest.mark.covering
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("model", MODELS)
def test_terms_with_loops_are_equal(model, optimiser):
    plain = task_of(MODELS[model](4), optimiser)
    rolled = replace(plain, rolls=True)
    assert rolled.parameters == plain.parameters
    assert rolled.state == plain.state
    assert rolled.buffers == plain.buffers
    for name in functions(optimiser, "predict", "loss", "grads", "update", "step"):
        term = rolled.term(name)
        assert loops_in(term)
        arrays = drawn(term)
        close(evaluate(term, *arrays), evaluate(plain.term(name), *arrays))


def functions(optimiser: str, *names: str) -> tuple[str, ...]:
    """Leave out functions that every optimiser has alike, but for one of them."""
    return tuple(name for name in names if optimiser == "sgd" or name in ("update", "step"))


def has(op) -> bool:
    return op.macro in OPERATIONS | TABLES


def lowered(task: Task, name: str, machine):
    entry = terms_of(task, [name]).entries[name]
    function = prepared(replace(lower(Expand(has)(entry.term)), inputs=entry.inputs, outputs=entry.outputs))
    return compile_kernels(function, machine, function.renewed())


@pytest.mark.covering
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("model", MODELS)
def test_kernels_of_loops_are_correct_within_the_memory_plan(model, optimiser):
    task = replace(task_of(MODELS[model](3), optimiser), rolls=True)
    for name in functions(optimiser, "predict", "step"):
        arrays = drawn(task.term(name))
        wanted = evaluate(task.term(name), *arrays)
        for machine in (SCALARS, VECTORS):
            found = lowered(task, name, machine)
            close(run(found, *arrays, plan=planned(found)), wanted)


@pytest.mark.covering
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("model", ["two kinds", "resnet", "dense"])
@pytest.mark.parametrize("machine", [VECTORS, CUDA], ids=["vectors", "cuda"])
def test_the_number_of_steps_does_not_depend_on_depth(model, optimiser, machine):
    tasks = (replace(task_of(MODELS[model](n), optimiser), rolls=True) for n in (5, 9))
    counts = {len([*every_step(lowered(task, "step", machine).steps)]) for task in tasks}
    assert len(counts) == 1


@pytest.mark.covering
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("model", ["two kinds", "resnet", "dense"])
def test_the_lines_of_graphs_do_not_depend_on_depth(model, optimiser):
    """A graph of ggml is built in loops: more layers are more names in tables, one on a line.

    A sum over eight layers is long enough for a loop, even of layers with two parameters.
    """
    functions = ("predict", "step", "grads", "update")
    lines = {}
    for count in (8, 12):
        artifact = emit(task_of(MODELS[model](count), optimiser), "ggml", functions=functions)
        slots = [slot.name for table in artifact.program.tables.values() for slot in table]
        texts = [artifact.text("model.cpp"), artifact.text("model.h"), artifact.text("model_host.c")]
        every = [line for text in texts for line in text.splitlines()]
        lines[count] = len([line for line in every if not any(f'"{name}"' in line for name in slots)])
    assert lines[8] == lines[12]


@pytest.mark.covering
@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
@pytest.mark.parametrize(
    "model", sorted(MODELS.keys() - {"dense"})
)  # four features are registers if written out
def test_loops_need_no_more_memory(model, optimiser):
    plain = task_of(MODELS[model](5), optimiser)
    sizes = [planned(lowered(task, "step", VECTORS)).total for task in (plain, replace(plain, rolls=True))]
    assert sizes[1] <= sizes[0]


def test_updates_of_matrices_that_are_stored_transposed_copy_nothing_in_loops():
    program = emit(task_of(blocks(4), "sgd"), "ggml").program
    names = {slot.name for slot in program.tables[Role.PARAMETER] if slot.type.rank == 2}
    step = transpose.stored(program, names)["step"]
    assert any(isinstance(each.op, Nested) for each in step.body)
    assert not any(each.op == Permute((1, 0)) for each in applications(step))


def test_loops_return_no_rows_that_they_read():
    each = (
        layers.residual(
            layers.layer_norm(PLACES, FEATURES, name=f"{k}.norm")
            >> layers.lora(PLACES, FEATURES, FEATURES, 2, 4.0, f"{k}.map")
            >> layers.tanh(X)
        )
        for k in range(4)
    )
    task = Task(layers.sequential(*each), adapters_only(optimisers.sgd(0.1)), losses.mse)
    loops = [each for each in emit(task, "ggml").program["step"].body if isinstance(each.op, Nested)]
    assert loops
    for loop in loops:
        (body,) = loop.op.functions
        assert {*loop.op.op.parts(body.arguments)[1]}.isdisjoint(body.results)


def test_a_table_has_the_longest_of_stacks_that_overlap():
    """Clipping adds norms to that of the first layer, so that its loop in `update` leaves this one out."""
    program = emit(task_of(blocks(4)), "c", functions=("update",)).program
    counts = {len(names) for names in stacks_of(program, Role.PARAMETER)}
    assert counts == {3, 4}
    assert [layers.count for layers in layers_of(program, Role.PARAMETER)] == [4]


@pytest.mark.parametrize("kind", ["predict", "loss", "rev", "grads", "update"])
def test_terms_have_as_many_operations_at_any_depth_but_for_copies(kind):
    """Ports name arguments and results, so that no label is needed for each array."""
    counts = {
        sum(
            not isinstance(edge.op, Copy)
            for edge in edges(replace(task_of(blocks(n)), rolls=True).term(kind))
        )
        for n in (4, 6)
    }
    assert len(counts) == 1


def test_updates_are_traced_once_for_all_layers():
    def traced(count: int) -> int:
        calls = []

        def put(run, p, dp):
            calls.append(p)
            return (p - dp,)

        task = Task(blocks(count), optimisers.Optimiser("counted", put), losses.mse, rolls=True)
        assert loops_in(task.update_term)
        return len(calls)

    assert traced(4) == traced(12)


def test_parameters_with_equal_optimisers_of_their_own_are_updated_in_a_loop():
    def own(slot):
        return optimisers.adamw(0.01, weight_decay=0.1 if slot.type.rank > 1 else 0.0)

    task = Task(blocks(4), optimisers.grouped(own), losses.mse, rolls=True)
    assert [loop.length for loop in loops_in(task.update_term)] == [4]


@pytest.mark.parametrize("machine", [VECTORS, CUDA], ids=["vectors", "cuda"])
def test_averaged_weights_are_computed_in_loops(machine):
    plain, *tasks = (Task(blocks(n), optimisers.ema(optimisers.sgd(0.1), 0.9), losses.mse) for n in (4, 5, 9))
    tasks = [replace(task, rolls=True) for task in tasks]
    assert len({len([*every_step(lowered(task, "step", machine).steps)]) for task in tasks}) == 1
    rolled = replace(plain, rolls=True)
    arrays = drawn(rolled.step_term)
    close(evaluate(rolled.step_term, *arrays), evaluate(plain.step_term, *arrays))


def test_layers_with_other_updates_are_outside_the_loop():
    def frozen_first(slot):
        return optimisers.frozen() if ".block.0." in slot.name else optimisers.sgd(0.1)

    plain = Task(blocks(5), optimisers.grouped(frozen_first), losses.mse)
    rolled = replace(plain, rolls=True)
    assert [loop.length for loop in loops_in(rolled.update_term)] == [4]
    assert not loops_in(replace(rolled, optimiser=optimisers.frozen()).update_term)
    arrays = drawn(rolled.update_term)
    close(evaluate(rolled.update_term, *arrays), evaluate(plain.update_term, *arrays))


def test_files_of_terms_hold_loops_and_emit_what_the_task_does(tmp_path):
    task = task_of(blocks(4), "sgd")
    catgrad.save(task, tmp_path / "deep.catgrad.json")
    loaded = catgrad.load(tmp_path / "deep.catgrad.json")
    assert loops_in(loaded.entries["step"].term)
    sources = [catgrad.emit(model, "numpy").source for model in (task, loaded)]
    assert sources[0] == sources[1]
    sources += [
        catgrad.emit(task, target, roll=rolls).source for target, rolls in (("c", True), ("c", False))
    ]
    assert all(catgrad.digest(task) in source for source in sources)


@pytest.mark.covering
@pytest.mark.parametrize("target", ["c", "cuda", "numpy", "torch", "jax", "javascript", "webgpu"])
@pytest.mark.parametrize("model", ["dense", "resnet"])
def test_the_lines_of_functions_do_not_depend_on_depth(model, target):
    """More layers are more entries of tables: names or numbers, of which each has a digit."""
    lines = {}
    for count in (8, 24):
        text = emit(task_of(MODELS[model](count), "sgd"), target).source
        lines[count] = len([line for line in text.splitlines() if not any(map(str.isdigit, line))])
    assert lines[8] == lines[24]


def test_a_layer_saves_its_input_alone_if_its_reverse_reads_that_and_its_output():
    """The output of a layer is, in the reverse, the input of the layer after it."""
    task = replace(task_of(dense(7), "sgd"), rolls=True)
    temporary = planned(lowered(task, "step", VECTORS)).offsets
    rows = [array.type.shape[0] for array in temporary if array.type.shape[1:] == X.shape]
    assert rows == [8]


def test_the_reverse_of_a_batch_norm_computes_again_what_it_does_from_statistics():
    task = replace(task_of(resnet(7), "sgd"), rolls=True)
    temporary = planned(lowered(task, "step", VECTORS)).offsets
    rows = [array.type.shape[0] for array in temporary if array.type.shape[1:] == (2, 2, 3, 3)]
    assert sorted(rows) == [7, 7, 8]


def test_results_of_loops_are_updated_in_place():
    task = replace(task_of(blocks(4)), rolls=True)
    results = lowered(task, "step", VECTORS).results
    assert all(result.alias is not None for result in results[1:])


def test_updates_run_in_the_loop_that_computes_the_gradients():
    task = replace(task_of(blocks(7), "sgd"), rolls=True)  # no weight has 7 rows
    found = lowered(task, "step", VECTORS)
    temporary = planned(found)
    weights = {
        array.name for array in temporary.offsets if array.type.shape[:1] == (7,) and "weight" in array.name
    }
    assert not weights  # no gradient is stored for all layers


def test_a_stack_of_two_layers_and_one_with_connections_between_all_stay():
    assert roll(blocks(2)) is not None
    assert not loops_in(roll(blocks(2)))
    each = [layers.swiglu(PLACES, FEATURES, 6, name=f"layer{k}") for k in range(4)]

    def dense(x):
        every = [x]
        for layer in each:
            every.append(layer(sum(every[1:], every[0])))
        return every[-1]

    model = build(dense, [X])
    arrays = drawn(task_of(model).predict_term)
    rolled = replace(task_of(model), rolls=True)
    close(evaluate(rolled.predict_term, *arrays), evaluate(task_of(model).predict_term, *arrays))


def test_a_term_without_repetitions_is_returned_as_it_is():
    term = identity(X, NdArrayType((2,), Dtype.int64))
    assert roll(term) is term
    assert not any(isinstance(op, Scan) for op in operations(lower(layers.dense(PLACES, FEATURES, FEATURES))))
