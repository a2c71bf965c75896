"""Memory traffic of schedules for GPUs: how often the threads of all kernels read and write each array."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, build, discard, identity, losses, ops
from catgrad.functors import Expand, reverse, reverse_derivative
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.scalar import Space
from catgrad.loops.passes.simplify.bind import RegisterCosts, binder
from catgrad.programs.program import evaluate, lower
from tests.differential import pruned
from tests.gpu import MACHINES, Teams, limits
from tests.kernels import has, prepared

EXPAND = Expand(has)
BATCH = Dim("batch")
BIND = binder(RegisterCosts())
"""Common subexpressions are loaded once."""


class Traffic(Teams):
    """Count how often elements of each array in memory are read and written."""

    def __init__(self, lowered, arrays):
        super().__init__(lowered, arrays)
        self.counts = Counter()

    def touch(self, array, indices, place, kind):
        """Count an access."""
        super().touch(array, indices, place, kind)
        if not array.is_of_kernel:
            self.counts[array.home, kind] += 1


def run(term, *arrays, machine="default"):
    """Run a term's kernels and return its results, and the numbers of accesses to arrays."""
    with limits(machine):
        lowered = compile_kernels(prepared(lower(EXPAND(pruned(term)))), MACHINES[machine])
    lowered = lowered.map_kernels(lambda kernel: BIND(kernel, MACHINES[machine]))
    traffic = Traffic(lowered, arrays)
    with np.errstate(all="ignore"):
        traffic.steps(lowered.steps)
    return [traffic.memory_of(r) for r in lowered.results], traffic.counts


def counted(counts, kind, size):
    """Return how often matrices of a size are accessed in all."""
    return sum(n for (array, of), n in counts.items() if of == kind and array.type.rank == 2) // size


def cross_entropy(rows, classes):
    """Compute the loss and its gradient."""
    scores, labels = NdArrayType((rows, classes)), NdArrayType((rows,), Dtype.int64)
    both = reverse(build(losses.cross_entropy, [scores, labels]))
    return both >> identity(NdArrayType(()), scores) @ discard(labels)


ROWS = {
    "softmax": lambda x: ops.softmax(x),
    "layer norm": lambda x: ops.layer_norm(x),
    "root mean square": lambda x: ops.rms_norm(x),
}


@pytest.mark.parametrize("shape", [(3, 301), (9, 132), (2, 640)])
@pytest.mark.parametrize("name", ROWS)
def test_rows_are_read_once_and_written_once(name, shape):
    """Rows of whole and of broken strips, by warps and by blocks."""
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    term = build(ROWS[name], [NdArrayType(shape)])
    [found], counts = run(term, x)
    [wanted] = evaluate(term, x)
    np.testing.assert_allclose(found.reshape(shape), wanted, rtol=1e-5, atol=1e-6)
    assert (counted(counts, "read", x.size), counted(counts, "written", x.size)) == (1, 1)


@pytest.mark.parametrize("rows", [64, BATCH])
def test_scores_are_read_once_for_their_loss_and_gradient(rows):
    """A label selects one term of a sum, and needs no pass over the row."""
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(64, 70)).astype(np.float32), rng.integers(0, 70, 64)
    labels[3] = -100
    term = cross_entropy(rows, 70)
    found, counts = run(term, scores, labels, np.float32(1))
    for mine, wanted in zip(found, evaluate(term, scores, labels, np.float32(1)), strict=True):
        np.testing.assert_allclose(mine, np.ravel(wanted), rtol=1e-5, atol=1e-6)
    assert (counted(counts, "read", scores.size), counted(counts, "written", scores.size)) == (1, 1)


@pytest.mark.parametrize("shape", [(600, 8), (601, 8), (600, 7)])
def test_sums_over_the_same_rows_read_them_once(shape):
    """The gradients of a norm's weight and shift, in two stages, by threads with one or four columns."""

    def sums(x, dy):
        return ops.sum(x * dy, (0,)), ops.sum(dy, (0,))

    rng = np.random.default_rng(0)
    x, dy = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    term = build(sums, [NdArrayType(shape)] * 2)
    found, counts = run(term, x, dy, machine="small")
    for mine, wanted in zip(found, evaluate(term, x, dy), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-5)
    read = sum(n for (array, kind), n in counts.items() if (kind, array.space) == ("read", Space.ARGUMENT))
    assert read == x.size + dy.size


@pytest.mark.covering
@pytest.mark.parametrize("shape", [(64, 132), (32, 33), (2, 16, 40)])
@pytest.mark.parametrize("norm", [ops.layer_norm, ops.rms_norm])
def test_gradients_of_a_norm_are_computed_while_its_rows_are_at_hand(norm, shape):
    """Rows and the sums of their columns are one kernel, that of the rows' means and deviations another."""

    def affine(x, weight):
        return norm(x) * ops.broadcast(weight, shape)

    types = [NdArrayType(shape), NdArrayType(shape[-1:])]
    term = reverse_derivative(build(affine, types))
    rng = np.random.default_rng(0)
    x, weight, dy = (rng.normal(size=s).astype(np.float32) for s in (shape, shape[-1:], shape))
    found, counts = run(term, x, weight, dy, machine="rows")
    for mine, wanted in zip(found, evaluate(term, x, weight, dy), strict=True):
        np.testing.assert_allclose(mine, np.ravel(wanted), rtol=1e-4, atol=1e-4)
    read = [n for (array, kind), n in counts.items() if kind == "read" and array.type.shape == shape]
    assert sum(read) <= 3 * x.size
