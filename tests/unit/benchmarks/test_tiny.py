"""The networks of MLPerf Tiny have their published sizes, and a Cortex-M4 trains as this machine does."""

from __future__ import annotations

from math import isclose

import numpy as np
import pytest

from benchmarks.machine import operations
from benchmarks.tables import markdown, write_table
from benchmarks.tiny import build
from benchmarks.tiny.nets import NETS, task
from benchmarks.tiny.peers import NETS as PEER_NETS
from benchmarks.tiny.peers import dense, require_agreement
from catgrad.errors import ToolError, VerificationError
from catgrad.learn.optimisers import sgd
from tests.targets import emit

REASON = build.compiler.COMPILER.missing() or build.missing() or build.QEMU.missing()


@pytest.mark.parametrize(
    ("net", "parameters", "multiplications"),
    [
        ("ResNet-8", 78_000, 12.5e6),
        ("DS-CNN", 23_000, 2.66e6),
        ("MobileNetV1 0.25", 211_000, 7.49e6),
        ("auto-encoder", 266_000, 0.264e6),
    ],
)
def test_networks_have_their_published_sizes(net, parameters, multiplications):
    each = task(NETS[net](), sgd(0.1))
    assert isclose(sum(slot.type.size for slot in each.parameters), parameters, rel_tol=0.02)
    assert isclose(operations(each, "predict") / 2, multiplications, rel_tol=0.005)


@pytest.mark.skipif(bool(REASON), reason=str(REASON))
def test_a_microcontroller_trains_as_this_machine_does(tmp_path):
    net = PEER_NETS[0]
    build.write(tmp_path, dense(net), net.bound)
    sources = ["trainer.c", "tiny.c"]
    board, here = build.on_board(tmp_path, sources), build.trained(build.hosted(tmp_path, sources), 1)
    assert isclose(board.total, here.total, rel_tol=1e-5)
    assert here.parameter_bytes == 4 * (5 * 20 + 21 * 3)
    assert board.variables > here.parameter_bytes + here.training_bytes
    assert 0 < board.stack < 2**20
    macs = operations(dense(net), "step") / 2
    assert 1 < board.instructions / macs < 100


def test_trainers_fill_arrays_as_numpy_would(tmp_path):
    """One step of the trainer has the outputs of the same step in NumPy."""
    if reason := build.compiler.COMPILER.missing():
        pytest.skip(reason)
    net = PEER_NETS[0]
    build.write(tmp_path, dense(net), net.bound)
    learner = emit(dense(net), "numpy").load()().learner(0)
    for seed, array in enumerate(learner.parameters.values(), 1):
        array[...] = filled(array.shape, net.bound, seed)
    x, y = filled((net.batch, net.sizes[0]), 1.0, 100), filled((net.batch, net.sizes[-1]), 1.0, 200)
    learner.step(x, y)
    wanted = np.sum(np.arange(1, y.size + 1) * np.ravel(learner.predict(x)).astype(float))
    found = build.trained(build.hosted(tmp_path, ["trainer.c", "tiny.c"]), 1).total
    assert isclose(found, wanted, rel_tol=1e-6)


def filled(shape, bound, seed):
    numbers = []
    for _ in range(int(np.prod(shape))):
        seed = (seed * 1664525 + 1013904223) % 2**32
        numbers.append((seed >> 8) / 8388608 - 1)
    return (np.reshape(numbers, shape) * bound).astype(np.float32)


def test_programs_that_disagree_are_refused():
    with pytest.raises(VerificationError, match="AIfES sum to 2.0"):
        require_agreement({"catgrad": [1.0, 1.0], "AIfES": [1.0, 2.0]})


def test_a_program_that_cannot_be_built_is_an_error(tmp_path):
    with pytest.raises(ToolError, match="must succeed"):
        build.said(["false"], tmp_path)


def test_tables_of_pages_are_replaced(tmp_path):
    page, old = tmp_path / "page.md", markdown(["a", "b"], [["1", "2"]])
    page.write_text(f"before\n\n{old}\n\nafter\n\n| other | b |\n")
    write_table(page, markdown(["a", "b"], [["3", "4"], ["5", "6"]]))
    assert page.read_text() == (
        "before\n\n| a | b |\n| --- | ---: |\n| 3 | 4 |\n| 5 | 6 |\n\nafter\n\n| other | b |\n"
    )
