"""Steps that one block repeats compute what steps one after the other do, without races."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from catgrad.backends.cuda.machine import ONE_BLOCK

from catgrad import NdArrayType, Task, layers, losses, optimisers
from catgrad.loops.ir.nest import Barrier, Kernel, Loop, statements
from catgrad.loops.ir.scalar import Space
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import LARGE_BLOCK
from catgrad.loops.passes.gpu.grids.one_block import is_repeated
from catgrad.programs.program import evaluate
from tests.covering import some
from tests.gpu import run_in_teams
from tests.laws.test_rolled_stacks import drawn, lowered


def perceptron(batch: int, *widths: int, optimiser=optimisers.sgd(0.1)) -> Task:
    """Train two layers."""
    first, hidden, last = (NdArrayType((width,)) for width in widths)
    rows = NdArrayType((batch,))
    model = layers.dense(rows, first, hidden, name="first") >> layers.linear(rows, hidden, last, name="last")
    return Task(model, optimiser, losses.mse, "perceptron")


TASKS = {
    "iris": lambda: perceptron(150, 4, 20, 3),
    "rows of 16 bytes": lambda: perceptron(4, 16, 64, 8),
    "adamw": lambda: perceptron(7, 5, 9, 3, optimiser=optimisers.adamw(0.01)),
    "few rows": lambda: perceptron(24, 4, 6, 3),
    "one row": lambda: perceptron(1, 5, 9, 3),
}


def repeated(task: Task, steps: int = 3) -> tuple[Lowered, list[np.ndarray], list[np.ndarray]]:
    """Compile steps in one block; returns the arguments, and the results of steps one after the other."""
    block = lowered(task, "step", ONE_BLOCK)
    assert is_repeated(block)
    term = task.step_term
    roles = [port.role.is_table for port in block.function.inputs]
    tables = [array for array, is_table in zip(drawn(term), roles, strict=True) if is_table]
    rng = np.random.default_rng(1)
    shapes = [a.type.shape[1:] for a, is_table in zip(block.arguments, roles, strict=True) if not is_table]
    rows = [rng.normal(size=(steps, *shape)).astype(np.float32) for shape in shapes]
    given, results = [*tables], list[list[np.ndarray]]()
    for t in range(steps):
        own, each = iter(given), iter(row[t] for row in rows)
        results.append(evaluate(term, *(next(own) if is_table else next(each) for is_table in roles)))
        given = [r for r, port in zip(results[-1], block.function.outputs, strict=True) if port.role.is_table]
    own, each = iter(tables), iter(rows)
    arguments = [next(own) if is_table else next(each) for is_table in roles]
    wanted = [
        last if port.role.is_table else np.stack([r[k] for r in results])
        for k, (last, port) in enumerate(zip(results[-1], block.function.outputs, strict=True))
    ]
    return block, arguments, wanted


@pytest.mark.parametrize("name", some(TASKS, TASKS.keys() - {"iris"}))
def test_repeated_steps_compute_what_steps_do_without_races(name):
    block, arguments, wanted = repeated(TASKS[name]())
    for found, array in zip(run_in_teams(block, *arguments), wanted, strict=True):
        np.testing.assert_allclose(found, array, rtol=2e-5, atol=2e-6)


def without(items, number: int, seen: list[int]):
    """Leave out a barrier."""
    done = []
    for item in items:
        if isinstance(item, Loop):
            item = replace(item, body=without(item.body, number, seen))
        if isinstance(item, Barrier):
            seen.append(1)
            if len(seen) == number:
                continue
        done.append(item)
    return done


def test_every_barrier_is_needed():
    block, arguments, _ = repeated(TASKS["few rows"]())
    (kernel,) = block.steps
    barriers = sum(isinstance(s, Barrier) for s in statements(kernel.body))
    assert barriers > 3
    for number in range(1, barriers + 1):
        wrong = replace(block, steps=[Kernel(without(kernel.body, number, []))])
        with pytest.raises(AssertionError, match="without a barrier|another thread"):
            run_in_teams(wrong, *arguments)


def test_long_sums_of_few_elements_have_parts_for_all_threads():
    """Two weights and a bias are sums of 150 terms."""
    (kernel,) = lowered(TASKS["iris"](), "step", ONE_BLOCK).steps
    parts = {b for b, _ in kernel.writes if b.name.endswith("_parts")}
    assert len(parts) == 3
    assert all(LARGE_BLOCK // 2 < b.type.size <= LARGE_BLOCK and b.space is Space.SHARED for b in parts)
