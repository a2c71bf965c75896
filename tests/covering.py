"""Covering arrays of tests' parameters: what repeats the values of quicker tests is long.

`@pytest.mark.covering` keeps, of a test's combinations of parameters, a few in which each value of each
parameter occurs; `covering(2)` keeps some in which each pair of values does, and `covering(0)` keeps one. The
others are marked `long`. Of combinations that add as many values the first is kept: cheap values come first.
Values of one parameter that most runs leave out are marked by `some`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import pytest


def some(values: Iterable[object], quick: Collection[object]) -> list[object]:
    """Return parameters of a test, of which all but the quick ones are long."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.long) for value in values]


def repeated(grid: Sequence[Mapping[str, object]], strength: int) -> Iterator[int]:
    """Yield the places of combinations that a greedy covering array of this strength leaves out."""
    values = [[(name, repr(value)) for name, value in sorted(each.items())] for each in grid]
    held = [set(combinations(each, min(strength, len(each)))) for each in values]
    missing, rest = set[tuple[object, ...]]().union(*held), list(range(len(grid)))
    while missing:
        best = max(rest, key=lambda place: len(held[place] & missing))
        missing -= held[best]
        rest.remove(best)
    yield from rest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Mark the combinations beyond a covering array as long, apart from those that are long or skipped."""
    grids = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("covering")
        skipped = any(each.args[0] is True for each in item.iter_markers("skipif"))
        if mark and hasattr(item, "callspec") and not skipped and not item.get_closest_marker("long"):
            grids[item.parent, item.originalname, *(mark.args or (1,))].append(item)
    for (*_, strength), found in grids.items():
        for place in repeated([item.callspec.params for item in found], strength):
            found[place].add_marker("long")
