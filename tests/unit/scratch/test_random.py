"""Random numbers in Scratch agree with other targets, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from catgrad.backends.scratch.compile.bits import odd_bits, spread_bits
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, Task, build, emit, layers, mse, ops, sgd
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.scratch.machines import on_machines

BATCH, INPUT, HIDDEN = (NdArrayType(shape, Dtype.float64) for shape in ((4,), (3,), (6,)))

byte = st.integers(0, 255)


@given(byte, byte, byte)
def test_exclusive_or_of_three_words_by_addition(x, y, z):
    apart, odd = [0, *spread_bits()], [0, *odd_bits()]
    total = apart[x] + apart[y] + apart[z]
    assert odd[total % 256] + 16 * odd[total // 256] == x ^ y ^ z


@on_machines
def test_sprites_draw_the_bits_of_other_targets(vm):
    """Keys and counters use all words; numbers of Scratch are exact up to 2⁵³."""
    backend = get_backend("scratch")
    backend = replace(backend, options=replace(backend.options, vm=vm))
    term = build(lambda s, c: ops.random_bits((3, 5), 2**32 - 1, s, c), [ops.random.KEY] * 2)
    for seed, counter in ((0, 0), (1, 2**33 + 1), (-1, 2**53 - 1), (2**53 - 1, 2**32)):
        keys = np.array(seed), np.array(counter)
        [wanted], [found] = evaluate(term, *keys), run_on(backend, term, *keys)
        assert np.array_equal(found, wanted)


@on_machines
def test_a_model_with_dropout_trains_as_in_numpy(vm):
    model = layers.sequential(
        layers.dense(BATCH, INPUT, HIDDEN, layers.sigmoid),
        layers.dropout(NdArrayType((4, 6), Dtype.float64), 0.5),
        layers.dense(BATCH, HIDDEN, INPUT),
    )
    task = Task(model, sgd(0.1), mse, "noisy")
    ours, theirs = emit(task, "scratch", vm=vm).load()(), emit(task, "numpy").load()()
    draw = np.random.default_rng(0).normal
    x, y = draw(size=(4, 3)), draw(size=(4, 3))
    rate = ours.init_state()
    found = wanted = [*ours.init_buffers(5), *ours.init(3)]
    for _ in range(3):
        _, *found = ours.step(*rate, *found, x, y)
        _, *wanted = theirs.step(*wanted, x, y)
        found = found[len(rate) :]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert found[1] == 3, "each step draws anew"
