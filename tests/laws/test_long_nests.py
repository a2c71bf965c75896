"""Laws of nests over many layers: they end where their form recurs, so that equal layers share their code."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import NdArrayType, Task, layers, mse, sgd
from catgrad.functors import reverse
from catgrad.loops.reference import run
from catgrad.programs.program import evaluate
from catgrad.programs.program import lower as straight
from catgrad.testing import draw_arrays
from tests.kernels import SCALARS, VECTORS, compiled
from tests.strategies import float_terms, integer_terms, integers_for
from tests.targets import cannot, emit

FUSE = sys.modules["catgrad.loops.passes.schedule.fuse"]
BATCH, WIDTH = NdArrayType((32,)), NdArrayType((16,))
MACHINES = st.sampled_from([VECTORS, SCALARS])

needs_c = pytest.mark.skipif(bool(cannot("c")), reason=f"target c: {cannot('c')}")


def chain(count):
    dense = [layers.dense(BATCH, WIDTH, WIDTH) for _ in range(count)]
    return Task(layers.sequential(*dense), sgd(0.5), mse, "chain")


@pytest.fixture
def short_nests(monkeypatch):
    monkeypatch.setattr(FUSE, "MAX_STATEMENTS", 2)
    monkeypatch.setattr(FUSE, "FEW_STATEMENTS", 1)


@settings(suppress_health_check=list(HealthCheck))
@given(integer_terms(size=10), MACHINES, st.integers(0, 99))
def test_short_nests_preserve_the_meaning(short_nests, term, machine, seed):
    arrays = integers_for(term, seed)
    found = run(compiled(term, machine), *arrays, shuffled=True)
    for x, y in zip(found, evaluate(straight(term), *arrays), strict=True):
        np.testing.assert_array_equal(x, y)


@settings(suppress_health_check=list(HealthCheck))
@given(float_terms(size=10), MACHINES, st.integers(0, 99))
def test_short_nests_preserve_the_meaning_of_reverses(short_nests, term, machine, seed):
    term = reverse(term)
    arrays = draw_arrays(tuple(term.source.table), (-1.0, 1.0), seed)
    found = run(compiled(term, machine), *arrays, shuffled=True)
    for x, y in zip(found, evaluate(straight(term), *arrays), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def trained(task, target):
    """Return the losses and the last parameters of three steps."""
    learner, rng = emit(task, target).load()().learner(seed=0), np.random.default_rng(0)
    x, y = (rng.standard_normal((32, 16)).astype(np.float32) for _ in range(2))
    losses = [learner.step(x, y) for _ in range(3)]
    return [np.array(losses), *(learner.parameters[name] for name in sorted(learner.parameters))]


@needs_c
def test_the_length_of_nests_does_not_change_a_bit(monkeypatch):
    task = chain(24)
    cut = trained(task, "c")
    monkeypatch.setattr(FUSE, "MAX_STATEMENTS", 10**6)
    for x, y, z in zip(cut, trained(task, "c"), trained(task, "numpy"), strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_allclose(x, z, rtol=1e-4, atol=1e-6)


def source(task):
    return emit(task, "c").files[f"{task.name}.c"]


def test_the_source_of_equal_layers_grows_by_calls_only():
    """Lines grow by the same number for each layer, but for tables, and no function is added."""
    few, more, most = (source(chain(count)) for count in (24, 32, 40))
    functions = [re.findall(r"^static [^;]*?\n{$", text, re.MULTILINE) for text in (few, more, most)]
    assert len({len(found) for found in functions}) == 1
    lines = [text.count("\n") for text in (few, more, most)]
    first, second = lines[1] - lines[0], lines[2] - lines[1]
    assert abs(second - first) < 8  # tables of random streams are broken into lines
    assert second < 8 * 64
    assert most == source(chain(40))
