"""Stored initial values are equal if their bytes are."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad.initialisers import Normal, Stored

ARRAYS = [
    np.zeros((2, 3)), -np.zeros((2, 3)), np.zeros((3, 2)), np.zeros((2, 3), np.float32),
    np.full((2, 3), np.nan), np.array(1.5), np.array(2.5), np.zeros((0, 3)), np.arange(6.0).reshape(3, 2).T,
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(ARRAYS)))
def test_arrays_are_equal_by_their_bytes(k):
    stored = Stored(ARRAYS[k], Normal(0, 1))
    copy = Stored(ARRAYS[k].copy(order="K"), Normal(0, 1))
    assert copy == stored and hash(copy) == hash(stored)
    assert [j for j, array in enumerate(ARRAYS) if Stored(array, Normal(0, 1)) == stored] == [k]
    assert stored not in (Stored(ARRAYS[k]), ARRAYS[k].tobytes())
