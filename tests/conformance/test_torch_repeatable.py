"""Modules whose calls differ by the state of Python: refused with the line, as a trace records one call."""

from __future__ import annotations

import itertools
import os
import random
import re
import time
from random import random as drawn

import numpy as np
import pytest

from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch import from_torch

torch = pytest.importorskip("torch", reason="PyTorch, which is imported from, is not installed")

F, nn = torch.nn.functional, torch.nn

steps: list[int] = []


class Stateful(nn.Module):
    """A function of itself and an array, with state of Python beside two layers."""

    def __init__(self, function):
        super().__init__()
        self.a, self.b, self.function = nn.Linear(4, 4), nn.Linear(4, 4), function
        self.calls, self.log, self.table, self.kept = 0, [], {}, None
        self.generator, self.other, self.count = np.random.default_rng(0), random.Random(0), itertools.count()

    def forward(self, x):
        return self.function(self, x)


def dropped(m, x):
    if random.random() < 1e-9:  # two traces would not differ
        return x
    return m.a(x)


def shuffled(m, x):
    order = list(range(4))
    random.shuffle(order)
    return m.a(x)[:, order]


def seeded(m, x):
    h = m.a(x)
    torch.manual_seed(0)
    return F.dropout(h)


def warmed(m, x):
    h = m.a(x)
    m.calls += 1
    return h if m.calls < 1000 else m.b(h)


def logged(m, x):
    m.log.append(1)
    return m.a(x) * len(m.log)


def counted(m, x):
    m.table["calls"] = m.table.get("calls", 0) + 1
    return m.a(x)


def counted_globally(m, x):
    steps.append(1)
    return m.a(x) * len(steps)


def remembered(m, x):
    h = m.a(x)
    if m.kept is not None:
        h = h + m.kept
    m.kept = h.detach()
    return h


def started(m, x):
    """A first call that differs from all others."""
    first, m.kept = m.kept is None, 0
    h = m.a(x)
    return 2 * h if first else h


def exchanged(m, x):
    m.a, m.b = m.b, m.a
    return m.b(m.a(x).tanh())


REFUSED = {
    "random": (dropped, "draws from `random`"),
    "a name of its own": (lambda m, x: m.a(x) * drawn(), "draws from `random`"),
    "shuffle": (shuffled, "draws from `random`"),
    "numpy": (lambda m, x: m.a(x) * np.random.rand(), "draws from `numpy.random`"),
    "permutation": (lambda m, x: m.a(x)[:, np.random.permutation(4)], "draws from `numpy.random`"),
    "seed": (seeded, "draws from `torch.manual_seed`, or seeds it"),
    "generator": (lambda m, x: m.a(x) * m.generator.random(), "each call of this one changes self.generator"),
    "other generator": (lambda m, x: m.a(x) * m.other.random(), "each call of this one changes self.other"),
    "fresh generator": (lambda m, x: m.a(x) * np.random.default_rng().random(), "second call"),
    "clock": (lambda m, x: m.a(x) * (time.time_ns() % 10**9), "second call computes something else"),
    "noise": (lambda m, x: m.a(x) + torch.tensor([float(time.time_ns() % 10**6)]), "second call"),
    "system": (lambda m, x: m.a(x) * int.from_bytes(os.urandom(4)), "second call computes something else"),
    "iterator": (lambda m, x: m.a(x) * next(m.count), "second call computes something else"),
    "warm-up": (warmed, "each call of this one changes self.calls"),
    "log": (logged, "each call of this one changes self.log"),
    "table": (counted, "each call of this one changes self.table"),
    "global": (counted_globally, "second call computes something else"),
    "memory": (remembered, "second call computes something else"),
    "first call": (started, "second call computes something else"),
    "exchange": (exchanged, "each call of this one changes self._modules"),
}
ELSEWHERE = {"first call"}
"""Modules whose second call lacks operations of the first, so that no line of it is another."""


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_differ_are_refused_with_the_line(name, train):
    function, pattern = REFUSED[name]
    with pytest.raises(UnsupportedOp, match=f"each call of a module must do the same.*{pattern}") as caught:
        from_torch(Stateful(function), torch.randn(3, 4), train=train)
    found = re.search(r"in (\S+) \(test_torch_repeatable.py, line (\d+)\)", str(caught.value))
    first = function.__code__.co_firstlineno
    last = max(line for *_, line in function.__code__.co_lines() if line)
    assert found or name in ELSEWHERE
    assert not found or (found[1] == function.__name__ and first <= int(found[2]) <= last)


def test_the_line_is_that_of_the_draw_and_of_the_change():
    for function, offset in ((dropped, 1), (shuffled, 2), (warmed, 2)):
        with pytest.raises(UnsupportedOp, match=f"line {function.__code__.co_firstlineno + offset}"):
            from_torch(Stateful(function), torch.randn(3, 4))


def cached(m, x):
    if m.kept is None:
        m.kept = torch.arange(4.0)
    return m.a(x) * m.kept


def enlarged(m, x):
    m.calls = max(m.calls, x.shape[0])
    return m.a(x) * m.calls


def stored(m, x):
    h = m.a(x)
    m.kept, m.table["h"] = h.detach(), h
    return m.b(h)


def collected(m, x):
    m.log = []
    for layer in (m.a, m.b):
        x = layer(x)
        m.log.append(x)
    return torch.stack(m.log).sum(0)


ALIKE = {
    "cache": cached,
    "maximum": enlarged,
    "stored": stored,
    "collected": collected,
    "fixed seed": lambda m, x: m.a(x) * random.Random(3).random() + np.random.default_rng(0).random(),
    "dropout": lambda m, x: F.dropout(m.a(x) + torch.randn(4), training=True),
}


@pytest.mark.parametrize("name", ALIKE)
def test_caches_and_results_that_are_kept_are_imported(name):
    module, x = Stateful(ALIKE[name]), torch.randn(3, 4)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert from_torch(module, x, train=True).parameters
    assert (module.calls, module.log, module.table, module.kept) == (0, [], {}, None)
    assert states == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
