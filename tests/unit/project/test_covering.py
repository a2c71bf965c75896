"""Covering arrays of tests' parameters hold each value or pair that the whole grid holds."""

from __future__ import annotations

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from tests.covering import repeated


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 3))
def test_each_combination_of_values_is_kept(sizes, strength):
    grid = [dict(enumerate(values)) for values in product(*map(range, sizes))]

    def held(rows):
        return {part for row in rows for part in combinations(row.items(), min(strength, len(sizes)))}

    left_out = {*repeated(grid, strength)}
    kept = [row for place, row in enumerate(grid) if place not in left_out]
    assert held(kept) == held(grid)
    assert 0 < len(kept) <= len(held(grid))
