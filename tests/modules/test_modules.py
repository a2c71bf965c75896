"""Modules as people publish them train five steps as in PyTorch, with no line changed."""

from __future__ import annotations

import pytest

from tests.covering import some
from tests.modules.trial import MODULES, outcome

pytestmark = pytest.mark.filterwarnings("ignore")
"""PyTorch warns of its older functions, and a replay of modules that do not run in float64."""

FIXED = ("CLIP loss", "GCN on one graph", "Gaussian process", "dynamic convolution", "prototypical network")
"""Modules that fix the size of the batch, which is then that of the examples."""

OWN = "a gradient must be that of the operations of a module"
REFUSED = {
    "binarised layer": OWN,
    "domain adversary": OWN,
    "mixture of experts by index": "sizes",
}
"""Modules that are refused, with a part of the reason."""

QUICK = set(list(MODULES)[::10])
"""Modules that train in every run of the tests."""


@pytest.mark.parametrize("name", some(MODULES, QUICK))
def test_modules_train_as_in_pytorch(name):
    result, reason = outcome(name)
    if name in REFUSED:
        assert result == "refused" and REFUSED[name] in reason
    else:
        assert (result, reason) == ("right, batch fixed" if name in FIXED else "right", "")


def test_most_modules_are_right():
    assert len(MODULES) >= 120 and len(REFUSED) <= len(MODULES) / 8
